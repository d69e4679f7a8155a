package fabricrail

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftrdma/weft/fabric"
)

// How long Wait sleeps where the provider has nothing to wait for: with peers, which need somebody to look what they did, and
// without any, when somebody may call.
const (
	napWithPeers = time.Millisecond
	napAlone     = 20 * time.Millisecond
)

// sleeper is what Arm and Wait do: it waits for the queue's descriptor, or sleeps a little where there is none. libfabric's
// wait takes the completions that end it; they are kept for the next turn.
type sleeper struct {
	descriptor bool
	asked      chan time.Duration // by Arm, for how long at most

	have  atomic.Bool
	mu    sync.Mutex
	stash []fabric.Completion
}

func (s *sleeper) open() { s.asked = make(chan time.Duration, 1) }

// arm asks for a notification.
func (s *sleeper) arm(peers bool) {
	nap := napAlone
	if peers {
		nap = napWithPeers
	}
	select {
	case <-s.asked: // by the last one, whom nobody heard
	default:
	}
	s.asked <- nap
}

// wait blocks until a notification that arm asked for.
func (s *sleeper) wait(ctx context.Context, cq *fabric.CQ) error {
	var nap time.Duration
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case nap = <-s.asked:
	}
	if s.descriptor {
		var got [16]fabric.Completion
		n, err := cq.Wait(ctx, got[:])
		if n > 0 {
			s.mu.Lock()
			s.stash = append(s.stash, got[:n]...)
			s.have.Store(true)
			s.mu.Unlock()
		}
		return err
	}
	timer := time.NewTimer(nap)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// stashed tells whether there are completions that ended a wait.
func (s *sleeper) stashed() bool { return s.have.Load() }

// take returns completions that ended a wait.
func (s *sleeper) take(to []fabric.Completion) int {
	if !s.have.Load() {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := copy(to, s.stash)
	s.stash = append(s.stash[:0], s.stash[n:]...)
	s.have.Store(len(s.stash) > 0)
	return n
}
