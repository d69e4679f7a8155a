//go:build linux && cgo && !noverbs

package verbs_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/verbs"
)

// TestNullObjectsOfAnotherContextAreRefused: a driver takes what it is handed for its own, and reads another's memory.
func TestNullObjectsOfAnotherContextAreRefused(t *testing.T) {
	ours, theirs := newNull(t, nil), newNull(t, nil)
	srq, err := theirs.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 4})
	require.NoError(t, err)
	closeAtEnd(t, srq)
	channel, err := theirs.ctx.CreateCompChannel()
	require.NoError(t, err)
	closeAtEnd(t, channel)
	qp, _ := ours.connected(t)
	region := func(n *nullNode) *verbs.MR {
		mr, err := n.pd.RegMR(make([]byte, 64), remoteAccess|verbs.AccessMWBind)
		require.NoError(t, err)
		closeAtEnd(t, mr)
		return mr
	}
	window := func(n *nullNode) *verbs.MW {
		mw, err := n.pd.AllocMW(verbs.MWType1)
		require.NoError(t, err)
		closeAtEnd(t, mw)
		return mw
	}
	ourMR, theirMR, ourMW, theirMW := region(ours), region(theirs), window(ours), window(theirs)
	bind := func(mw *verbs.MW, mr *verbs.MR) error {
		_, err := qp.BindMW(mw, verbs.BindConfig{MR: mr, Addr: mr.Addr(), Length: 64, Flags: verbs.SendSignaled})
		return err
	}
	create := func(cfg verbs.QPConfig) error {
		cfg.Type, cfg.MaxSendWR = verbs.RC, 4
		_, err := ours.pd.CreateQP(cfg)
		return err
	}
	live := ours.null.Live()
	for name, err := range map[string]error{
		"SendCQ":                create(verbs.QPConfig{SendCQ: theirs.cq, RecvCQ: ours.cq}),
		"RecvCQ":                create(verbs.QPConfig{SendCQ: ours.cq, RecvCQ: theirs.cq}),
		"SRQ":                   create(verbs.QPConfig{SendCQ: ours.cq, RecvCQ: ours.cq, SRQ: srq}),
		"Channel":               func() error { _, err := ours.ctx.CreateCQ(verbs.CQConfig{Depth: 1, Channel: channel}); return err }(),
		"the window":            bind(theirMW, ourMR),
		"MR":                    bind(ourMW, theirMR),
		"the protection domain": func() error { return ourMR.ChangePD(theirs.pd) }(),
	} {
		require.ErrorIs(t, err, syscall.EINVAL, name)
		require.ErrorContains(t, err, name+" is of another context (of null0)")
	}
	_, err = ours.ctx.WrapPD(theirs.pd.Raw())
	require.ErrorContains(t, err, "wrap protection domain: it is not of this context of null0")
	require.Equal(t, live, ours.null.Live())
	require.NoError(t, bind(ourMW, ourMR))
}

// TestNullAQueuePairHoldsItsQueues: EFA's driver of rdma-core 44 unmaps a completion queue before it asks the kernel whether
// it may go, so its refusal comes too late.
func TestNullAQueuePairHoldsItsQueues(t *testing.T) {
	n := newNull(t, nil)
	sendCQ, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 8})
	require.NoError(t, err)
	recvCQ, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 8})
	require.NoError(t, err)
	srq, err := n.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 4})
	require.NoError(t, err)
	qp, err := n.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: sendCQ, RecvCQ: recvCQ, MaxSendWR: 4, SRQ: srq})
	require.NoError(t, err)
	queues := []closer{sendCQ, recvCQ, srq}
	held := func() {
		t.Helper()
		for _, queue := range queues {
			require.ErrorIs(t, queue.Close(), syscall.EBUSY)
			require.ErrorContains(t, queue.Close(), "queue pair")
		}
	}
	held()
	wrapped, err := n.pd.WrapQP(qp.Raw())
	require.NoError(t, err)
	require.ErrorIs(t, qp.Close(), syscall.EBUSY, "its own is wrapped")
	require.NoError(t, wrapped.Close())
	held()
	require.NoError(t, qp.Close())
	require.Zero(t, n.null.Calls("ibv_destroy_cq")+n.null.Calls("ibv_destroy_srq"), "the driver is not asked")
	for _, queue := range queues {
		require.NoError(t, queue.Close())
	}
}

// TestNullARegionThatMovesHoldsItsDomain, and lets the one go that it left.
func TestNullARegionThatMovesHoldsItsDomain(t *testing.T) {
	n := newNull(t, nil)
	domains := make([]*verbs.PD, 3)
	for i := range domains {
		var err error
		domains[i], err = n.ctx.AllocPD()
		require.NoError(t, err)
	}
	mr, err := domains[0].RegMR(make([]byte, 64), verbs.AccessLocalWrite)
	require.NoError(t, err)
	n.null.Fail("ibv_rereg_mr", 0, -1, syscall.EINVAL)
	require.Error(t, mr.ChangePD(domains[1]))
	require.ErrorIs(t, domains[0].Close(), syscall.EBUSY, "it has not moved")
	require.NoError(t, mr.ChangePD(domains[1]))
	require.NoError(t, mr.ChangePD(domains[1]))
	require.NoError(t, domains[0].Close())
	require.ErrorIs(t, domains[1].Close(), syscall.EBUSY)
	n.null.Fail("ibv_rereg_mr", 0, -4, syscall.ENOMEM)
	require.Error(t, mr.ChangePD(domains[2]), "nobody knows on which it is")
	require.ErrorIs(t, domains[1].Close(), syscall.EBUSY)
	require.ErrorIs(t, domains[2].Close(), syscall.EBUSY)
	require.NoError(t, mr.Close())
	require.NoError(t, domains[1].Close())
	require.NoError(t, domains[2].Close())
}
