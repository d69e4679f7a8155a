package transferengine

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Progress says who does an engine's work.
type Progress uint8

const (
	// Inline: the goroutines that wait or poll do it, and a back-up goroutine when they do not. It wins when processors
	// are few, since a short wait costs no switch of goroutines.
	Inline Progress = iota
	// Dedicated: a goroutine locked to a thread does it. It wins when there is a processor to spare.
	Dedicated
	// Manual: whoever calls [Engine.Turn] does it, by a clock of its own; waits only sleep. It is for tests that replay.
	Manual
)

const (
	// spinTime is how long whoever drives goes on without anything happening, and yieldTime for how long after that he
	// lets other goroutines run between two turns, before he sleeps. A waiter, or the dedicated goroutine, that finds after
	// a sleep that it was not worth it yields for longer the next time, up to longestYield, and after one that was for
	// yieldTime again. Without this, two engines that answer each other and once were asleep would be asleep each time the
	// other's answer comes.
	spinTime     = 20 * time.Microsecond
	yieldTime    = 50 * time.Microsecond
	longestYield = time.Millisecond
	// lookAgain is when the back-up goroutine, awake while others drive, looks whether they still do.
	lookAgain = 500 * time.Microsecond
	// deafTurn is how often a worker turns whose rail cannot notify any more.
	deafTurn = time.Millisecond
	// never is a time that does not come.
	never = math.MaxInt64
)

// progress decides which goroutine drives the worker. Whoever changes driven from false to true does, until he leaves.
//
// Nobody may leave a worker on its own: when driven is false, one of these holds, so that what arrives or is queued is
// taken care of.
//
//   - a goroutine in the lineup was called, or is about to try: it takes the worker or passes the call on;
//   - the driver goroutine is awake, and looks again within lookAgain;
//   - the driver goroutine sleeps, the rail was armed before it went to sleep and has not notified since, its timer is
//     set to the worker's next turn, and the queue was empty. Whoever queues something wakes it (poke), as does who
//     leaves with something left to do.
type progress struct {
	worker  *worker
	waiters spares[waiter]

	dedicated bool      // the driver goroutine never leaves the worker
	manual    bool      // nobody takes the worker but in turnAt
	epoch     time.Time // from which times between goroutines are counted

	driven   atomic.Bool
	takes    atomic.Uint64 // how often somebody took the worker
	hot      lineup        // waiters that want to drive
	cold     atomic.Int32  // waiters that drove in vain for long, and rely on the rail's notification
	yield    atomic.Int64  // yieldTime, as it is at present
	armed    atomic.Bool   // the rail will notify
	last     time.Time     // of the worker's turns; the driver's, as next
	next     time.Time     // of the worker
	stopping atomic.Bool   // only halt may take the worker
	vacated  chan struct{} // tells halt that the worker was left

	// The driver goroutine (the back-up one, when inline) and the one that sleeps in the rail's Wait.
	goroutines sync.WaitGroup
	context    context.Context
	cancel     context.CancelFunc
	asleep     atomic.Bool   // the driver goroutine relies on being woken
	sleepsTill atomic.Int64  // its timer, in nanoseconds since epoch; the largest number is for ever
	wake       chan struct{} // somebody has work for it
	urgent     atomic.Bool   // it is to take the worker at once
	notified   chan struct{} // the rail has
	deaf       atomic.Bool   // the rail's Wait is broken
	timer      *time.Timer   // the driver goroutine's
}

// condition is what a goroutine waits for.
type condition interface {
	// met tells whether the wait is over, and its error. Only the worker's turns change the result.
	met() (bool, error)
}

func newProgress(w *worker) *progress {
	p := &progress{worker: w, epoch: time.Now(), waiters: make(spares[waiter], spareLimit), vacated: make(chan struct{}, 1),
		wake: make(chan struct{}, 1), notified: make(chan struct{}, 1), timer: time.NewTimer(never)}
	p.context, p.cancel = context.WithCancel(context.Background())
	p.yield.Store(int64(yieldTime))
	return p
}

