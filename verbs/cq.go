package verbs

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/mem"
)

// CQ is a completion queue.
type CQ struct {
	life    life.Object
	ctx     *Context
	ptr     unsafe.Pointer // struct weft_cq *
	raw     unsafe.Pointer // struct ibv_cq *
	channel *CompChannel   // shared; nil otherwise
	events  *waiter        // of its own channel; nil otherwise
	failed  atomic.Bool    // the device reported it
	wrapped bool

	timestamps CQTimestamps
	extended   bool // a struct ibv_cq_ex

	mu       sync.Mutex
	depth    int
	reserved int // of depth, by queue pairs
	srqs     map[*SRQ]srqShare
}

// srqShare is what a shared receive queue takes of a completion queue that its receives come to.
type srqShare struct {
	qps      int // that bring them here
	reserved int
}

// CQConfig says how to make a completion queue.
type CQConfig struct {
	// Depth is how many completions must fit: those of all work requests posted at a time to all queue pairs on it. A
	// queue that overflows is lost, with all its queue pairs; so creating a queue pair takes its depths from this one's, and
	// is refused where they do not fit.
	Depth int
	// Events gives the queue a completion channel of its own, for [CQ.Arm] and [CQ.Wait].
	Events bool
	// Channel has the queue announce its completions on a channel that it shares with others, for [CompChannel.Wait].
	Channel *CompChannel
	// Vector is the completion vector that the queue interrupts by, below [Context.Vectors].
	Vector int
	// Timestamps are the times that the device keeps of each completion, for [CQ.PollTimes]. Where it has no such time, making
	// the queue fails.
	Timestamps CQTimestamps
	// Domain puts the queue into the thread domain of a [PD.ParentDomain].
	Domain *PD
}

// extended tells whether the queue takes ibv_create_cq_ex.
func (cfg *CQConfig) extended() bool { return cfg.Timestamps != 0 || cfg.Domain != nil }

func (cfg CQConfig) validate(c *Context) error {
	switch limit := c.attr.MaxCQE; {
	case cfg.Depth < 1 || cfg.Depth > limit:
		return invalid("create completion queue of depth %d: %s takes 1 to %d", cfg.Depth, c.name, limit)
	case cfg.Events && cfg.Channel != nil:
		return invalid("create completion queue: Events and Channel are both set, one is possible")
	case cfg.Channel != nil && cfg.Channel.ctx != c:
		return foreign("create completion queue", "Channel", cfg.Channel.ctx, c)
	case cfg.Vector < 0 || cfg.Vector >= max(c.Vectors(), 1):
		return invalid("create completion queue: Vector is %d, %s has %d", cfg.Vector, c.name, c.Vectors())
	case cfg.Timestamps&^(TimestampTicks|TimestampWall) != 0:
		return invalid("create completion queue: unknown timestamps %#x", uint32(cfg.Timestamps))
	case cfg.Domain != nil && cfg.Domain.ctx != c:
		return foreign("create completion queue", "Domain", cfg.Domain.ctx, c)
	case cfg.Domain != nil && cfg.Domain.threads == nil:
		return invalid("create completion queue: Domain is no parent domain: make it with PD.ParentDomain")
	case cfg.extended():
		return c.sound("completion queues with timestamps or a thread domain", soundPolling)
	}
	return nil
}

// CreateCQ makes a completion queue.
//
// Implements:
//
//	struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int comp_vector)
//	struct ibv_cq_ex *ibv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *cq_attr)
//	struct ibv_cq *ibv_cq_ex_to_cq(struct ibv_cq_ex *cq)
//	struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
func (c *Context) CreateCQ(cfg CQConfig) (*CQ, error) {
	if err := c.life.Enter(); err != nil {
		return nil, err
	}
	defer c.life.Exit()
	if err := cfg.validate(c); err != nil {
		return nil, err
	}
	cq := &CQ{ctx: c, channel: cfg.Channel}
	var shared unsafe.Pointer
	parent := &c.life
	if cfg.Channel != nil {
		if err := cfg.Channel.life.Enter(); err != nil {
			return nil, err
		}
		defer cfg.Channel.life.Exit()
		parent, shared = &cfg.Channel.life, cfg.Channel.ptr
	}
	var domain unsafe.Pointer
	var domainLife *life.Object
	if cfg.Domain != nil {
		if err := cfg.Domain.life.Enter(); err != nil {
			return nil, err
		}
		defer cfg.Domain.life.Exit()
		domain, domainLife = cfg.Domain.ptr, &cfg.Domain.life
	}
	var fd int
	var err error
	if cfg.extended() {
		cq.extended, cq.timestamps = true, cfg.Timestamps
		cq.ptr, cq.depth, fd, err = cCreateCQEx(c.ptr, shared, domain, &cfg)
	} else {
		cq.ptr, cq.depth, fd, err = cCreateCQ(c.ptr, shared, cfg.Depth, cfg.Vector, cfg.Events)
	}
	if err != nil {
		return nil, fmt.Errorf("create completion queue of depth %d: %w", cfg.Depth, explainMemlock(err, queueMemory))
	}
	cq.raw = cRawCQ(cq.ptr)
	c.objects.add(cq.raw, cq)
	if cfg.Events {
		cq.events, err = newWaiter(fd, &cq.life)
	}
	if err == nil {
		err = cq.life.Init("completion queue", parent, cq.destroy, domainLife)
	}
	if err != nil {
		return nil, closeAfter(err, cq.destroy)
	}
	return cq, nil
}

