package fabricrail

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/weftrdma/weft/transferengine/rail"
)

// crosser makes calls into libfabric that may never return.
//
// shm takes spin locks in the peers' memory and lets them take its own. A process that is killed while it holds one leaves it
// locked for ever, and whoever wants it spins in C, where nothing can reach. So calls into shm are made on a goroutine of their
// own: one that exceeds its bound is given up, with its thread, which keeps a core busy until the process ends.
type crosser struct {
	calls   chan func() // nil for a provider whose calls return
	done    chan bool   // of the call in progress: false if it was given up
	begun   uint64      // calls
	current atomic.Uint64
	stuck   atomic.Bool
	stopped chan struct{}
}

// errStuck is the error of every call once one was given up.
var errStuck = errors.New("a call into libfabric did not return: a process that was killed left a lock in shared memory; the " +
	"thread of that call keeps a core busy until this process ends")

func (x *crosser) start(bound time.Duration) {
	x.calls, x.done, x.stopped = make(chan func()), make(chan bool, 1), make(chan struct{})
	go x.run()
	go x.watch(bound)
}

// run makes the calls, until one was given up.
func (x *crosser) run() {
	for call := range x.calls {
		number := x.current.Load()
		call()
		if !x.current.CompareAndSwap(number, 0) {
			return
		}
		x.done <- true
	}
}

// watch gives up a call that it sees for as long as the bound. It looks now and then, since a timer for each call costs more than
// the call.
func (x *crosser) watch(bound time.Duration) {
	const looks = 8
	ticker := time.NewTicker(max(bound/looks, 1))
	defer ticker.Stop()
	for seen, last := 0, uint64(0); ; {
		select {
		case <-x.stopped:
			return
		case <-ticker.C:
		}
		number := x.current.Load()
		if number == 0 || number != last {
			seen, last = 0, number
			continue
		}
		if seen++; seen == looks && x.current.CompareAndSwap(number, 0) {
			x.stuck.Store(true)
			x.done <- false
			return
		}
	}
}

// do makes a call. After errStuck the call still has whatever it was given.
func (x *crosser) do(call func()) error {
	if x.calls == nil {
		call()
		return nil
	}
	if x.stuck.Load() {
		return errStuck
	}
	x.begun++
	x.current.Store(x.begun)
	x.calls <- call
	if !<-x.done {
		return errStuck
	}
	return nil
}

// stop ends the goroutines, but for one that is stuck.
func (x *crosser) stop() {
	if x.calls != nil {
		close(x.calls)
		close(x.stopped)
	}
}

var _ rail.Sticker = (*Rail)(nil)

// StuckThreads implements [rail.Sticker]: 0 or 1, since after one call nothing is called any more.
func (r *Rail) StuckThreads() int {
	if r.crosser.stuck.Load() {
		return 1
	}
	return 0
}