// slept takes in how long somebody slept: up to short it was not worth it.
func (p *progress) slept(d, short time.Duration) {
	yield := int64(yieldTime)
	if d < short {
		yield = min(2*p.yield.Load(), int64(longestYield))
	}
	p.yield.Store(yield)
}

// start starts the goroutines.
func (p *progress) start(kind Progress) {
	if kind == Manual {
		p.manual = true
		return
	}
	p.goroutines.Go(p.listen)
	if kind == Dedicated {
		p.dedicated = true
		p.driven.Store(true)
		p.goroutines.Go(p.dedicate)
	} else {
		p.goroutines.Go(p.backUp)
	}
}

// take makes the caller the driver, unless there is one.
func (p *progress) take() bool {
	if p.manual || p.driven.Load() || p.stopping.Load() || !p.driven.CompareAndSwap(false, true) {
		return false
	}
	p.takes.Add(1)
	return true
}

// leave ends the caller's driving.
func (p *progress) leave() {
	if p.cold.Load() > 0 && !p.cover() {
		p.call()
	}
	unfinished, next := p.worker.unfinished(), p.next
	p.driven.Store(false)
	p.handOver(unfinished, next)
}

// handOver finds somebody to drive a worker that was left, or passed on.
func (p *progress) handOver(unfinished bool, next time.Time) {
	switch {
	case p.stopping.Load():
		select {
		case p.vacated <- struct{}{}:
		default:
		}
	case p.hot.call():
	case unfinished, p.worker.queue.Len() > 0, p.earlier(next):
		p.nudge()
	}
}

// earlier tells whether a turn is due before the driver goroutine's timer.
func (p *progress) earlier(next time.Time) bool { return p.sinceEpoch(next) < p.sleepsTill.Load() }

// sinceEpoch is the time of a turn as goroutines exchange it; the zero time is never.
func (p *progress) sinceEpoch(t time.Time) int64 {
	if t.IsZero() {
		return never
	}
	return int64(t.Sub(p.epoch))
}

// turn has the worker do a turn. Only the driver may call it.
func (p *progress) turn(now time.Time) (did int) {
	p.last = now
	did, p.next = p.worker.Turn(now)
	return did
}

// turnAt has the worker do a turn for somebody with a clock of his own, unless the engine closes.
func (p *progress) turnAt(now time.Time) (did int, next time.Time) {
	if p.stopping.Load() || !p.driven.CompareAndSwap(false, true) {
		return 0, time.Time{}
	}
	did = p.turn(now)
	next = p.next
	p.driven.Store(false)
	if p.stopping.Load() {
		p.handOver(false, time.Time{})
	}
	return did, next
}

// cover has the rail notify when something comes. It returns false if something is there already.
func (p *progress) cover() bool {
	if p.armed.Load() {
		return true
	}
	p.armed.Store(true) // before, since listen may take it back at once
	if p.worker.rail.Arm() {
		p.armed.Store(false)
		return false
	}
	return true
}

// poke makes sure that somebody takes care of what was just queued. A waiter that drives will see it.
func (p *progress) poke() {
	if p.dedicated || !p.driven.Load() {
		p.nudge()
	}
}

// nudge wakes the driver goroutine if it sleeps. It takes the worker if nobody else does within lookAgain.
func (p *progress) nudge() {
	if p.asleep.Load() && p.asleep.CompareAndSwap(true, false) {
		p.signal()
	}
}

// call has the driver goroutine take the worker at once.
func (p *progress) call() {
	p.urgent.Store(true)
	p.signal()
}

func (p *progress) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// poll does one turn if nobody drives.
func (p *progress) poll() {
	if p.take() {
		p.turn(time.Now())
		p.leave()
	}
}

