//go:build linux && cgo && !noverbs

package verbs_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/verbs"
)

// datagram is a send to the handle's peer.
func datagram(ref verbs.AHRef) verbs.SendWR {
	return verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: ref, RemoteQPN: 1, RemoteQKey: qkey}
}

// TestNullAPostWithAClosedAH: a reference is its handle's alone, also when another handle has its place or its memory.
func TestNullAPostWithAClosedAH(t *testing.T) {
	n := newNull(t, nil)
	qp := n.datagrams(t)
	first, err := n.pd.CreateAH(n.to(1))
	require.NoError(t, err)
	other, err := n.pd.CreateAH(n.to(2))
	require.NoError(t, err)
	closeAtEnd(t, other)
	ref := first.Ref()
	template, err := verbs.NewTemplate(verbs.TemplatePart{QP: qp, WRs: []verbs.SendWR{datagram(other.Ref()), datagram(ref)}})
	require.NoError(t, err)
	closeAtEnd(t, template)
	both := []verbs.Patch{{Index: 0}, {Index: 1}}
	_, err = template.Post(both)
	require.NoError(t, err)
	many := make([]verbs.SendWR, 40)
	for i := range many {
		many[i] = datagram(other.Ref())
	}
	many[30] = datagram(ref)
	_, err = qp.PostSend(many, nil)
	require.NoError(t, err)
	require.Len(t, n.take(t), len(many)+2)

	n.null.Fail("ibv_destroy_ah", 0, int(syscall.EBUSY), 0)
	require.ErrorIs(t, first.Close(), syscall.EBUSY)
	_, err = qp.PostSend([]verbs.SendWR{datagram(ref)}, nil)
	require.NoError(t, err, "it is open again")
	require.Len(t, n.take(t), 1)
	require.NoError(t, first.Close())
	for range 2 { // without and with a handle in its place
		accepted, err := qp.PostSend(many, nil)
		require.ErrorIs(t, err, net.ErrClosed)
		require.ErrorContains(t, err, "work request 30 of 40: its address handle is closed; nothing was posted")
		require.Zero(t, accepted)
		accepted, err = template.Post(both)
		require.ErrorIs(t, err, net.ErrClosed)
		require.Zero(t, accepted)
		_, err = verbs.NewTemplate(verbs.TemplatePart{QP: qp, WRs: []verbs.SendWR{datagram(ref)}})
		require.ErrorIs(t, err, net.ErrClosed)
		require.Empty(t, n.take(t))
		next, err := n.pd.CreateAH(n.to(3))
		require.NoError(t, err)
		closeAtEnd(t, next)
		require.NotEqual(t, ref, next.Ref())
		_, err = qp.PostSend([]verbs.SendWR{datagram(next.Ref())}, nil)
		require.NoError(t, err)
		require.Len(t, n.take(t), 1)
	}
}

func TestNullAPostWithAnAHThatIsNone(t *testing.T) {
	n, elsewhere := newNull(t, nil), newNull(t, nil)
	qp := n.datagrams(t)
	foreign, err := elsewhere.pd.CreateAH(elsewhere.to(1))
	require.NoError(t, err)
	closeAtEnd(t, foreign)
	for _, ref := range []verbs.AHRef{0, 1, 0xdeadbeef, 0xdead0000, 1<<32 | 1<<30, 1<<63 | 1, 1 << 32, foreign.Ref()} {
		accepted, err := qp.PostSend([]verbs.SendWR{datagram(ref)}, nil)
		require.ErrorIs(t, err, syscall.EINVAL, "%#x", ref)
		require.ErrorContains(t, err, "a UD send needs an address handle of its own device")
		require.Zero(t, accepted)
	}
}

// TestNullAHsInGreatNumbers: places are found in every part of the table, and taken again.
func TestNullAHsInGreatNumbers(t *testing.T) {
	n := newNull(t, nil)
	qp := n.datagrams(t)
	refs := make(map[verbs.AHRef]bool)
	for range 2 {
		handles := make([]*verbs.AH, 3000)
		for i := range handles {
			var err error
			handles[i], err = n.pd.CreateAH(n.to(1))
			require.NoError(t, err)
			require.False(t, refs[handles[i].Ref()], "a reference comes twice")
			refs[handles[i].Ref()] = true
		}
		for _, ah := range handles {
			_, err := qp.PostSend([]verbs.SendWR{datagram(ah.Ref())}, nil)
			require.NoError(t, err)
			require.Len(t, n.take(t), 1)
			require.NoError(t, ah.Close())
		}
	}
}
