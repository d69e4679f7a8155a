package verbs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

// drained drains a queue pair and returns what completed, by identifier.
func drained(t *testing.T, qp *verbs.QP) map[uint64]error {
	t.Helper()
	seen := map[uint64]error{}
	require.NoError(t, qp.Drain(rdmatest.Context(t, 20*time.Second), func(wc *verbs.WC) {
		require.NotContains(t, seen, wc.ID)
		seen[wc.ID] = wc.Err()
	}))
	return seen
}

// requireFlushed checks that the identifiers from first on all completed, with success or flushed.
func requireFlushed(t *testing.T, seen map[uint64]error, first, n int) {
	t.Helper()
	for id := first; id < first+n; id++ {
		err, completed := seen[uint64(id)]
		require.True(t, completed, "request %d", id)
		require.True(t, err == nil || errors.Is(err, verbs.ErrFlushed), "%v", err)
	}
}

// Writes in flight, a receive queue filled to the last place that the driver gives, and two completion queues.
func TestDrain(t *testing.T) {
	n := newNode(t)
	recvs, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 64})
	require.NoError(t, err)
	closeAtEnd(t, recvs)
	qp, err := n.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: n.cq, RecvCQ: recvs, MaxSendWR: 32, MaxRecvWR: 4})
	require.NoError(t, err)
	closeAtEnd(t, qp)
	local, err := qp.Init(n.gid, allAccess)
	require.NoError(t, err)
	require.NoError(t, qp.Connect(local, verbs.ConnectConfig{}))
	full := 0
	for err = nil; err == nil; full++ {
		_, err = qp.PostRecv([]verbs.RecvWR{{ID: uint64(1000 + full)}}, nil)
	}
	full--
	require.ErrorIs(t, err, verbs.ErrQueueFull)
	require.GreaterOrEqual(t, full, 4)
	_, mr := n.region(t, 1<<20, allAccess)
	const writes = 16
	wrs, sges := make([]verbs.SendWR, writes), make([]verbs.SGE, writes)
	for i := range wrs {
		wrs[i] = verbs.SendWR{ID: uint64(i), Opcode: verbs.OpWrite, NumSGE: 1, RemoteAddr: mr.Addr(), RKey: mr.RKey(), Flags: verbs.SendSignaled}
		sges[i] = sge(mr, 0, 1<<16)
	}
	_, err = qp.PostSend(wrs, sges)
	require.NoError(t, err)
	seen := drained(t, qp)
	requireFlushed(t, seen, 0, writes)
	requireFlushed(t, seen, 1000, full)
	require.Len(t, seen, writes+full)
}

func TestDrainDatagrams(t *testing.T) {
	n := newNode(t)
	a, b := n.datagrams(t), n.datagrams(t)
	ah, err := n.pd.CreateAH(verbs.AHConfig{Port: 1, GIDIndex: n.gid.Index, RemoteGID: n.gid.GID})
	require.NoError(t, err)
	closeAtEnd(t, ah)
	_, err = a.PostRecv([]verbs.RecvWR{{ID: 1000}, {ID: 1001}}, nil)
	require.NoError(t, err)
	wrs := make([]verbs.SendWR, 20)
	for i := range wrs {
		wrs[i] = verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: ah.Ref(), RemoteQPN: b.Num(), RemoteQKey: qkey}
	}
	_, err = a.PostSend(wrs, nil)
	require.NoError(t, err)
	seen := drained(t, a)
	requireFlushed(t, seen, 0, len(wrs))
	requireFlushed(t, seen, 1000, 2)

	require.Empty(t, drained(t, n.queuePair(t, verbs.UD)), "of one in the reset state")
}

// A queue pair that failed is drained like any other.
func TestDrainAfterAFailure(t *testing.T) {
	n := newNode(t)
	a, _ := n.connected(t)
	_, err := a.PostRecv([]verbs.RecvWR{{ID: 1000}}, nil)
	require.NoError(t, err)
	_, mr := n.region(t, 4096, remoteAccess)
	_, err = a.PostSend([]verbs.SendWR{{ID: 1, Opcode: verbs.OpWrite, NumSGE: 1, RemoteAddr: mr.Addr(), RKey: mr.RKey() + 1,
		Flags: verbs.SendSignaled}}, []verbs.SGE{sge(mr, 0, 64)})
	require.NoError(t, err)
	require.Error(t, poll(t, n.cq, 1)[0].Err())
	requireFlushed(t, drained(t, a), 1000, 1)
}
