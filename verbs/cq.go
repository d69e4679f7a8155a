package verbs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// CQ is a completion queue.
type CQ struct {
	life   life.Object
	ptr    unsafe.Pointer // struct weft_cq *
	depth  int
	events *os.File // a duplicate of the completion channel's descriptor; nil without events
	conn   syscall.RawConn
}

// CQConfig says how to make a completion queue.
type CQConfig struct {
	// Depth is how many completions must fit: those of all work requests posted at a time to all queue pairs on it. A
	// queue that overflows is lost, with all its queue pairs.
	Depth int
	// Events gives the queue a completion channel, for [CQ.Arm] and [CQ.Wait].
	Events bool
}

func (cfg CQConfig) validate(device string, limit int) error {
	if cfg.Depth < 1 || cfg.Depth > limit {
		return invalid("create completion queue of depth %d: %s takes 1 to %d", cfg.Depth, device, limit)
	}
	return nil
}

// CreateCQ makes a completion queue.
//
// Implements:
//
//	struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int comp_vector)
//	struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
func (c *Context) CreateCQ(cfg CQConfig) (*CQ, error) {
	if err := c.life.Enter(); err != nil {
		return nil, err
	}
	defer c.life.Exit()
	if err := cfg.validate(c.name, c.attr.MaxCQE); err != nil {
		return nil, err
	}
	ptr, depth, fd, err := cCreateCQ(c.ptr, cfg.Depth, cfg.Events)
	if err != nil {
		return nil, fmt.Errorf("create completion queue of depth %d: %w", cfg.Depth, err)
	}
	cq := &CQ{ptr: ptr, depth: depth}
	if cfg.Events {
		err = cq.watch(fd)
	}
	if err == nil {
		err = cq.life.Init("completion queue", &c.life, cq.destroy)
	}
	if err != nil {
		return nil, closeAfter(err, cq.destroy)
	}
	return cq, nil
}

// watch gives Go's poller a duplicate of the channel's descriptor: the original belongs to libibverbs, which closes it.
func (cq *CQ) watch(fd int) error {
	dup, err := dupCloseOnExec(fd)
	if err != nil {
		return fmt.Errorf("duplicate the completion channel's descriptor: %w", err)
	}
	cq.events = os.NewFile(uintptr(dup), "completion channel")
	cq.conn, err = cq.events.SyscallConn()
	return err
}

func (cq *CQ) destroy() error {
	if err := cDestroyCQ(cq.ptr); err != nil {
		return err
	}
	if cq.events != nil {
		cq.events.Close() // a duplicate: nothing is lost
	}
	return nil
}

// Close destroys the queue. It is refused with EBUSY while a QP is open on it. A Wait in progress ends.
//
// Implements:
//
//	int ibv_destroy_cq(struct ibv_cq *cq)
//	int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
func (cq *CQ) Close() error { return cq.life.Close() }

// Depth is how many completions fit, which may be more than was asked for.
func (cq *CQ) Depth() int { return cq.depth }

// Raw returns the struct ibv_cq pointer, for calls that this package does not have.
func (cq *CQ) Raw() unsafe.Pointer { return cRawCQ(cq.ptr) }

// MaxSpin is the longest that [CQ.PollSpin] spins in C: the Go scheduler takes the processor away from a thread that
// stays in C for 20 µs.
const MaxSpin = 10 * time.Microsecond

// Poll moves up to len(wcs) completions into wcs and returns how many; 0 if there are none.
//
// Implements:
//
//	int ibv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
func (cq *CQ) Poll(wcs []WC) (int, error) { return cq.PollSpin(wcs, 0) }

// PollSpin is Poll that, while there are no completions, looks again for up to spin, at most [MaxSpin].
func (cq *CQ) PollSpin(wcs []WC, spin time.Duration) (int, error) {
	if err := cq.life.Enter(); err != nil {
		return 0, err
	}
	defer cq.life.Exit()
	if len(wcs) == 0 {
		return 0, nil
	}
	n := cPollCQ(cq.ptr, wcs, uint32(min(max(spin, 0), MaxSpin)))
	if n < 0 {
		return 0, &Error{Op: "ibv_poll_cq", Err: syscall.Errno(-n)}
	}
	return n, nil
}

// Arm asks for an event at the next completion. Completions that are there already give none, so poll again after Arm
// and before Wait.
//
// Implements:
//
//	int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only)
func (cq *CQ) Arm() error {
	if err := cq.life.Enter(); err != nil {
		return err
	}
	defer cq.life.Exit()
	if cq.events == nil {
		return invalid("arm a completion queue that was made without Events")
	}
	return cArmCQ(cq.ptr)
}

// Wait blocks until an event that Arm asked for has come, or ctx ends; its error is then ctx's. No thread is held
// meanwhile. All events that have come are taken and acknowledged. One goroutine at a time may wait.
//
// Implements:
//
//	int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
//	void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
func (cq *CQ) Wait(ctx context.Context) error {
	if cq.events == nil {
		return invalid("wait on a completion queue that was made without Events")
	}
	stop := context.AfterFunc(ctx, func() { cq.events.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		var taken int
		var failed error
		err := cq.conn.Read(func(uintptr) bool {
			taken, failed = cq.takeEvents()
			return taken > 0 || failed != nil
		})
		switch {
		case failed != nil:
			return failed
		case err == nil:
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return cq.closed(err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		// The deadline was set for an earlier Wait, whose context ended as it returned.
		if err := cq.events.SetReadDeadline(time.Time{}); err != nil {
			return cq.closed(err)
		}
		if ctx.Err() != nil { // its own deadline may just have been taken back
			return context.Cause(ctx)
		}
	}
}

// takeEvents is guarded by itself, since Close must not wait for a Wait.
func (cq *CQ) takeEvents() (int, error) {
	if err := cq.life.Enter(); err != nil {
		return 0, err
	}
	defer cq.life.Exit()
	n := cCQEvents(cq.ptr)
	if n < 0 {
		return 0, &Error{Op: "ibv_get_cq_event", Err: syscall.Errno(-n)}
	}
	return n, nil
}

// closed makes the poller's error for a closed descriptor that of a closed object.
func (cq *CQ) closed(err error) error {
	if closed := cq.life.Enter(); closed != nil {
		return closed
	}
	cq.life.Exit()
	return err
}
