package fabric_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
)

// setQueues are queues of one wait set, with the endpoints of a connection on two of them.
type setQueues struct {
	set  *fabric.WaitSet
	eq   *fabric.EQ
	cqs  [2]*fabric.CQ
	eps  [2]*fabric.Endpoint
	info *fabric.Info
}

func openSet(t *testing.T) *setQueues {
	t.Helper()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "tcp", Type: fabric.Msg, Node: "127.0.0.1", Caps: fabric.CapMsg | fabric.CapRMA})
	require.NoError(t, err)
	q := &setQueues{info: infos[0]}
	f := opened[*fabric.Fabric](t)(fabric.OpenFabric(q.info))
	d := opened[*fabric.Domain](t)(f.OpenDomain(q.info))
	q.set = opened[*fabric.WaitSet](t)(fabric.NewWaitSet())
	q.eq = opened[*fabric.EQ](t)(f.OpenEQ(fabric.EQConfig{Wait: fabric.WaitFD, Set: q.set}))
	listener := opened[*fabric.Listener](t)(f.Listen(q.info, q.eq))
	address, err := listener.Name()
	require.NoError(t, err)
	endpoint := func(i int, info *fabric.Info) {
		q.cqs[i] = opened[*fabric.CQ](t)(d.OpenCQ(fabric.CQConfig{Wait: fabric.WaitFD, Set: q.set}))
		q.eps[i] = opened[*fabric.Endpoint](t)(d.OpenEndpoint(info, fabric.EndpointConfig{TxCQ: q.cqs[i], RxCQ: q.cqs[i], EQ: q.eq}))
	}
	endpoint(0, q.info)
	require.NoError(t, q.eps[0].Connect(address, nil))
	ctx := rdmatest.Context(t, patience)
	for connected := 0; connected < 2; { // awake at each step, by the event queue alone
		require.NoError(t, q.set.Await(ctx))
		for q.eq.Ready() {
			e, err := q.eq.Read()
			require.NoError(t, err)
			switch {
			case e == nil:
			case e.Type == fabric.EventConnReq:
				endpoint(1, e.Info)
				require.NoError(t, q.eps[1].Accept(nil))
			case e.Type == fabric.EventConnected:
				connected++
			}
		}
	}
	return q
}

// sleeps tells whether a wait ends within a moment, for nothing is there, after it was taken what is.
func (q *setQueues) sleeps(t *testing.T) bool {
	t.Helper()
	for range 100 {
		var some [8]fabric.Completion
		for _, cq := range q.cqs {
			_, err := cq.Poll(some[:])
			require.NoError(t, err)
		}
		_, err := q.eq.Read()
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		err = q.set.Await(ctx)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return true
		}
	}
	return false
}

func TestWaitSetWakesForEveryQueue(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	q := openSet(t)
	ctx := rdmatest.Context(t, patience)
	wakes := func(what string, happen func()) {
		require.True(t, q.sleeps(t), what)
		woke := make(chan error, 1)
		go func() { woke <- q.set.Await(ctx) }()
		happen()
		require.NoError(t, receive(t, woke), what)
	}
	wakes("an event that is written", func() { require.NoError(t, q.eq.Write(1, 2)) })
	wakes("a poll of another goroutine", func() {
		for !q.set.Sleeping() {
			require.NoError(t, ctx.Err())
		}
		_, err := q.cqs[0].Poll(make([]fabric.Completion, 1))
		require.NoError(t, err)
	})
	for i := range q.eps {
		wakes("what a peer sends", func() {
			_, err := q.eps[1-i].Recv([]fabric.Op{{ID: 1}}, nil)
			require.NoError(t, err)
			require.NoError(t, q.eps[i].Inject(fabric.OpSend, fabric.Op{}, nil))
		})
	}
}

func TestWaitSetIsOfTheQueues(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	q := openSet(t)
	require.ErrorIs(t, q.set.Close(), syscall.EBUSY)
	require.ErrorIs(t, q.cqs[0].Await(t.Context()), syscall.EINVAL)
	_, err := q.cqs[0].Wait(t.Context(), make([]fabric.Completion, 1))
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = q.eq.Wait(t.Context())
	require.ErrorIs(t, err, syscall.EINVAL)
	require.True(t, q.sleeps(t))
	woke := make(chan error, 1)
	go func() { woke <- q.set.Await(rdmatest.Context(t, patience)) }()
	for !q.set.Sleeping() {
		require.NoError(t, t.Context().Err())
	}
	require.NoError(t, q.eps[0].Close()) // while somebody sleeps; the peer's event wakes him
	require.NoError(t, q.cqs[0].Close())
	require.NoError(t, receive(t, woke))

	s, err := fabric.NewWaitSet()
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Await(t.Context()), net.ErrClosed)
}
