//go:build linux && cgo && !noverbs

package verbs_test

import (
	"context"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

// TestNullCloseMeetsAWait: neither waits for the other, whenever they meet: a Close needs no second look, and the Wait ends
// with it.
func TestNullCloseMeetsAWait(t *testing.T) {
	n := newNull(t, nil)
	for round := range 300 {
		cq, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 4, Events: true})
		require.NoError(t, err)
		channel, err := n.ctx.CreateCompChannel()
		require.NoError(t, err)
		waits := map[string]func() error{
			"CQ":          func() error { return cq.Wait(context.Background()) },
			"CompChannel": func() error { _, err := channel.Wait(context.Background(), nil); return err },
		}
		ended := make(chan error, len(waits))
		for _, wait := range waits {
			go func() { ended <- wait() }()
		}
		for range round % 50 { // from before the waits begin until after they sleep
			runtime.Gosched()
		}
		limit := rdmatest.Context(t, 20*time.Second)
		closed := make(chan error, 2)
		go func() { closed <- cq.Close(); closed <- channel.Close() }()
		for range 2 {
			select {
			case err := <-closed:
				require.NoError(t, err)
			case <-limit.Done():
				t.Fatal("Close waits for a Wait")
			}
		}
		for range waits {
			select {
			case err := <-ended:
				require.ErrorIs(t, err, net.ErrClosed)
			case <-limit.Done():
				t.Fatal("a Wait goes on after Close")
			}
		}
	}
}

// TestNullALostQueueIsReady: it completes nothing more, so nobody else would tell who waits on a channel for its queues.
func TestNullALostQueueIsReady(t *testing.T) {
	n := newNull(t, nil)
	channel, err := n.ctx.CreateCompChannel()
	require.NoError(t, err)
	closeAtEnd(t, channel)
	var cqs [3]*verbs.CQ
	for i := range cqs {
		cqs[i], err = n.ctx.CreateCQ(verbs.CQConfig{Depth: 4, Channel: channel})
		require.NoError(t, err)
	}
	limit := rdmatest.Context(t, 20*time.Second)
	lose := func(cq *verbs.CQ) {
		n.null.Report(uint32(verbs.EventCQErr), 0, cq.Raw())
		n.nextEvent(t)
	}
	lose(cqs[0])
	lose(cqs[1])
	require.NoError(t, cqs[1].Close())
	ready, err := channel.Wait(limit, nil)
	require.NoError(t, err)
	require.Equal(t, []*verbs.CQ{cqs[0]}, ready, "and not what is closed")
	_, err = cqs[0].Poll(make([]verbs.WC, 1))
	require.ErrorIs(t, err, verbs.ErrCQFailed)
	_, err = channel.Wait(expired(), nil)
	require.ErrorIs(t, err, context.Canceled, "once")

	found := make(chan []*verbs.CQ, 1)
	go func() { ready, _ := channel.Wait(limit, nil); found <- ready }()
	lose(cqs[2])
	require.Equal(t, []*verbs.CQ{cqs[2]}, <-found, "while it waits")
	require.NoError(t, cqs[0].Close())
	require.NoError(t, cqs[2].Close())
}

// TestNullAWaitEndsWithItsContext, also where that ends while the Wait takes back the deadline of an earlier one.
func TestNullAWaitEndsWithItsContext(t *testing.T) {
	n := newNull(t, nil)
	limit := rdmatest.Context(t, 20*time.Second)
	for round := range 20000 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_ = n.cq.Wait(expired()) // leaves its deadline
			ended <- n.cq.Wait(ctx)
		}()
		for range round % 8 {
			runtime.Gosched()
		}
		cancel()
		select {
		case err := <-ended:
			require.ErrorIs(t, err, context.Canceled)
		case <-limit.Done():
			t.Fatalf("round %d: the Wait goes on after its context", round)
		}
	}
}