func (cq *CQ) destroy() error {
	if cq.wrapped {
		cq.ctx.objects.remove(cq.raw, cq)
		cReleaseCQ(cq.ptr)
		return nil
	}
	refused, left := cDestroyCQ(cq.ptr)
	if refused != nil {
		return life.Refused(refused)
	}
	cq.ctx.objects.remove(cq.raw, cq)
	if cq.events != nil {
		cq.events.close()
	}
	return left // the channel that was the queue's own
}

// reserve takes places for the completions of a queue pair.
func (cq *CQ) reserve(n int) error {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	return cq.take(n)
}

// take is called with mu.
func (cq *CQ) take(n int) error {
	if cq.reserved+n > cq.depth {
		return invalid("the completion queue has no room for %d more completions: %d of %d are reserved by queue pairs; make it deeper",
			n, cq.reserved, cq.depth)
	}
	cq.reserved += n
	return nil
}

func (cq *CQ) release(n int) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	cq.reserved -= n
}

// join takes places for the receives of a shared queue, once for all its queue pairs here.
func (cq *CQ) join(srq *SRQ) error {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	share := cq.srqs[srq]
	if share.qps == 0 {
		share.reserved = srq.Config().MaxWR
		if err := cq.take(share.reserved); err != nil {
			return err
		}
	}
	if cq.srqs == nil {
		cq.srqs = make(map[*SRQ]srqShare)
	}
	share.qps++
	cq.srqs[srq] = share
	return nil
}

func (cq *CQ) leave(srq *SRQ) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	share := cq.srqs[srq]
	if share.qps--; share.qps > 0 {
		cq.srqs[srq] = share
		return
	}
	delete(cq.srqs, srq)
	cq.reserved -= share.reserved
}

// fail is the device's word that the queue is lost.
func (cq *CQ) fail() {
	cq.failed.Store(true)
	if cq.events != nil {
		cq.events.wake()
	}
	if cq.channel != nil {
		cq.channel.lose(cq)
	}
}

// Close destroys the queue. It is refused with EBUSY while a QP is open on it. A Wait in progress ends.
//
// Implements:
//
//	int ibv_destroy_cq(struct ibv_cq *cq)
//	int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
func (cq *CQ) Close() error { return cq.life.Close() }

// Depth is how many completions fit, which may be more than was asked for.
func (cq *CQ) Depth() int {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	return cq.depth
}

// Reserved is how many of Depth the queue pairs on it take.
func (cq *CQ) Reserved() int {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	return cq.reserved
}

// Resize changes the depth, with what is in the queue. It cannot be less than what queue pairs take.
//
// Implements:
//
//	int ibv_resize_cq(struct ibv_cq *cq, int cqe)
func (cq *CQ) Resize(depth int) error {
	if err := cq.life.Enter(); err != nil {
		return err
	}
	defer cq.life.Exit()
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if limit := cq.ctx.attr.MaxCQE; depth < max(cq.reserved, 1) || depth > limit {
		return invalid("resize completion queue to %d: %d are reserved by queue pairs, and %s takes up to %d", depth, cq.reserved,
			cq.ctx.name, limit)
	}
	granted, err := cResizeCQ(cq.ptr, depth)
	if err != nil {
		return fmt.Errorf("resize completion queue to %d: %w", depth, explainMemlock(err, queueMemory))
	}
	cq.depth = granted
	return nil
}

