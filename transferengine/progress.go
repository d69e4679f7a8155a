package transferengine

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftrdma/weft/transferengine/rail"
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
	// lookAgain is when the back-up goroutine, awake while others drive, looks whether they still do. It takes the worker when no
	// turn was taken between two looks, so that one begins within twice that time. Each look wakes a thread.
	lookAgain = 500 * time.Microsecond
	// obliging is how many turns in a row somebody who wants to leave takes for others, who found the worker taken.
	obliging = 8
	// deafTurn is how often a worker turns whose rail cannot notify any more.
	deafTurn = time.Millisecond
	// never is a time since the epoch that does not come.
	never time.Duration = math.MaxInt64
)

// progress decides which goroutine drives the worker. Whoever changes driven from false to true does, until he leaves.
//
// Nobody may leave a worker on its own: when driven is false, one of these holds, so that what arrives or is queued is
// taken care of.
//
//   - a goroutine in the lineup was called, or is about to try: it takes the worker or passes the call on;
//   - the driver goroutine is awake, and looks again within lookAgain;
//   - the driver goroutine sleeps, the rail was armed before it went to sleep and has not notified since, its timer is
//     set to the worker's next turn, and the queue was empty. Whoever queues something takes the worker or wakes it
//     (submit), as does who leaves with something left to do.
type progress struct {
	worker  *worker
	waiters spares[waiter]

	dedicated bool      // the driver goroutine never leaves the worker
	manual    bool      // nobody takes the worker but in turnAt
	epoch     time.Time // from which times are counted

	driven   atomic.Bool
	hot      lineup        // waiters that want to drive
	cold     lineup        // waiters that drove in vain for long, and rely on the rail's notification
	patience patience      // of the waiters, or of the dedicated goroutine
	armed    atomic.Bool   // the rail will notify
	nextDue  atomic.Int64  // the worker's next turn as its last driver left it
	stopping atomic.Bool   // only halt may take the worker
	vacated  chan struct{} // tells halt that the worker was left

	// The driver's.
	spinner  rail.Spinner  // the rail, if it is one
	last     time.Time     // of the worker's turns
	next     time.Duration // of the worker's turns, or never
	breathed time.Duration // others were let run
	queued   uint64        // in the worker's queue, ever, when the last turn began

	// The driver goroutine (the back-up one, when inline) and the one that sleeps in the rail's Wait.
	goroutines sync.WaitGroup
	context    context.Context
	cancel     context.CancelFunc
	asleep     atomic.Bool   // the driver goroutine relies on being woken
	sleepsTill atomic.Int64  // its timer, or never
	wake       chan struct{} // somebody has work for it
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
	p := &progress{worker: w, epoch: time.Now(), waiters: newSpares[waiter](), vacated: make(chan struct{}, 1),
		wake: make(chan struct{}, 1), notified: make(chan struct{}, 1), timer: time.NewTimer(never)}
	p.context, p.cancel = context.WithCancel(context.Background())
	p.spinner, _ = w.rail.(rail.Spinner)
	return p
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
	return true
}

// leave ends the caller's driving. What others queued meanwhile, who left it to the caller, is seen to first.
func (p *progress) leave() {
	for n := 0; p.letGo(n == obliging) && p.take(); n++ {
		p.turn(p.epoch.Add(p.clock()))
	}
}

// letGo leaves the worker. It returns true if nobody is sure to see soon to what was queued since the last turn began, unless it is
// to be the back-up goroutine.
func (p *progress) letGo(backUp bool) (again bool) {
	// While somebody sleeps who relies on the rail's notification it is to be had.
	ready := p.cold.length.Load() > 0 && !p.cover()
	unfinished, due := ready || p.worker.unfinished(), time.Duration(0)
	if !unfinished {
		due = p.next
	}
	p.nextDue.Store(int64(due))
	seen := p.queued
	p.driven.Store(false)
	queued := p.worker.queue.Pushed().Load() != seen
	switch {
	case p.stopping.Load():
		p.vacate()
	case ready && p.cold.call():
	case p.hot.length.Load() > 0 && p.hot.call():
	case queued && !backUp && !p.dedicated:
		return true
	case p.asleep.Load():
		p.handOver(unfinished || queued, due)
	}
	return false
}

