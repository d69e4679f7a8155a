package fabricrail

import (
	"errors"
	"sync/atomic"
	"time"
)

// crosser makes calls into libfabric that may never return.
//
// shm takes spin locks in the peers' memory and lets them take its own. A process that is killed while it holds one leaves it
// locked for ever, and whoever wants it spins in C, where nothing can reach. So calls into shm are made on a goroutine of their
// own: one that exceeds its bound is given up, with its thread, which keeps a core busy until the process ends.
type crosser struct {
	calls chan func() // nil for a provider whose calls return
	done  chan struct{}
	timer *time.Timer
	bound time.Duration
	stuck atomic.Bool
}

// errStuck is the error of every call once one was given up.
var errStuck = errors.New("a call into libfabric did not return: a process that was killed left a lock in shared memory; the " +
	"thread of that call keeps a core busy until this process ends")

func (x *crosser) start(bound time.Duration) {
	x.calls, x.done, x.bound = make(chan func()), make(chan struct{}, 1), bound
	x.timer = time.NewTimer(bound)
	x.timer.Stop()
	go func(calls chan func()) {
		for call := range calls {
			call()
			x.done <- struct{}{}
		}
	}(x.calls)
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
	x.calls <- call
	x.timer.Reset(x.bound)
	select {
	case <-x.done:
		x.timer.Stop()
		return nil
	case <-x.timer.C:
		x.stuck.Store(true)
		return errStuck
	}
}

// stop ends the goroutine, unless it is stuck.
func (x *crosser) stop() {
	if x.calls != nil {
		close(x.calls)
	}
}

// StuckThreads is how many threads of this process a call of the rail's into libfabric keeps for ever: 0 or 1. See ErrPeerGone
// in the package comment.
func (r *Rail) StuckThreads() int {
	if r.crosser.stuck.Load() {
		return 1
	}
	return 0
}
