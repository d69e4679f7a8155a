package fabricrail

import (
	"context"
	"sync/atomic"
	"time"
)

// How often a rail without a descriptor to sleep on is given a turn: with peers, and without.
const (
	lookOften  = time.Millisecond
	lookSeldom = 20 * time.Millisecond
)

// awaiter is a queue, or several, that can be slept on.
type awaiter interface{ Await(context.Context) error }

// sleeper is what Arm and Wait do: it waits for the queue's descriptor, or where the provider has none, for a while.
type sleeper struct {
	on    awaiter            // nil without a descriptor
	asked chan time.Duration // by Arm: how long to sleep at most
	ready func() bool        // whether the transport itself has something to do
	woke  atomic.Bool        // for that, and nobody has looked yet
}

func (s *sleeper) open(t transport) {
	s.on, s.ready, s.asked = t.sleep(), t.ready, make(chan time.Duration, 1)
}

// arm asks for a notification.
func (s *sleeper) arm(peers bool) {
	select {
	case <-s.asked: // by the last Arm, for which nobody has waited
	default:
	}
	if peers {
		s.asked <- lookOften
	} else {
		s.asked <- lookSeldom
	}
}

// wait blocks until a notification that arm asked for.
func (s *sleeper) wait(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case limit := <-s.asked:
			if s.on == nil {
				return s.nap(ctx, limit)
			}
			err := s.on.Await(ctx)
			if s.ready() {
				s.woke.Store(true)
			}
			if err != nil || len(s.asked) == 0 {
				return err
			}
		}
	}
}

// nap returns after limit, or sooner if a later Arm asks for less.
func (s *sleeper) nap(ctx context.Context, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case other := <-s.asked:
			if other < limit {
				limit = other
				timer.Reset(limit)
			}
		case <-timer.C:
			return nil
		}
	}
}
