package fabricrail

import (
	"context"
	"time"

	"github.com/weftrdma/weft/fabric"
)

// How often a rail without a descriptor to sleep on is given a turn: with peers, and without.
const (
	lookOften  = time.Millisecond
	lookSeldom = 20 * time.Millisecond
)

// sleeper is what Arm and Wait do: it waits for the queue's descriptor, or where the provider has none, for a while.
type sleeper struct {
	cq    *fabric.CQ         // nil without a descriptor
	asked chan time.Duration // by Arm: how long to sleep at most
}

func (s *sleeper) open(cq *fabric.CQ) { s.cq, s.asked = cq, make(chan time.Duration, 1) }

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
			if s.cq == nil {
				return s.nap(ctx, limit)
			}
			if err := s.cq.Await(ctx); err != nil || len(s.asked) == 0 {
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
