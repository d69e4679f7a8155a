package fabric

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/weftrdma/weft/internal/life"
)

// waiter has Go's poller wait for a queue's descriptor: by a duplicate, since the original is libfabric's, which closes it.
type waiter struct {
	file *os.File
	conn syscall.RawConn
	of   *life.Object
}

func newWaiter(fd int, of *life.Object) (*waiter, error) {
	dup, err := dupCloseOnExec(fd)
	if err != nil {
		return nil, fmt.Errorf("duplicate the queue's descriptor: %w", err)
	}
	if err := syscall.SetNonblock(dup, true); err != nil { // or Go's poller would not take it
		return nil, closeAfter(err, func() error { return syscall.Close(dup) })
	}
	w := &waiter{file: os.NewFile(uintptr(dup), "queue"), of: of}
	w.conn, err = w.file.SyscallConn()
	return w, err
}

func (w *waiter) close() { w.file.Close() } // a duplicate: nothing is lost

// wake has a wait in progress look whether its context has ended.
func (w *waiter) wake() { _ = w.file.SetReadDeadline(past) } // refused only when closed

var past = time.Unix(1, 0)

// wait calls take until it gives something. Between calls it sleeps, if sleep says that it may: libfabric's descriptors say
// only that something happened since somebody last looked, and by trywait whether there is anything to look at.
func (w *waiter) wait(ctx context.Context, take func() (int, error), sleep func() bool) (int, error) {
	stop := context.AfterFunc(ctx, w.wake)
	defer stop()
	for {
		var taken int
		var refused error
		err := w.conn.Read(func(fd uintptr) bool {
			for {
				if taken, refused = take(); taken > 0 || refused != nil || ctx.Err() != nil {
					return true
				}
				if w.maySleep(fd, sleep) {
					return false
				}
			}
		})
		switch {
		case taken > 0 || refused != nil:
			return taken, refused
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			return 0, w.closed(err)
		}
		// The deadline was set for an earlier wait, whose context ended as it returned.
		if err := w.file.SetReadDeadline(time.Time{}); err != nil {
			return 0, w.closed(err)
		}
		if ctx.Err() != nil { // its own deadline may just have been taken back
			return 0, context.Cause(ctx)
		}
	}
}

// maySleep tells whether the queue has nothing to look at. The descriptor is an epoll instance as a rule, ready as long as
// anything under it is, and Go's poller tells only of what becomes ready. A provider may have left something for later:
// ofi_rxm looks at new connections every 10 ms. So a descriptor that is ready is not slept on.
func (w *waiter) maySleep(fd uintptr, sleep func() bool) bool {
	if w.of.Enter() != nil {
		return false // take says so
	}
	defer w.of.Exit()
	return sleep() && !readable(fd)
}

// closed makes the poller's error for a closed descriptor that of a closed object.
func (w *waiter) closed(err error) error {
	if closed := w.of.Enter(); closed != nil {
		return closed
	}
	w.of.Exit()
	return err
}
