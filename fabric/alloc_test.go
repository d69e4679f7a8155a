//go:build linux && cgo && !nofabric && !asan

package fabric_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
)

// Under ASan what is handed to C escapes.
func TestPostingAndPollingAllocateNothing(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a, b := pair(t, provider, setting{})
		from, to := a.buffer(4096), b.buffer(4096)
		template, err := fabric.NewTemplate(fabric.TemplatePart{Endpoint: a.ep, Kind: fabric.OpWrite, LKey: from.LKey(),
			Ops: []fabric.Op{to.at(fabric.Op{ID: 1}, 0), to.at(fabric.Op{ID: 2}, 0)}})
		require.NoError(t, err)
		closeAtEnd(t, template)
		a.post(a.ep.Write, []fabric.Op{to.at(fabric.Op{ID: 9, NumSeg: 1}, 0)}, []fabric.Seg{from.Seg(0, 1)}, b) // connects
		a.complete(9, b)
		var word atomic.Uint64
		require.Zero(t, testing.AllocsPerRun(100, func() {
			var ops [4]fabric.Op
			var segs [4]fabric.Seg
			var patches [2]fabric.Patch
			for i := range ops {
				ops[i] = to.at(fabric.Op{NumSeg: 1}, 0)
				segs[i] = from.Seg(0, 8)
			}
			for i := range patches {
				patches[i] = fabric.Patch{Index: uint32(i), Addr: from.Local(), Length: 8, RemoteAddr: to.Addr()}
			}
			var completions [8]fabric.Completion
			sent, errWrite := a.ep.Write(ops[:2], segs[:2])
			more, got, errPoll := a.ep.PostPoll(fabric.OpWrite, ops[2:], segs[2:], completions[:], fabric.MaxSpin)
			posted, errPost := template.Post(patches[:])
			var bytes [8]byte
			errInject := a.ep.Inject(fabric.OpWrite, to.at(fabric.Op{ID: 5, Flags: fabric.FlagCompletion}, 0), bytes[:])
			for got < 7 {
				n, errA := a.cq.PollSpinWhile(completions[:], fabric.MaxSpin, &word, 0)
				_, errB := b.cq.Poll(completions[:])
				if errA != nil || errB != nil || errWrite != nil || errPost != nil || errPoll != nil || errInject != nil || sent+more != 4 || posted != 2 {
					panic("posting failed")
				}
				got += n
			}
		}))
	})
}
