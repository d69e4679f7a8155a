package fabric

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weftrdma/weft/internal/life"
)

// waiter has Go's poller wait for a queue's descriptor.
type waiter struct {
	descriptor descriptor
	conn       syscall.RawConn
	of         *life.Object

	mu        sync.Mutex  // held by who changes what follows
	listening atomic.Bool // the poller is told of the descriptor
	dismissed bool        // somebody has ended the wait
}

func newWaiter(fd int, of *life.Object) (*waiter, error) {
	d, err := newDescriptor(fd)
	if err != nil {
		return nil, err
	}
	return waiterOn(d, of)
}

func waiterOn(d descriptor, of *life.Object) (w *waiter, err error) {
	w = &waiter{descriptor: d, of: of}
	w.conn, err = d.file.SyscallConn()
	return w, err
}

func (w *waiter) close() { w.descriptor.close() }

// wake has a wait in progress look whether its context has ended.
func (w *waiter) wake() { _ = w.descriptor.file.SetReadDeadline(past) } // refused only when closed

var past = time.Unix(1, 0)

// dismiss ends a wait that sleeps, for whoever takes what comes himself.
func (w *waiter) dismiss() {
	if !w.listening.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listening.Load() {
		w.descriptor.ignore()
		w.listening.Store(false)
		w.dismissed = true
		w.wake()
	}
}

// wait calls take until it gives something; or until the wait was dismissed, and then it gives nothing. Between calls it sleeps,
// if sleep says that it may: libfabric's descriptors say only that something happened since somebody last looked, and by trywait
// whether there is anything to look at.
func (w *waiter) wait(ctx context.Context, take func() (int, error), sleep func() bool) (int, error) {
	stop := context.AfterFunc(ctx, w.wake)
	defer stop()
	for {
		var taken int
		var refused error
		var dismissed bool
		err := w.conn.Read(func(uintptr) bool {
			for dismissed = w.ignore(); !dismissed; {
				if taken, refused = take(); taken > 0 || refused != nil || ctx.Err() != nil {
					return true
				}
				if listening, err := w.listen(sleep); listening || err != nil {
					refused = err
					return err != nil
				}
			}
			return true
		})
		dismissed = w.ignore() || dismissed
		switch {
		case taken > 0 || refused != nil:
			return taken, refused
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case dismissed:
			return 0, nil
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			return 0, w.closed(err)
		}
		// The deadline was set for an earlier wait, whose context ended as it returned.
		if err := w.descriptor.file.SetReadDeadline(time.Time{}); err != nil {
			return 0, w.closed(err)
		}
		if ctx.Err() != nil { // its own deadline may just have been taken back
			return 0, context.Cause(ctx)
		}
	}
}

// listen has the poller told of the descriptor, if the queue has nothing to look at. The descriptor is an epoll instance as a
// rule, ready as long as anything under it is, and the poller tells only of what becomes ready. A provider may have left something
// for later: ofi_rxm looks at new connections every 10 ms. So a descriptor that is ready is not slept on.
func (w *waiter) listen(sleep func() bool) (listening bool, err error) {
	if w.of.Enter() != nil {
		return false, nil // take says so
	}
	defer w.of.Exit()
	if !sleep() {
		return false, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.descriptor.readable() {
		return false, nil
	}
	err = w.descriptor.listen()
	w.listening.Store(err == nil)
	return err == nil, err
}

// ignore ends that, while the descriptor is open, and tells whether somebody else has.
func (w *waiter) ignore() (dismissed bool) {
	if w.of.Enter() != nil {
		return false
	}
	defer w.of.Exit()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listening.Load() {
		w.descriptor.ignore()
		w.listening.Store(false)
	}
	dismissed, w.dismissed = w.dismissed, false
	return dismissed
}

// closed makes the poller's error for a closed descriptor that of a closed object.
func (w *waiter) closed(err error) error {
	if closed := w.of.Enter(); closed != nil {
		return closed
	}
	w.of.Exit()
	return err
}
