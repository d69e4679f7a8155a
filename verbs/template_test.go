//go:build linux && cgo && !noverbs

package verbs_test

import (
	"syscall"
	"testing"

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
		"atomics":  {{QP: a, WRs: sends(1)}, {QP: b, WRs: []verbs.SendWR{{Opcode: verbs.OpFetchAdd}}}},
		"no peer":  {{QP: n.datagrams(t), WRs: sends(1)}},
		"inlining": {{QP: a, WRs: []verbs.SendWR{{Opcode: verbs.OpRead, Flags: verbs.SendInline}}}},
	} {
		_, err := verbs.NewTemplate(parts...)
		require.ErrorIs(t, err, syscall.EINVAL, name)
	}
	require.NoError(t, a.Reset(), "what was refused holds nothing")
}

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
		got, errPoll := n.cq.Poll(wcs[:])
		if errSend != nil || errPost != nil || errPoll != nil || got != 12 {
			panic("posting failed")
		}
	}))
}

// BenchmarkEmptyCrossing is what a call into C costs that does nothing.
func BenchmarkEmptyCrossing(b *testing.B) {
	for b.Loop() {
		cgotest.EmptyCrossing()
	}
}

// BenchmarkChain64 posts chains of 64 writes to the null provider, of which the last is signalled and polled.
func BenchmarkChain64(b *testing.B) {
	benchmarkChain(b, 64)
}

// BenchmarkPost1 posts single writes to the null provider, and polls once for 32 of them.
func BenchmarkPost1(b *testing.B) {
	n := newNull(b, nil)
	qp, _ := n.connected(b)
	wrs := []verbs.SendWR{{Opcode: verbs.OpWrite, NumSGE: 1}}
	sges := []verbs.SGE{{Length: 64}}
	var wcs [32]verbs.WC
	for i := 0; b.Loop(); i++ {
		wrs[0].Flags = 0
		if i%32 == 31 {
			wrs[0].Flags = verbs.SendSignaled
		}
		if _, err := qp.PostSend(wrs, sges); err != nil {
			b.Fatal(err)
		}
		if i%32 == 31 {
			if _, err := n.cq.Poll(wcs[:]); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/WR")
}

func benchmarkChain(b *testing.B, chain int) {
	n := newNull(b, nil)
	qp, _ := n.connected(b)
	wrs, sges := make([]verbs.SendWR, chain), make([]verbs.SGE, chain)
	for i := range wrs {
		wrs[i] = verbs.SendWR{Opcode: verbs.OpWrite, NumSGE: 1}
		sges[i].Length = 64
	}
	wrs[chain-1].Flags = verbs.SendSignaled
	var wcs [1]verbs.WC
	for b.Loop() {
		if _, err := qp.PostSend(wrs, sges); err != nil {
			b.Fatal(err)
		}
		if _, err := n.cq.Poll(wcs[:]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*chain), "ns/WR")
}

// BenchmarkTemplate64 posts a template of 64 writes, with new addresses and lengths.
func BenchmarkTemplate64(b *testing.B) {
	n := newNull(b, nil)
	qp, _ := n.connected(b)
	wrs, patches := make([]verbs.SendWR, 64), make([]verbs.Patch, 64)
	wrs[63].Flags = verbs.SendSignaled
	template, err := verbs.NewTemplate(verbs.TemplatePart{QP: qp, WRs: wrs})
	require.NoError(b, err)
	closeAtEnd(b, template)
	var wcs [1]verbs.WC
	for b.Loop() {
		for i := range patches {
			patches[i] = verbs.Patch{Addr: 0x1000, RemoteAddr: 0x2000, Length: 64, Index: uint32(i)}
		}
		if _, err := template.Post(patches); err != nil {
			b.Fatal(err)
		}
		if _, err := n.cq.Poll(wcs[:]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*64), "ns/WR")
}
