package fabric

import (
	"context"
	"sync/atomic"
	"time"
)

// Await blocks until there is a completion, and leaves it there; or until ctx ends, and its error is then ctx's. One goroutine at
// a time may await or wait. It also returns once somebody polls the queue, since whoever does needs no other to look. The queue was
// made with [WaitFD], or with [WaitNone], and then:
//
//   - A thread sleeps in C and looks that often, from every microsecond to every minute. A look takes some microseconds of a
//     processor and makes progress.
//   - It looks at once when the bell is rung ([Ring]), and every millisecond for some time after. The bell, nil for none, is a word
//     outside the Go heap that processes may share, and is not 0 while it is of use to ring it.
//   - It also returns when [CQ.Ring] is called, and after 64 looks, for the caller to think again how often to look.
func (cq *CQ) Await(ctx context.Context, every time.Duration, bell *atomic.Uint32) error {
	switch {
	case cq.wait == WaitUnspec:
		return invalid("await a completion of a queue with wait object %d", cq.wait)
	case every < time.Microsecond || every > time.Minute:
		return invalid("await a completion: to look every %v is not between 1µs and 1m", every)
	case cq.wait == WaitFD:
		_, err := cq.events.wait(ctx, cq.look, func() bool { return cTryWaitCQ(cq.ptr) })
		return err
	}
	rung := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { cq.Ring(); close(rung) })
	defer func() {
		if !stop() {
			<-rung // the bell is the caller's again
		}
	}()
	return cq.nap(ctx, every, bell)
}

// Ring wakes whoever sleeps in a [CQ.Await] with that bell, of whatever process: call it after posting to that process, where the
// bell is not 0. Posts are seen by a sleeper who was not rung for when it looks the next time.
func Ring(bell *atomic.Uint32) { cRing(bell) }

// look returns 1 if there is a completion.
func (cq *CQ) look() (int, error) {
	if err := cq.life.Enter(); err != nil {
		return 0, err
	}
	defer cq.life.Exit()
	return some(cLookCQ(cq.ptr))
}

func (cq *CQ) nap(ctx context.Context, every time.Duration, bell *atomic.Uint32) error {
	const looks = 64
	if err := cq.life.Enter(); err != nil {
		return err
	}
	defer cq.life.Exit()
	rings := cRingsOfCQ(cq.ptr)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, err := some(cNapCQ(cq.ptr, bell, rings, every, max(looks*every, time.Millisecond)))
	if ctx.Err() != nil { // somebody rang
		return context.Cause(ctx)
	}
	return err
}

// some is the outcome of a look in C.
func some(n int) (int, error) {
	if n < 0 {
		return 0, failed("fi_cq_read", -n)
	}
	return n, nil
}

// Ring ends a [CQ.Await] in progress of a queue without a wait object, without an error.
func (cq *CQ) Ring() {
	if cq.life.Enter() == nil {
		defer cq.life.Exit()
		cRingCQ(cq.ptr)
	}
}
