package fabricrail

import (
	"context"
	"time"

	"github.com/weftrdma/weft/fabric"
)

// How often a sleeper looks where the provider has nothing to wait for: with peers, which need somebody to look what they did, and
// without any, when somebody may call.
const (
	lookWithPeers = time.Millisecond
	lookAlone     = 20 * time.Millisecond
)

// sleeper is what Arm and Wait do: it waits for the queue's descriptor, or looks now and then where there is none.
type sleeper struct {
	asked chan time.Duration // by Arm: how often to look
}

func (s *sleeper) open() { s.asked = make(chan time.Duration, 1) }

// arm asks for a notification.
func (s *sleeper) arm(peers bool) {
	every := lookAlone
	if peers {
		every = lookWithPeers
	}
	select {
	case <-s.asked: // by the last one, whom nobody heard
	default:
	}
	s.asked <- every
}

// wait blocks until a notification that arm asked for.
func (s *sleeper) wait(ctx context.Context, cq *fabric.CQ) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case every := <-s.asked:
		return cq.Await(ctx, every)
	}
}
