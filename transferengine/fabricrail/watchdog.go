package fabricrail

import (
	"errors"
	"time"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/transferengine/rail"
)

// watchdog has calls into libfabric end that would never return.
//
// shm takes spin locks in the peers' memory and lets them take its own. A process that is killed while it holds one leaves it
// locked for ever, and whoever wants it spins in C. A call that exceeds its bound is broken off, and the rail makes none after it.
type watchdog struct {
	guard   *fabric.Guard // nil for a provider whose calls return
	stopped chan struct{}
}

// errStuck is what a peer is lost to when a call was broken off.
var errStuck = errors.New("a call into libfabric did not return, and was broken off: a process that was killed left a lock in " +
	"shared memory; what is open on it stays as it is until this process ends")

func (w *watchdog) start(d *fabric.Domain, bound time.Duration) (err error) {
	if w.guard, err = d.Guard(); err != nil {
		return err
	}
	w.stopped = make(chan struct{})
	go w.run(bound)
	return nil
}

// run looks now and then what calls are being made, since a timer for each costs more than the call, and breaks off one that it
// sees for as long as the bound.
func (w *watchdog) run(bound time.Duration) {
	const looks = 8
	ticker := time.NewTicker(max(bound/looks, 1))
	defer ticker.Stop()
	kinds := [...]fabric.Guarded{fabric.GuardCall, fabric.GuardLook}
	var last [len(kinds)]uint64
	for seen := [len(kinds)]int{}; ; {
		select {
		case <-w.stopped:
			return
		case <-ticker.C:
		}
		for i, kind := range kinds {
			call := w.guard.Current(kind)
			if call == 0 || call != last[i] {
				seen[i], last[i] = 0, call
			} else if seen[i]++; seen[i] >= looks {
				w.guard.Break(kind, call) // if not now, then at the next look
			}
		}
	}
}

// stuck tells whether a call was broken off.
func (w *watchdog) stuck() bool { return w.guard != nil && w.guard.Broken() }

// stop ends the watch, which has to be there while calls are made.
func (w *watchdog) stop() {
	if w.guard != nil {
		close(w.stopped)
	}
}

// explained is the error of a call as a peer is lost to it.
func explained(err error) error {
	if errors.Is(err, fabric.ErrBroken) {
		return errStuck
	}
	return err
}

var _ rail.Sticker = (*Rail)(nil)

// StuckThreads implements [rail.Sticker]: 0 or 1, since after one call nothing is called any more.
func (r *Rail) StuckThreads() int {
	if r.watchdog.stuck() {
		return 1
	}
	return 0
}
