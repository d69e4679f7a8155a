package fabric

import (
	"context"
	"time"
)

// Await blocks until there is a completion, and leaves it there; or until ctx ends, and its error is then ctx's. One goroutine at
// a time may await or wait. The queue was made with [WaitFD], or with [WaitNone]: then its thread sleeps in C and looks every so
// often, at least every microsecond, which takes some microseconds of a processor each time and makes progress; and it also
// returns once somebody polls the queue, since whoever does needs no other to look.
func (cq *CQ) Await(ctx context.Context, every time.Duration) error {
	switch {
	case cq.wait == WaitUnspec:
		return invalid("await a completion of a queue with wait object %d", cq.wait)
	case every < time.Microsecond || every > time.Second:
		return invalid("await a completion: to look every %v is not between 1µs and 1s", every)
	case cq.wait == WaitFD:
		_, err := cq.events.wait(ctx, cq.look, func() bool { return cTryWaitCQ(cq.ptr) })
		return err
	}
	stop := context.AfterFunc(ctx, cq.ring)
	defer stop()
	for {
		if some, err := cq.nap(ctx, every); some != 0 || err != nil {
			return err
		}
	}
}

// look returns 1 if there is a completion.
func (cq *CQ) look() (int, error) {
	if err := cq.life.Enter(); err != nil {
		return 0, err
	}
	defer cq.life.Exit()
	return some(cLookCQ(cq.ptr))
}

// nap sleeps for some time, which Close has to wait for.
func (cq *CQ) nap(ctx context.Context, every time.Duration) (int, error) {
	if err := cq.life.Enter(); err != nil {
		return 0, err
	}
	defer cq.life.Exit()
	rings := cRingsOfCQ(cq.ptr)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	n, err := some(cNapCQ(cq.ptr, rings, every, 2*waitSlice))
	if ctx.Err() != nil { // somebody rang
		return 0, context.Cause(ctx)
	}
	return n, err
}

// some is the outcome of a look in C.
func some(n int) (int, error) {
	if n < 0 {
		return 0, failed("fi_cq_read", -n)
	}
	return n, nil
}

// ring ends a nap.
func (cq *CQ) ring() {
	if cq.life.Enter() == nil {
		defer cq.life.Exit()
		cRingCQ(cq.ptr)
	}
}