// Moderate has the queue interrupt after count completions or after the period, whichever comes first: fewer events, each
// later. Where the driver does not know it the error wraps [errors.ErrUnsupported].
//
// Implements:
//
//	int ibv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
func (cq *CQ) Moderate(count int, period time.Duration) error {
	if err := cq.life.Enter(); err != nil {
		return err
	}
	defer cq.life.Exit()
	us := period.Microseconds()
	if count < 0 || count > math.MaxUint16 || us < 0 || us > math.MaxUint16 {
		return invalid("moderate completion queue: %d completions and %v: at most 65535 and 65.535 ms are possible", count, period)
	}
	return cModerateCQ(cq.ptr, uint16(count), uint16(us))
}

// Raw returns the struct ibv_cq pointer, for calls that this package does not have.
func (cq *CQ) Raw() unsafe.Pointer { return cq.raw }

// MaxSpin is the longest that [CQ.PollSpin] spins in C: the Go scheduler takes the processor away from a thread that
// stays in C for 20 µs.
const MaxSpin = 10 * time.Microsecond

// Poll moves up to len(wcs) completions into wcs and returns how many; 0 if there are none. A queue that the device reported
// lost, most likely by an overflow, gives [ErrCQFailed] once it is empty.
//
// The first completion of a queue pair with an error other than WCFlushed moves that queue pair to the error state; see
// [QP.Err].
//
// Implements:
//
//	int ibv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
func (cq *CQ) Poll(wcs []WC) (int, error) { return cq.PollSpin(wcs, 0) }

// PollSpin is Poll that, while there are no completions, looks again for up to spin, at most [MaxSpin].
func (cq *CQ) PollSpin(wcs []WC, spin time.Duration) (int, error) { return cq.poll(wcs, spin, nil, 0) }

// PollSpinWhile is PollSpin that also stops looking once word no longer has the value was: somebody has changed it, to call
// the goroutine that polls to something else.
func (cq *CQ) PollSpinWhile(wcs []WC, spin time.Duration, word *atomic.Uint64, was uint64) (int, error) {
	return cq.poll(wcs, spin, word, was)
}

// poll is PollSpinWhile, or PollSpin when there is no word.
func (cq *CQ) poll(wcs []WC, spin time.Duration, word *atomic.Uint64, was uint64) (n int, err error) {
	mem.Writes(wcs) // before Enter, which orders calls in the eyes of the race detector
	if err := cq.life.Enter(); err != nil {
		return 0, err
	}
	switch ns := uint32(min(max(spin, 0), MaxSpin)); {
	case len(wcs) == 0:
		cq.life.Exit()
		return 0, nil
	case word == nil:
		n = cPollCQ(cq.ptr, wcs, ns)
	default:
		n = cPollCQWhile(cq.ptr, wcs, ns, word, was)
	}
	cq.life.Exit() // not deferred, which costs a call
	if n < 0 {
		return 0, &Error{Op: "ibv_poll_cq", Err: syscall.Errno(-n)}
	}
	if n == 0 && cq.failed.Load() {
		return 0, ErrCQFailed
	}
	return n, nil
}

// Arm asks for an event at the next completion. Completions that are there already give none, so poll again after Arm
// and before Wait.
//
// Implements:
//
//	int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only)
func (cq *CQ) Arm() error { return cq.arm(false) }

// ArmSolicited is Arm for completions that the sender marked with [SendSolicited], and for errors.
func (cq *CQ) ArmSolicited() error { return cq.arm(true) }

func (cq *CQ) arm(solicitedOnly bool) error {
	if err := cq.life.Enter(); err != nil {
		return err
	}
	defer cq.life.Exit()
	if cq.events == nil && cq.channel == nil {
		return invalid("arm completion queue: it was created without CQConfig.Events or Channel")
	}
	return cArmCQ(cq.ptr, solicitedOnly)
}

// Wait blocks until an event that Arm asked for has come, or ctx ends; its error is then ctx's. No thread is held
// meanwhile. All events that have come are taken and acknowledged. One goroutine at a time may wait. A queue that the device
// reported lost ends it with [ErrCQFailed].
//
// Implements:
//
//	int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
//	void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
func (cq *CQ) Wait(ctx context.Context) error {
	if cq.events == nil {
		return invalid("wait on completion queue: it was created without CQConfig.Events")
	}
	return cq.events.wait(ctx, cq.takeEvents, func() error {
		if cq.failed.Load() {
			return ErrCQFailed
		}
		return nil
	})
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
