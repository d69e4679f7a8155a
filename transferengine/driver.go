package transferengine

import (
	"context"
	"runtime"
	"time"
)

// awakening is why the driver goroutine woke up.
type awakening uint8

const (
	due     awakening = iota // its timer
	noticed                  // the rail notified, and no waiter relied on that
	nudged                   // somebody left work
	ending                   // the engine closes
)

// listen sleeps in the rail's Wait, and passes on what it says: to a waiter who relies on it, since his is the shortest way
// to whoever waits, or to the driver goroutine.
func (p *progress) listen() {
	for {
		err := p.worker.rail.Wait(p.context)
		p.armed.Store(false)
		if err == nil && p.cold.call() {
			continue
		}
		if err != nil && p.context.Err() == nil {
			p.deaf.Store(true)
		}
		select {
		case p.notified <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// dedicate drives the worker as long as the engine lives.
func (p *progress) dedicate() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var fellAsleep, awoke time.Duration
	for {
		dry, stirred := p.runDry(p.patience.get())
		if !dry {
			break
		}
		if stirred && fellAsleep > 0 {
			p.patience.slept(awoke - fellAsleep)
			fellAsleep = 0
		}
		p.setOut()
		if !p.worker.pending() && !p.stopping.Load() {
			if fellAsleep == 0 {
				fellAsleep = p.clock()
			}
			p.sleep(p.untilNext())
			awoke = p.clock()
		}
		p.asleep.Store(false)
	}
	p.leave()
}

// backUp drives the worker while nobody else does.
//
// Sleeping, it is woken by the rail or by who leaves work. It does not take the worker at once when somebody had it since:
// then he is likely back in a moment, and would find it taken. It stays awake instead, without touching the worker or
// arming the rail (a notification for each completion would slow him down), and takes it when no turn was taken between two
// looks.
func (p *progress) backUp() {
	turns := &p.worker.stats.turns
	seen, why := turns.Load(), noticed
	for !p.stopping.Load() {
		before := seen
		seen = turns.Load()
		switch {
		case seen != before:
			why = p.sleep(lookAgain)
			continue
		case why == due && p.cared():
			why = p.sleep(p.untilNext())
			p.asleep.Store(false)
			continue
		case why == nudged || !p.take():
			why = p.sleep(lookAgain)
			continue
		}
		dry, _ := p.runDry(spinTime + yieldTime)
		if seen = turns.Load(); !dry {
			p.leave()
			return
		}
		p.setOut()
		p.leave()
		why = p.sleep(p.untilNext())
		p.asleep.Store(false)
	}
}

// cared tells whether the back-up goroutine can sleep without having driven, since who did before has left nothing to do and
// the rail armed. It then has announced that it will.
func (p *progress) cared() bool {
	next := p.nextDue.Load()
	p.sleepsTill.Store(next)
	p.asleep.Store(true)
	// Whoever leaves work from here on sees that the goroutine sleeps.
	if p.armed.Load() && !p.deaf.Load() && !p.driven.Load() && p.worker.queue.Len() == 0 && p.nextDue.Load() == next &&
		next > int64(p.clock()) {
		return true
	}
	p.asleep.Store(false)
	return false
}

// runDry does turns until nothing has happened for a while and the rail will notify; dry is false if the engine closes
// before. If the first turn already finds nothing, by the clock or because a rail that cannot wait napped, there is no reason
// to expect more, and stirred is false.
func (p *progress) runDry(patience time.Duration) (dry, stirred bool) {
	now := p.clock()
	for l := newLull(now, 0); !p.stopping.Load(); now = p.clock() {
		did := p.step(now)
		p.breathe(now)
		if did > 0 {
			l, stirred = newLull(now, patience), true
			continue
		}
		if l.restless(now) {
			continue
		}
		if p.cover() {
			return true, stirred
		}
		l.interrupt(now)
	}
	return false, stirred
}

// setOut announces that the driver goroutine will sleep until the worker's next turn. It still drives.
func (p *progress) setOut() {
	p.sleepsTill.Store(int64(p.next))
	p.asleep.Store(true)
}

// untilNext is how long the driver goroutine may sleep.
func (p *progress) untilNext() time.Duration {
	sleep := time.Duration(p.sleepsTill.Load())
	if sleep != never {
		sleep = max(sleep-p.clock(), 0)
	}
	if p.deaf.Load() {
		sleep = min(sleep, deafTurn)
	}
	return sleep
}

// sleep sleeps for the time, or until the driver goroutine is woken.
func (p *progress) sleep(d time.Duration) awakening {
	p.timer.Reset(d)
	select {
	case <-p.timer.C:
		return due
	case <-p.notified:
		return noticed
	case <-p.wake:
		return nudged
	case <-p.context.Done():
		return ending
	}
}

// halt ends the goroutines and takes the worker for good: waiters only sleep from then on. The caller drives it alone.
func (p *progress) halt() {
	if p.stopping.Swap(true) {
		return
	}
	p.cancel()
	p.goroutines.Wait()
	for !p.driven.CompareAndSwap(false, true) {
		<-p.vacated
	}
}

// now returns what tells the time: a clock that goes on from the last turn, which may have been by a virtual one.
func (p *progress) now() func() time.Time {
	start, last := time.Now(), p.last
	if !p.manual {
		last = start
	}
	return func() time.Time { return last.Add(time.Since(start)) }
}

// giveUp has the worker give up every peer. The time of it counts as a turn's: those that follow are not before.
func (p *progress) giveUp() {
	p.last = p.now()()
	p.worker.giveUp(p.last)
}

// until does turns until done, or the context ends, and returns its error. Only who has called halt may call it.
func (p *progress) until(ctx context.Context, done func() bool) error {
	now := p.now()
	for !done() {
		at := now()
		did, next := p.turn(at)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if did == 0 && !p.worker.rail.Arm() {
			p.waitFor(ctx, at, next)
		}
	}
	return nil
}

// waitFor sleeps until the rail notifies, the worker's next turn is due or the context ends.
func (p *progress) waitFor(ctx context.Context, now, next time.Time) {
	if !next.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, next.Sub(now))
		defer cancel()
	}
	if p.worker.rail.Wait(ctx) == nil || ctx.Err() != nil {
		return
	}
	p.timer.Reset(deafTurn) // the rail's Wait is broken
	select {
	case <-p.timer.C:
	case <-ctx.Done():
	}
}
