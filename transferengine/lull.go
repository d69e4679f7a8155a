package transferengine

import (
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// spinTime is how long whoever drives goes on without anything happening before he lets other goroutines run between
	// two looks, and yieldTime for how long after that he goes on before he sleeps. A yield wakes a thread where a
	// processor is idle, which is why spinTime is not shorter, and why each yield of a lull comes after twice the time of
	// the one before.
	//
	// A waiter, or the dedicated goroutine, that finds after a sleep that it was not worth it yields for twice as long the
	// next time, up to longestYield, and after one that was for half as long. Without this, two engines that answer each
	// other and once were asleep would be asleep each time the other's answer comes.
	spinTime     = 100 * time.Microsecond
	yieldTime    = 50 * time.Microsecond
	longestYield = 2 * time.Millisecond
	// worthSleeping is a sleep that was worth it: several times what falling asleep and waking up take.
	worthSleeping = 4 * time.Millisecond
	// breathTime is how often a driver lets others run however much happens. From a goroutine that goes on for 10 ms Go's
	// runtime takes the processor away, also in the middle of a call into C, and its watching thread then wakes every 20 µs
	// for a while (retake and sysmon in runtime/proc.go).
	breathTime = 5 * time.Millisecond
	// lookTime is how long a look at the rail lasts in which nothing comes and nothing is queued. In C a spin has to end
	// before the runtime takes the processor away.
	lookTime = 10 * time.Microsecond
)

// lull is what a driver knows of the time in which nothing happens.
type lull struct {
	last     time.Duration // something happened, by the progress's clock
	yieldIn  time.Duration // from last
	patience time.Duration // from last, until the driver should sleep
}

func newLull(now, patience time.Duration) lull {
	return lull{last: now, yieldIn: spinTime, patience: patience}
}

// interrupt takes in that something happened.
func (l *lull) interrupt(now time.Duration) { l.last, l.yieldIn = now, spinTime }

// restless passes the time between two looks that found nothing. It returns false once the driver should sleep.
func (l *lull) restless(now time.Duration) bool {
	while := now - l.last
	if while >= l.yieldIn {
		runtime.Gosched()
		l.yieldIn *= 2
	}
	return while < l.patience
}

// patience is for how long drivers go on without anything happening before they sleep, as it is at present.
type patience struct {
	extra atomic.Int64
	none  bool // Config.NoSpin
}

func (p *patience) get() time.Duration {
	if p.none {
		return 0
	}
	return spinTime + yieldTime + time.Duration(p.extra.Load())
}

// slept takes in how long a driver slept.
func (p *patience) slept(d time.Duration) {
	yield := p.get() - spinTime
	if d < worthSleeping {
		yield = min(2*yield, longestYield)
	} else {
		yield = max(yield/2, yieldTime)
	}
	p.extra.Store(int64(yield - yieldTime))
}
