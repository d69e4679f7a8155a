//go:build linux && cgo && !noverbs

package verbs_test

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

// TestNullAFlushNobodyAskedFor is the target of a request that its device refused: the device has moved the queue pair to the
// error state, and says so by flushes alone.
func TestNullAFlushNobodyAskedFor(t *testing.T) {
	n := newNull(t, nil)
	_, b := n.connected(t)
	_, err := b.PostRecv([]verbs.RecvWR{{ID: 100}, {ID: 101}}, nil)
	require.NoError(t, err)
	moves := n.null.Calls("ibv_modify_qp")
	n.null.Break(b.Raw())
	require.Len(t, n.take(t), 2)
	require.Equal(t, &verbs.CompletionError{ID: 100, QPN: b.Num(), Status: verbs.WCFlushed}, b.Err())
	require.Equal(t, moves+1, n.null.Calls("ibv_modify_qp"), "moved for good: on rxe later receives never complete otherwise")
	_, err = b.PostRecv([]verbs.RecvWR{{ID: 102}}, nil)
	require.ErrorIs(t, err, verbs.ErrFlushed)
	_, err = b.PostSend(sends(1), nil)
	require.ErrorIs(t, err, verbs.ErrFlushed)
	require.NoError(t, b.Reset())
	require.NoError(t, b.Err())
}

// TestNullFlushesOfBeforeAReset are of a queue pair that is up again.
func TestNullFlushesOfBeforeAReset(t *testing.T) {
	n := newNull(t, nil)
	a, b := n.connected(t)
	_, err := a.PostRecv(make([]verbs.RecvWR, 2), nil)
	require.NoError(t, err)
	require.NoError(t, a.SetError())
	require.NoError(t, a.Reset())
	local, err := a.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	local.QPN = b.Num()
	require.NoError(t, a.Connect(local, verbs.ConnectConfig{}))
	for _, wc := range n.take(t) {
		require.ErrorIs(t, wc.Err(), verbs.ErrFlushed)
	}
	require.NoError(t, a.Err())
	_, err = a.PostSend(sends(1), nil)
	require.NoError(t, err)
	require.Len(t, n.take(t), 1)
}

func TestNullEventsThatFailAQueuePair(t *testing.T) {
	for _, event := range []verbs.EventType{verbs.EventQPFatal, verbs.EventQPReqErr, verbs.EventQPAccessErr} {
		t.Run(event.String(), func(t *testing.T) {
			n := newNull(t, nil)
			a, b := n.connected(t)
			_, err := a.PostRecv([]verbs.RecvWR{{ID: 5}}, nil)
			require.NoError(t, err)
			n.null.Report(uint32(event), 0, a.Raw())
			require.Equal(t, verbs.AsyncEvent{Type: event, QP: a}, n.nextEvent(t))
			want := &verbs.EventError{QPN: a.Num(), Type: event}
			require.Equal(t, want, a.Err(), "before the event is handed out")
			require.ErrorContains(t, a.Err(), event.String())
			wcs := n.take(t)
			require.Len(t, wcs, 1)
			require.ErrorIs(t, wcs[0].Err(), verbs.ErrFlushed, "it was moved to the error state")
			require.Equal(t, want, a.Err())
			_, err = a.PostSend(sends(1), nil)
			require.ErrorAs(t, err, &want)
			_, err = a.PostRecv([]verbs.RecvWR{{}}, nil)
			require.ErrorAs(t, err, &want)
			require.NoError(t, b.Err())
		})
	}
	n := newNull(t, nil)
	a, _ := n.connected(t)
	for _, event := range []verbs.EventType{verbs.EventCommEstablished, verbs.EventSQDrained, verbs.EventQPLastWQEReached} {
		n.null.Report(uint32(event), 0, a.Raw())
		n.nextEvent(t)
		require.NoError(t, a.Err(), event)
	}
}

