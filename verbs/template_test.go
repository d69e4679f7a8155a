//go:build linux && cgo && !noverbs

package verbs_test

import (
	"fmt"
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/verbs"
)

// A list of queue pairs, one for each peer, is posted to in one crossing into C: the driver sees a post for each.
func TestNullTemplateOfManyPeersIsOneCrossing(t *testing.T) {
	const peers = 8
	n := newNull(t, nil)
	var parts []verbs.TemplatePart
	for range peers / 2 {
		a, b := n.connected(t)
		for _, qp := range []*verbs.QP{a, b} {
			parts = append(parts, verbs.TemplatePart{QP: qp, LKey: 1, WRs: []verbs.SendWR{
				{ID: uint64(qp.Num()), Opcode: verbs.OpWriteImm, Imm: 5, RKey: 6, Flags: verbs.SendSignaled},
			}})
		}
	}
	template, err := verbs.NewTemplate(parts...)
	require.NoError(t, err)
	closeAtEnd(t, template)
	require.Equal(t, peers, template.Len())
	patches := make([]verbs.Patch, peers)
	for i := range patches {
		patches[i] = verbs.Patch{Addr: 0x1000, RemoteAddr: 0x2000, Length: 64, Index: uint32(i)}
	}
	accepted, err := template.Post(patches)
	require.NoError(t, err)
	require.Equal(t, peers, accepted)
	require.Equal(t, uint64(1), template.Crossings())
	for _, part := range parts {
		require.Zero(t, part.QP.Crossings())
	}
	require.Equal(t, peers, n.null.Calls("post_send"))
	wcs := n.take(t)
	require.Len(t, wcs, peers)
	for i, wc := range wcs {
		require.Equal(t, uint64(parts[i].QP.Num()), wc.ID)
	}
	require.ErrorIs(t, parts[0].QP.Close(), syscall.EBUSY, "the template stands on it")
}

func TestNullTemplateTellsWhereItStops(t *testing.T) {
	n := newNull(t, nil)
	a, b := n.connected(t)
	template, err := verbs.NewTemplate(verbs.TemplatePart{QP: a, WRs: sends(10)}, verbs.TemplatePart{QP: b, WRs: sends(10)})
	require.NoError(t, err)
	closeAtEnd(t, template)
	patches := make([]verbs.Patch, 20)
	for i := range patches {
		patches[i].Index = uint32(i)
	}
	for i := range patches {
		n.null.Fail("post_send", i, -int(syscall.ENOMEM), 0)
		accepted, err := template.Post(patches)
		require.ErrorIs(t, err, verbs.ErrQueueFull)
		require.ErrorContains(t, err, fmt.Sprintf("QP %d: work request %d of 20", []*verbs.QP{a, b}[i/10].Num(), i))
		require.Equal(t, i, accepted)
		require.Len(t, n.take(t), i)
	}
	patches[15].Index = 20
	accepted, err := template.Post(patches)
	require.ErrorContains(t, err, "patch 15 of 20 has index 20: 20 are prepared")
	require.Zero(t, accepted)
	patches[15].Index, patches[15].Length = 15, 1<<30+1
	accepted, err = template.Post(patches)
	require.ErrorContains(t, err, "longer than a message")
	require.Zero(t, accepted)
	require.Empty(t, n.take(t))

	n.null.FailSend(0, uint32(verbs.WCRemoteAccess), 0)
	_, err = template.Post(patches[:1])
	require.NoError(t, err)
	n.take(t)
	_, err = template.Post(patches[:2])
	require.ErrorIs(t, err, verbs.WCRemoteAccess)
	_, err = template.Post(patches[10:12])
	require.NoError(t, err, "the other peer")
}

func TestNullTemplateRefuses(t *testing.T) {
	n := newNull(t, nil)
	a, b := n.connected(t)
	for name, parts := range map[string][]verbs.TemplatePart{
		"nothing":  nil,
		"no QP":    {{WRs: sends(1)}},
		"QP twice": {{QP: a, WRs: sends(1)}, {QP: b, WRs: sends(1)}, {QP: a, WRs: sends(1)}},
		"atomics":  {{QP: a, WRs: sends(1)}, {QP: b, WRs: []verbs.SendWR{{Opcode: verbs.OpFetchAdd}}}},
		"no peer":  {{QP: n.datagrams(t), WRs: sends(1)}},
		"inlining": {{QP: a, WRs: []verbs.SendWR{{Opcode: verbs.OpRead, Flags: verbs.SendInline}}}},
	} {
		_, err := verbs.NewTemplate(parts...)
		require.ErrorIs(t, err, syscall.EINVAL, name)
	}
	require.NoError(t, a.Reset(), "what was refused holds nothing")
}

