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