// TestNullADatagramQueuePairIsBroughtBack: a send that failed ends sends alone.
func TestNullADatagramQueuePairIsBroughtBack(t *testing.T) {
	n := newNull(t, nil)
	qp := n.datagrams(t)
	ah, err := n.pd.CreateAH(n.to(1))
	require.NoError(t, err)
	closeAtEnd(t, ah)
	for round := range 3 {
		_, err = qp.PostRecv([]verbs.RecvWR{{ID: 50}}, nil)
		require.NoError(t, err)
		n.null.FailSend(1, uint32(verbs.WCLocalProtection), 0)
		_, err = qp.PostSend([]verbs.SendWR{datagram(ah.Ref()), datagram(ah.Ref()), datagram(ah.Ref())}, nil)
		require.NoError(t, err)
		wcs := n.take(t)
		require.Len(t, wcs, 3)
		require.NoError(t, wcs[0].Err())
		require.ErrorIs(t, wcs[1].Err(), verbs.WCLocalProtection)
		require.ErrorIs(t, wcs[2].Err(), verbs.ErrFlushed)
		require.ErrorIs(t, qp.Err(), verbs.WCLocalProtection)
		_, err = qp.PostSend([]verbs.SendWR{datagram(ah.Ref())}, nil)
		require.ErrorIs(t, err, verbs.WCLocalProtection)
		state, err := qp.State()
		require.NoError(t, err)
		require.Equal(t, verbs.QPSQE, state)

		_, err = qp.PostRecv([]verbs.RecvWR{{ID: 51}}, nil)
		require.NoError(t, err, "receives go on")
		require.NoError(t, n.null.Complete(n.cq.Raw(), cgotest.Completion{QPN: qp.Num(), Receive: true}))
		require.NoError(t, n.null.Complete(n.cq.Raw(), cgotest.Completion{QPN: qp.Num(), Receive: true}))
		require.Len(t, n.take(t), 2)

		err = qp.Modify(verbs.QPAttr{State: verbs.QPRTS, CurrentState: verbs.QPSQE}, verbs.AttrState|verbs.AttrCurrentState)
		require.NoError(t, err, "round %d", round)
		require.NoError(t, qp.Err())
		_, err = qp.PostSend([]verbs.SendWR{datagram(ah.Ref())}, nil)
		require.NoError(t, err)
		require.Len(t, n.take(t), 1)
	}
	require.ErrorIs(t, qp.Modify(verbs.QPAttr{State: verbs.QPRTR, CurrentState: verbs.QPSQE}, verbs.AttrState|verbs.AttrCurrentState),
		syscall.EINVAL)
}

// TestNullAFailureIsWrittenOnce: two threads find the failure of one queue pair, on its two completion queues, at the same
// time.
func TestNullAFailureIsWrittenOnce(t *testing.T) {
	n := newNull(t, nil)
	other, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 64})
	require.NoError(t, err)
	closeAtEnd(t, other)
	qp, err := n.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: n.cq, RecvCQ: other, MaxSendWR: 4, MaxRecvWR: 4})
	require.NoError(t, err)
	closeAtEnd(t, qp)
	limit := rdmatest.Context(t, 60*time.Second)
	for round := range 3000 {
		require.NoError(t, limit.Err(), "round %d", round)
		require.NoError(t, qp.Reset())
		queues := []*verbs.CQ{n.cq, other}
		for i, cq := range queues {
			status := uint32(verbs.WCRemoteAccess) + uint32(i)
			require.NoError(t, n.null.Complete(cq.Raw(), cgotest.Completion{ID: uint64(i), Status: status, VendorErr: uint32(i), QPN: qp.Num()}))
		}
		moves := n.null.Calls("ibv_modify_qp")
		var begin, done sync.WaitGroup
		begin.Add(1)
		causes := make([]error, len(queues))
		for i, cq := range queues {
			done.Go(func() {
				var wcs [4]verbs.WC
				begin.Wait()
				_, _ = cq.Poll(wcs[:])
				causes[i] = qp.Err()
			})
		}
		begin.Done()
		done.Wait()
		require.Equal(t, causes[0], causes[1], "round %d", round)
		require.Equal(t, causes[0], qp.Err())
		var cause *verbs.CompletionError
		require.ErrorAs(t, causes[0], &cause)
		require.Equal(t, cause.ID, uint64(cause.VendorErr))
		require.Equal(t, uint32(verbs.WCRemoteAccess)+cause.VendorErr, uint32(cause.Status))
		require.Equal(t, moves+1, n.null.Calls("ibv_modify_qp"), "round %d", round)
	}
}

// TestNullErrorsHaveFourFields: a driver leaves in the others what it likes.
func TestNullErrorsHaveFourFields(t *testing.T) {
	n := newNull(t, nil)
	a, _ := n.connected(t)
	require.NoError(t, n.null.Complete(n.cq.Raw(), cgotest.Completion{
		ID: 7, Status: uint32(verbs.WCRemoteAccess), VendorErr: 3, QPN: a.Num(),
		Opcode: uint32(verbs.WCRecv), ByteLen: 100, Imm: 0x01020304, SrcQPN: 5, PKeyIndex: 6, SLID: 8, SL: 9,
		DLIDPathBits: 10, Flags: uint32(verbs.WCGRH | verbs.WCWithImm),
	}))
	require.Equal(t, []verbs.WC{{ID: 7, Status: verbs.WCRemoteAccess, VendorErr: 3, QPN: a.Num()}}, n.take(t))
}
