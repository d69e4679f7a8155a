//go:build linux && cgo && !noverbs && !asan && !race

package verbs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/verbs"
)

// Under ASan, and where the race detector is told of it, what is handed to C escapes.
func TestNullPostingAllocatesNothing(t *testing.T) {
	n := newNull(t, nil)
	a, b := n.connected(t)
	template, err := verbs.NewTemplate(verbs.TemplatePart{QP: a, WRs: sends(4)}, verbs.TemplatePart{QP: b, WRs: sends(4)})
	require.NoError(t, err)
	closeAtEnd(t, template)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		var wrs [4]verbs.SendWR
		var patches [8]verbs.Patch
		var wcs [16]verbs.WC
		for i := range patches {
			patches[i].Index = uint32(i)
		}
		for i := range wrs {
			wrs[i] = verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}
		}
		_, errSend := a.PostSend(wrs[:], nil)
		_, errPost := template.Post(patches[:])
		errInline := a.PostInline(wrs[0], make([]byte, 16)) // on the stack
		got, errPoll := n.cq.Poll(wcs[:])
		if errSend != nil || errPost != nil || errInline != nil || errPoll != nil || got != 13 {
			panic("posting failed")
		}
	}))
}