// BenchmarkEmptyCrossing is what a call into C costs that does nothing.
func BenchmarkEmptyCrossing(b *testing.B) {
	const calls = 512
	fastest := newFastest()
	left := calls
	for b.Loop() {
		cgotest.EmptyCrossing()
		if left--; left == 0 {
			left = calls
			fastest.batch()
		}
	}
	fastest.report(b, calls, "min-ns/op")
}

// fastest is the shortest of many batches, each so short that hardly anything else comes between: what a call costs also on a
// machine that others use meanwhile.
type fastest struct {
	start       time.Time
	last, least time.Duration
}

func newFastest() *fastest { return &fastest{start: time.Now(), least: math.MaxInt64} }

// batch ends one and begins the next.
func (f *fastest) batch() {
	now := time.Since(f.start)
	f.least = min(f.least, now-f.last)
	f.last = now
}

func (f *fastest) report(b *testing.B, parts int, unit string) {
	if f.last != 0 { // a run of few iterations has no whole batch
		b.ReportMetric(float64(f.least.Nanoseconds())/float64(parts), unit)
	}
}

// BenchmarkChain64 posts chains of 64 writes to the null provider, the last of each signalled, and polls for 8 chains at a
// time.
func BenchmarkChain64(b *testing.B) {
	n := newNull(b, nil)
	qp := n.sender(b)
	wrs, sges := make([]verbs.SendWR, 64), make([]verbs.SGE, 64)
	for i := range wrs {
		wrs[i] = verbs.SendWR{Opcode: verbs.OpWrite, NumSGE: 1}
		sges[i].Length = 64
	}
	wrs[63].Flags = verbs.SendSignaled
	n.measure(b, 64, 8, func(int) error {
		_, err := qp.PostSend(wrs, sges)
		return err
	})
}

// BenchmarkTemplate64 posts a template of 64 writes, with new addresses and lengths, likewise.
func BenchmarkTemplate64(b *testing.B) {
	n := newNull(b, nil)
	wrs, patches := make([]verbs.SendWR, 64), make([]verbs.Patch, 64)
	wrs[63].Flags = verbs.SendSignaled
	template, err := verbs.NewTemplate(verbs.TemplatePart{QP: n.sender(b), WRs: wrs})
	require.NoError(b, err)
	closeAtEnd(b, template)
	n.measure(b, 64, 8, func(i int) error {
		for k := range patches {
			patches[k] = verbs.Patch{Addr: uint64(i), RemoteAddr: uint64(i), Length: 64, Index: uint32(k)}
		}
		_, err := template.Post(patches)
		return err
	})
}

// BenchmarkPost1 posts single writes, one in 64 signalled, likewise.
func BenchmarkPost1(b *testing.B) {
	n := newNull(b, nil)
	qp := n.sender(b)
	wrs, sges := []verbs.SendWR{{Opcode: verbs.OpWrite, NumSGE: 1}}, []verbs.SGE{{Length: 64}}
	n.measure(b, 1, 512, func(i int) error {
		wrs[0].Flags = 0
		if i%64 == 63 {
			wrs[0].Flags = verbs.SendSignaled
		}
		_, err := qp.PostSend(wrs, sges)
		return err
	})
}

// sender is a queue pair with a deep send queue.
func (n *nullNode) sender(b *testing.B) *verbs.QP {
	qp, err := n.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: 1024})
	require.NoError(b, err)
	closeAtEnd(b, qp)
	end, err := qp.Init(n.gid, remoteAccess)
	require.NoError(b, err)
	require.NoError(b, qp.Connect(end, verbs.ConnectConfig{}))
	return qp
}

// measure calls post, which posts so many work requests, and polls after so many calls; and reports ns/WR, and min-ns/WR of
// the fastest batch of these.
func (n *nullNode) measure(b *testing.B, requests, calls int, post func(i int) error) {
	var wcs [8]verbs.WC
	left := calls // counted down, since a division costs as much as a post
	fastest := newFastest()
	for i := 0; b.Loop(); i++ {
		if err := post(i); err != nil {
			b.Fatal(err)
		}
		if left--; left > 0 {
			continue
		}
		left = calls
		if got, err := n.cq.Poll(wcs[:]); got != len(wcs) || err != nil {
			b.Fatal(got, err)
		}
		fastest.batch()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*requests), "ns/WR")
	fastest.report(b, calls*requests, "min-ns/WR")
}