// await waits until the condition is met or the context ends; met false means the latter, and err is why. The worker's
// turns wake the list whenever the condition may have changed. When inline the caller drives the worker if nobody else
// does.
func (p *progress) await(ctx context.Context, list *waitlist, c condition) (met bool, err error) {
	if met, err = c.met(); met {
		return met, err
	}
	var w *waiter // once it has to sleep
	owed := false // called from the lineup, and neither driven since nor passed it on
	for {
		rest := false
		if p.take() {
			met, rest, err = p.drive(ctx, c)
			if rest {
				p.cold.Add(1)
			}
			p.leave()
			owed = false
		} else if p.driven.Load() {
			owed = false // who drives hands over when he leaves
		}
		if !met && err == nil {
			if w == nil {
				w = p.waiters.get(newWaiter)
			}
			var again bool
			fellAsleep := time.Now()
			met, again, err = p.park(ctx, list, c, w, rest)
			owed = owed || again
			if rest {
				// Only a change wakes a waiter; on a rail that has nothing to sleep on it shows after a nap of a millisecond.
				p.slept(time.Since(fellAsleep), 2*longestYield)
			}
		}
		if rest {
			p.cold.Add(-1)
		}
		if met || err != nil {
			break
		}
	}
	if owed {
		p.handOver(true, time.Time{})
	}
	if w != nil {
		p.retire(w, list)
	}
	return met, err
}

// retire gives a waiter back for another goroutine to use.
func (p *progress) retire(w *waiter, list *waitlist) {
	if w.listed.Load() {
		list.wake() // the others come back
	}
	if w.listed.Load() {
		return // another goroutine is about to wake it: leave it to him
	}
	select {
	case <-w.signal:
	default:
	}
	p.waiters.put(w)
}

// drive does turns until the condition is met, the context ends, the engine closes, or, with rest true, nothing has
// happened for so long that the caller should sleep; the rail then notifies.
func (p *progress) drive(ctx context.Context, c condition) (met, rest bool, err error) {
	// Something may have happened since the caller looked.
	if met, err = c.met(); met {
		return met, false, err
	}
	l := newLull(&p.yield)
	for now := l.last; !p.stopping.Load(); now = time.Now() {
		if p.turn(now) > 0 {
			l.last = now
			if met, err = c.met(); met {
				return met, false, err
			}
		}
		select {
		case <-ctx.Done():
			return false, false, context.Cause(ctx)
		default:
		}
		if l.restless(now) {
			continue
		}
		if p.cover() {
			return false, true, nil
		}
		l.last = now
	}
	return false, false, nil
}

// lull is what a driver knows of the time in which nothing happens.
type lull struct {
	yield   *atomic.Int64 // how long to let others run before sleeping
	last    time.Time     // something happened
	yielded time.Time
}

func newLull(yield *atomic.Int64) lull {
	now := time.Now()
	return lull{yield: yield, last: now, yielded: now}
}

// restless passes the time between two turns when nothing has happened for a while. It returns false when that was so long that
// the driver should sleep. Others are let run only every spinTime: where there are none, the scheduler looks for some by
// system calls.
func (l *lull) restless(now time.Time) bool {
	while := now.Sub(l.last)
	if while < spinTime {
		return true
	}
	if now.Sub(l.yielded) >= spinTime {
		runtime.Gosched()
		l.yielded = now
	}
	return while < spinTime+time.Duration(l.yield.Load())
}

// park sleeps until the condition may have changed, the caller was called to drive the worker, or the context ends. It
// returns whether the condition is met, whether the caller was called, and what ended the wait.
func (p *progress) park(ctx context.Context, list *waitlist, c condition, w *waiter, rest bool) (met, called bool, err error) {
	if !w.listed.Load() {
		list.add(w)
	}
	if !rest {
		p.hot.add(w)
		defer func() { called = !p.hot.remove(w) }()
	}
	// Whatever changed before the goroutine was on the lists woke nobody.
	if met, err = c.met(); met {
		return met, false, err
	}
	if !rest && !p.manual && !p.driven.Load() && !p.stopping.Load() {
		return false, false, nil
	}
	select {
	case <-w.signal:
		return false, false, nil
	case <-ctx.Done():
		return false, false, context.Cause(ctx)
	}
}
