package fabric_test

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
)

// TestAwait ends with a completion, which stays in the queue, and with the context.
func TestAwait(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		if provider == "shm" {
			x := open(t, provider, setting{})
			require.ErrorIs(t, x.cq.Await(t.Context()), syscall.EINVAL, "it has no descriptor")
			return
		}
		awaits(t, provider)
	})
}

func awaits(t *testing.T, provider string) {
	a, b := pair(t, provider, setting{cq: fabric.CQConfig{Wait: fabric.WaitFD}})
	from, to := a.buffer(8), b.buffer(8)
	ended := make(chan error, 1)
	await := func(ctx context.Context) { ended <- b.cq.Await(ctx) }
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go await(ctx)
	cancel(cause)
	require.ErrorIs(t, receive(t, ended), cause)

	a.post(a.ep.Write, []fabric.Op{to.at(fabric.Op{ID: 7, NumSeg: 1, Flags: fabric.FlagRemoteCQData, Data: 5}, 0)}, from.all(), b)
	go await(t.Context())
	for done := false; !done; { // the writer's side may have to progress
		_, err := a.cq.Poll(nil)
		require.NoError(t, err)
		select {
		case err := <-ended:
			require.NoError(t, err)
			done = true
		default:
		}
	}
	require.Equal(t, uint64(5), b.arrival(a).Data)
	a.complete(7, b)

	go await(rdmatest.Context(t, patience))
	for done := false; !done; { // it ends once somebody else looks, though nothing has come
		_, err := b.cq.Poll(nil)
		require.NoError(t, err)
		select {
		case err := <-ended:
			require.NoError(t, err)
			done = true
		default:
		}
	}
}