// handOver finds somebody to drive a worker that was left, or passed on.
func (p *progress) handOver(unfinished bool, due time.Duration) {
	switch {
	case p.stopping.Load():
		p.vacate()
	case p.hot.length.Load() > 0 && p.hot.call():
	case !p.asleep.Load(): // looks by itself
	case unfinished, !p.armed.Load(), p.worker.queue.Len() > 0, due < time.Duration(p.sleepsTill.Load()):
		p.nudge()
	}
}

// vacate tells halt that nobody drives.
func (p *progress) vacate() {
	select {
	case p.vacated <- struct{}{}:
	default:
	}
}

// clock tells the time since the epoch, by one reading of the monotonic clock, where time.Now takes two.
func (p *progress) clock() time.Duration { return time.Since(p.epoch) }

// turn has the worker do a turn. Only the driver may call it.
func (p *progress) turn(now time.Time) (did int, next time.Time) {
	p.last, p.queued = now, p.worker.queue.Pushed().Load()
	p.disarm() // that was before the turn
	did, next = p.worker.Turn(now)
	if p.next = never; !next.IsZero() {
		p.next = next.Sub(p.epoch)
	}
	return did, next
}

// step has the worker do a turn, unless the last one left nothing to do and a look at the rail, which costs less, shows that
// nothing has come since.
func (p *progress) step(now time.Duration) (did int) {
	if p.spinner != nil && now < p.next {
		pushed := p.worker.queue.Pushed()
		was := pushed.Load() // before it is found that there is nothing
		if !p.worker.unfinished() && !p.spinner.Spin(lookTime, pushed, was) {
			return 0
		}
	}
	did, _ = p.turn(p.epoch.Add(now))
	return did
}

// breathe lets other goroutines run if the driver has gone on for long.
func (p *progress) breathe(now time.Duration) {
	if now-p.breathed >= breathTime {
		runtime.Gosched()
		p.breathed = now
	}
}

