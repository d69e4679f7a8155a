package fabricrail

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weftrdma/weft/fabric"
)

// How often a sleeper looks where the provider has nothing to wait for. With peers that do not ring, or with something on its way
// whose completion nobody rings for, often. Otherwise only for what came in between a look and the sleep, for rings that a peer
// that was killed owed, and for somebody who calls.
const (
	lookOften  = time.Millisecond
	lookSeldom = 20 * time.Millisecond
)

// lookEvery is how often to look.
func (r *Rail) lookEvery() time.Duration {
	waits := r.operations.flying() || r.mailbox.sending()
	if len(r.peers) > 0 && (r.bell == nil || waits) {
		return r.sleep.often
	}
	return r.sleep.seldom
}

// sleeper is what Arm and Wait do: it waits for the queue's descriptor, or for the bell and looks now and then.
type sleeper struct {
	often  time.Duration
	seldom time.Duration
	asked  chan time.Duration // by Arm: how often to look
	every  atomic.Int64       // how often whoever waits does; 0 while nobody does
}

func (s *sleeper) open() {
	s.often, s.seldom, s.asked = lookOften, lookSeldom, make(chan time.Duration, 1)
}

// arm asks for a notification.
func (s *sleeper) arm(every time.Duration, cq *fabric.CQ) {
	select {
	case <-s.asked: // by the last one, whom nobody heard
	default:
	}
	s.asked <- every
	if time.Duration(s.every.Load()) > every {
		cq.Ring()
	}
}

// wait blocks until a notification that arm asked for.
func (s *sleeper) wait(ctx context.Context, cq *fabric.CQ, bell *atomic.Uint32) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case every := <-s.asked:
			s.every.Store(int64(every))
			if len(s.asked) > 0 {
				continue // to be asked more often
			}
			err := cq.Await(ctx, every, bell)
			s.every.Store(0)
			if err != nil || len(s.asked) == 0 {
				return err
			}
		}
	}
}
