package verbs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/solo"
)

// CompChannel is a completion channel that several completion queues share, so that one goroutine waits for all of them.
type CompChannel struct {
	life   life.Object
	ctx    *Context
	ptr    unsafe.Pointer // struct weft_channel *
	events *waiter
	raw    [64]uint64 // of Wait, which one goroutine at a time calls

	mu   sync.Mutex
	lost []*CQ // that the device reported so, and Wait has not told yet
}

// CreateCompChannel makes a completion channel, for [CQConfig].
//
// Implements:
//
//	struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
func (c *Context) CreateCompChannel() (*CompChannel, error) {
	if err := c.life.Enter(); err != nil {
		return nil, err
	}
	defer c.life.Exit()
	ptr, fd, err := cCreateChannel(c.ptr)
	if err != nil {
		return nil, err
	}
	ch := &CompChannel{ctx: c, ptr: ptr}
	if ch.events, err = newWaiter(fd, &ch.life); err == nil {
		err = ch.life.Init("completion channel", &c.life, ch.destroy)
	}
	if err != nil {
		return nil, closeAfter(err, ch.destroy)
	}
	return ch, nil
}

func (ch *CompChannel) destroy() error {
	if err := cDestroyChannel(ch.ptr); err != nil {
		return life.Refused(err)
	}
	if ch.events != nil {
		ch.events.close()
	}
	return nil
}

// Close destroys the channel. It is refused with EBUSY while a completion queue is open on it. A Wait in progress ends.
//
// Implements:
//
//	int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
func (ch *CompChannel) Close() error { return ch.life.Close() }

// Wait blocks until queues of the channel that were armed have completions, or ctx ends; its error is then ctx's. It appends
// these queues to ready, once for each event. One goroutine at a time may wait. A queue that the device reported lost is ready
// as well, once: its Poll gives [ErrCQFailed].
//
// Implements:
//
//	int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
//	void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
func (ch *CompChannel) Wait(ctx context.Context, ready []*CQ) ([]*CQ, error) {
	err := ch.events.wait(ctx, func() (int, error) {
		lost := ch.takeLost()
		ready = append(ready, lost...)
		taken := len(lost)
		for {
			n, err := ch.takeEvents()
			if err != nil || n == 0 {
				return taken, err
			}
			taken += n
			for _, raw := range ch.raw[:n] {
				if cq, ok := ch.ctx.objects.find(raw).(*CQ); ok {
					ready = append(ready, cq)
				}
			}
		}
	}, nil)
	return ready, err
}

// lose has Wait tell of a queue that completes nothing more.
func (ch *CompChannel) lose(cq *CQ) {
	ch.mu.Lock()
	ch.lost = append(ch.lost, cq)
	ch.mu.Unlock()
	ch.events.wake()
}

// takeLost takes the lost queues that are still open.
func (ch *CompChannel) takeLost() []*CQ {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	lost := slices.DeleteFunc(ch.lost, func(cq *CQ) bool {
		if cq.life.Enter() != nil {
			return true
		}
		cq.life.Exit()
		return false
	})
	ch.lost = nil
	return lost
}

func (ch *CompChannel) takeEvents() (int, error) {
	if err := ch.life.Enter(); err != nil {
		return 0, err
	}
	defer ch.life.Exit()
	n := cChannelEvents(ch.ptr, ch.raw[:])
	if n < 0 {
		return 0, &Error{Op: "ibv_get_cq_event", Err: syscall.Errno(-n)}
	}
	return n, nil
}

// waiter has Go's poller wait for a completion channel's descriptor: by a duplicate, since the original belongs to
// libibverbs, which closes it.
type waiter struct {
	file *os.File
	conn syscall.RawConn
	of   *life.Object
	user solo.Guard
}

func newWaiter(fd int, of *life.Object) (*waiter, error) {
	dup, err := dupCloseOnExec(fd)
	if err != nil {
		return nil, fmt.Errorf("duplicate the completion channel's descriptor: %w", err)
	}
	w := &waiter{file: os.NewFile(uintptr(dup), "completion channel"), of: of}
	w.conn, err = w.file.SyscallConn()
	return w, err
}

func (w *waiter) close() { w.file.Close() } // a duplicate: nothing is lost

// wake has a wait in progress look at its failure.
func (w *waiter) wake() { _ = w.file.SetReadDeadline(past) } // refused only when closed

var past = time.Unix(1, 0)

// wait calls take until it gives something, or failed, if it is not nil, has an error; wake has it asked.
func (w *waiter) wait(ctx context.Context, take func() (int, error), failed func() error) error {
	w.user.Use()
	stop := context.AfterFunc(ctx, w.wake)
	defer stop()
	if failed == nil {
		failed = func() error { return nil }
	}
	for {
		if err := failed(); err != nil {
			return err
		}
		var taken int
		var refused error
		err := w.conn.Read(func(uintptr) bool {
			taken, refused = take()
			return taken > 0 || refused != nil
		})
		switch {
		case refused != nil:
			return refused
		case err == nil:
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return w.closed(err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		// The deadline was set for an earlier wait, whose context ended as it returned.
		if err := w.file.SetReadDeadline(time.Time{}); err != nil {
			return w.closed(err)
		}
		if ctx.Err() != nil { // its own deadline may just have been taken back; a failure's too, hence the look above
			return context.Cause(ctx)
		}
	}
}

// closed makes the poller's error for a closed descriptor that of a closed object.
func (w *waiter) closed(err error) error {
	if closed := w.of.Enter(); closed != nil {
		return closed
	}
	w.of.Exit()
	return err
}