// turnAt has the worker do a turn for somebody with a clock of his own, unless the engine closes.
func (p *progress) turnAt(now time.Time) (did int, next time.Time) {
	if p.stopping.Load() || !p.driven.CompareAndSwap(false, true) {
		return 0, time.Time{}
	}
	did, next = p.turn(now)
	p.driven.Store(false)
	if p.stopping.Load() {
		p.vacate()
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

// nudge wakes the driver goroutine if it sleeps. The back-up one takes the worker if no turn is taken within lookAgain.
func (p *progress) nudge() {
	if p.asleep.Load() && p.asleep.CompareAndSwap(true, false) {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// disarm notes that the rail need not notify any more. Only the driver may call it. A store costs more than a look.
func (p *progress) disarm() {
	if p.armed.Load() {
		p.armed.Store(false)
	}
}

// submit hands the worker work, and returns false if its queue is full. Inline, a turn of the caller's sees to it before submit
// returns, or the next one of whoever drives; only what there is more to come of may wait for the back-up goroutine.
func (p *progress) submit(s submission, more bool) (queued bool) {
	if more || p.dedicated {
		queued = p.worker.queue.Push(s)
		p.nudge()
		return queued
	}
	if s.transfer != nil && p.take() {
		if p.worker.idle() {
			p.launch(s.transfer)
			p.leave()
			return true
		}
		queued = p.worker.queue.Push(s)
	} else if queued = p.worker.queue.Push(s); !p.take() { // in this order: who leaves looks at the queue after that
		return queued
	}
	p.turn(p.epoch.Add(p.clock()))
	if !queued { // there is room now
		queued = p.worker.queue.Push(s)
	}
	p.leave()
	return queued
}

// launch has a worker that has nothing else to do post a transfer, which takes less than a turn. Only the driver may call it.
func (p *progress) launch(t *Transfer) {
	now := p.clock()
	if within, begun := p.worker.launch(p.epoch.Add(now), t); begun {
		p.next = min(p.next, now+within)
	}
	p.disarm() // that was before the post
}

// poll does one turn if nobody drives.
func (p *progress) poll() {
	if p.take() {
		p.turn(p.epoch.Add(p.clock()))
		p.leave()
	}
}

// await waits until the condition is met or the context ends; met false means the latter, and err is why. The worker's
// turns wake the list whenever the condition may have changed. When inline the caller drives the worker if nobody else
// does.
func (p *progress) await(ctx context.Context, list *waitlist, c condition) (met bool, err error) {
	// With something queued the way to the NIC is the longer one, and a look at the condition can wait for the first turn.
	if p.worker.queue.Len() == 0 {
		if met, err = c.met(); met {
			return met, err
		}
	}
	var w *waiter                       // once it has to sleep
	var fellAsleep, awoke time.Duration // after having driven in vain; zero once something has happened since
	owed := false                       // called from a lineup, and neither driven since nor passed it on
	for !met && err == nil {
		line := &p.hot
		if p.take() {
			var rest, stirred bool
			slept := fellAsleep > 0
			if slept {
				awoke = p.clock()
			}
			met, rest, stirred, err = p.drive(ctx, c, !slept)
			if slept && stirred {
				p.patience.slept(awoke - fellAsleep)
				fellAsleep = 0
			}
			if rest {
				w, line = p.waiterFor(w), &p.cold
				line.add(w) // before the worker is left: the notification may come at once
			}
			p.leave()
			owed = false
		} else if p.driven.Load() {
			owed = false // who drives hands over when he leaves
		}
		if met || err != nil {
			break
		}
		w = p.waiterFor(w)
		if line == &p.cold && fellAsleep == 0 {
			fellAsleep = p.clock()
		}
		var called bool
		met, called, err = p.park(ctx, list, c, w, line)
		owed = owed || called
	}
	if met && fellAsleep > 0 {
		p.patience.slept(p.clock() - fellAsleep)
	}
	if owed {
		p.handOver(true, 0)
	}
	if w != nil {
		p.retire(w, list)
	}
	return met, err
}

// waiterFor returns the waiter that the caller has, or one of the spare ones.
func (p *progress) waiterFor(w *waiter) *waiter {
	if w == nil {
		w = p.waiters.get(newWaiter)
	}
	return w
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
// happened for so long that the caller should sleep; the rail then notifies. Stirred tells whether anything happened. Without
// fresh, after a sleep, a first turn that finds nothing is reason enough to go on sleeping.
func (p *progress) drive(ctx context.Context, c condition, fresh bool) (met, rest, stirred bool, err error) {
	now, looked := p.clock(), false
	l := newLull(now, p.patience.get())
	if !fresh {
		l.patience = 0
	}
	for ; !p.stopping.Load(); now = p.clock() {
		did := p.step(now)
		p.breathe(now)
		// Before the first turn too something may have happened since the caller looked.
		if did > 0 || !looked {
			looked = true
			if met, err = c.met(); met {
				return met, false, stirred, err
			}
		}
		if did > 0 {
			l, stirred = newLull(now, p.patience.get()), true
		}
		select {
		case <-ctx.Done():
			return false, false, stirred, context.Cause(ctx)
		default:
		}
		if l.restless(now) {
			continue
		}
		if p.cover() {
			return false, true, stirred, nil
		}
		l.interrupt(now)
	}
	return false, false, stirred, nil
}

// park sleeps until the condition may have changed, the caller was called to drive the worker, or the context ends. It
// returns whether the condition is met, whether the caller was called, and what ended the wait. The caller is in the lineup
// already if that is the cold one.
func (p *progress) park(ctx context.Context, list *waitlist, c condition, w *waiter, line *lineup) (met, called bool, err error) {
	if !w.listed.Load() {
		list.add(w)
	}
	if line == &p.hot {
		line.add(w)
	}
	defer func() { called = !line.remove(w) }()
	// Whatever changed before the goroutine was on the lists woke nobody.
	if met, err = c.met(); met {
		return met, false, err
	}
	if line == &p.hot && !p.manual && !p.driven.Load() && !p.stopping.Load() {
		return false, false, nil
	}
	select {
	case <-w.signal:
		return false, false, nil
	case <-ctx.Done():
		return false, false, context.Cause(ctx)
	}
}
