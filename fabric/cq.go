package fabric

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/solo"
)

// CQ is a completion queue.
type CQ struct {
	life   life.Object
	domain *Domain
	ptr    unsafe.Pointer // struct weft_fi_cq *
	raw    unsafe.Pointer // struct fid_cq *
	wait   WaitObject
	events *waiter    // of WaitFD
	set    *WaitSet   // whose waiter events is, if not nil
	fd     int        // of a set
	solo   solo.Guard // of a domain with ThreadCompletion
	waits  solo.Guard // Wait and Await
}

// WaitObject is how a queue can be waited for (enum fi_wait_obj).
type WaitObject uint32

// The ways to wait.
const (
	WaitNone WaitObject = 0 // it can only be polled
	// WaitUnspec leaves it to the provider. A wait then holds a thread in C, which sleeps or, with shm, spins.
	WaitUnspec WaitObject = 1
	// WaitFD is a descriptor: a wait is Go's poller's, and holds no thread. tcp has one, shm does not.
	WaitFD WaitObject = 3
)

// CQConfig says how to make a completion queue.
type CQConfig struct {
	Depth  int  // how many completions must fit; 0 is the provider's choice
	Tagged bool // completions have tags
	Wait   WaitObject
	Vector int      // which one the queue interrupts by, where there are several
	Set    *WaitSet // waits for the queue, with others; needs WaitFD
}

// OpenCQ makes a completion queue.
//
// Implements:
//
//	int fi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context)
func (d *Domain) OpenCQ(cfg CQConfig) (*CQ, error) {
	if err := d.life.Enter(); err != nil {
		return nil, err
	}
	defer d.life.Exit()
	switch {
	case cfg.Depth < 0:
		return nil, invalid("open completion queue: Depth %d is negative", cfg.Depth)
	case cfg.Wait != WaitNone && cfg.Wait != WaitUnspec && cfg.Wait != WaitFD:
		return nil, invalid("open completion queue: unknown wait object %d", cfg.Wait)
	case cfg.Set != nil && cfg.Wait != WaitFD:
		return nil, invalid("open completion queue: a wait set needs WaitFD")
	case cfg.Vector < 0:
		return nil, invalid("open completion queue: Vector %d is negative", cfg.Vector)
	}
	cq := &CQ{domain: d, wait: cfg.Wait, set: cfg.Set}
	var fd int
	var err error
	if cq.ptr, fd, err = cOpenCQ(d.ptr, cfg); err != nil {
		return nil, fmt.Errorf("open completion queue of depth %d and wait object %d with %s: %w", cfg.Depth, cfg.Wait,
			d.told.Provider, d.explain(err, 0))
	}
	cq.raw = cRawCQ(cq.ptr)
	switch {
	case cfg.Set != nil:
		cq.events, cq.fd = cfg.Set.waiter, fd
		err = cfg.Set.add(fd, cq)
	case cfg.Wait == WaitFD:
		cq.events, err = newWaiter(fd, &cq.life)
	}
	if err == nil {
		err = cq.life.Init("completion queue", &d.life, cq.close, cfg.Set.lifetime())
	}
	if err != nil {
		return nil, closeAfter(err, cq.close)
	}
	return cq, nil
}

func (cq *CQ) close() error {
	if cq.set != nil {
		cq.set.remove(cq.fd, cq) // while the descriptor is the queue's
	}
	if err := cCloseCQ(cq.ptr); err != nil {
		if cq.set != nil {
			err = errors.Join(err, cq.set.add(cq.fd, cq))
		}
		return life.Refused(err)
	}
	if cq.events != nil && cq.set == nil {
		cq.events.close()
	}
	return nil
}

// Close closes the queue. It is refused with EBUSY while an endpoint is open on it. A Wait in progress ends.
func (cq *CQ) Close() error { return cq.life.Close() }

// Raw returns the struct fid_cq pointer, for calls that this package does not have.
func (cq *CQ) Raw() unsafe.Pointer { return cq.raw }

func (cq *CQ) lifetime() *life.Object { return &cq.life }

// Completion is one completion, laid out as the shim fills it. With Err not 0 the operation failed, and [CQ.Err] says why.
type Completion struct {
	ID     uint64 // of the operation; 0 for what a peer did
	Flags  Flags  // what completed: FlagSend with FlagMsg, FlagRemoteWrite with FlagRMA, …
	Length uint64 // of a received message. At a write's target some providers give 0: tcp;ofi_rxm does
	Addr   uint64 // where a multi-receive took the message
	Data   uint64 // with FlagRemoteCQData
	Tag    uint64 // of a queue that is Tagged
	// Source is who sent or wrote, with CapSource; AddrUnspec otherwise, and for a peer that is not in the AV, of whom shm of
	// libfabric 1.17 says 0.
	Source Addr

	err     uint32
	failure uint32
}

// Failed tells whether the operation ended with an error.
func (c *Completion) Failed() bool { return c.err != 0 }

// CompletionError is an operation that ended with an error.
type CompletionError struct {
	ID        uint64
	Flags     Flags
	Reason    error // a [syscall.Errno] or [Errno]
	ProvErrno int   // the provider's own number
	Text      string
	Overflow  uint64 // with ETrunc: how many bytes did not fit
	Data      []byte // what else the provider said
}

func (e *CompletionError) Error() string {
	flags := e.Flags.String() // "" where none of them has a name
	if flags != "" {
		flags = " (" + flags + ")"
	}
	if e.ProvErrno == 0 {
		return fmt.Sprintf("operation %d%s: %v", e.ID, flags, e.Reason)
	}
	return fmt.Sprintf("operation %d%s: %v (provider error %d: %s)", e.ID, flags, e.Reason, e.ProvErrno, e.Text)
}

// Unwrap returns the reason.
func (e *CompletionError) Unwrap() error { return e.Reason }

// Err returns nil for a successful completion and a *CompletionError otherwise. The provider's own words are in it if it is
// asked before 16 more have failed.
//
// Implements:
//
//	ssize_t fi_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags)
//	const char *fi_cq_strerror(struct fid_cq *cq, int prov_errno, const void *err_data, char *buf, size_t len)
func (cq *CQ) Err(c *Completion) error {
	if c.err == 0 {
		return nil
	}
	return cq.failure(c)
}

func (cq *CQ) failure(c *Completion) error {
	e := &CompletionError{ID: c.ID, Flags: c.Flags, Reason: reason(int(c.err)), Text: "no longer known"}
	if cq.life.Enter() != nil {
		return e
	}
	defer cq.life.Exit()
	var f failure
	if cFailure(cq.ptr, c.failure, &f) {
		e.ProvErrno, e.Text, e.Overflow = int(f.provErrno), text(f.text[:]), f.overflow
		e.Data = append([]byte(nil), f.data[:f.dataSize]...)
	}
	return e
}

// failure is struct weft_fi_failure.
type failure struct {
	overflow    uint64
	number      uint32
	provErrno   int32
	dataSize, _ uint32
	text        [textSize]byte
	data        [textSize]byte
}

// MaxSpin is the longest that [CQ.PollSpin] spins in C: the Go scheduler takes the processor away from a thread that
// stays in C for 20 µs.
const MaxSpin = 10 * time.Microsecond

// Poll moves up to len(completions) completions there and returns how many; 0 if there are none. A provider with
// ProgressManual moves everything on in this call, what peers do to this side too; with no room for completions that is all.
//
// Implements:
//
//	ssize_t fi_cq_read(struct fid_cq *cq, void *buf, size_t count)
//	ssize_t fi_cq_readfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr)
func (cq *CQ) Poll(completions []Completion) (int, error) { return cq.PollSpin(completions, 0) }

// PollSpin is Poll that, while there are no completions, looks again for up to spin, at most [MaxSpin].
func (cq *CQ) PollSpin(completions []Completion, spin time.Duration) (int, error) {
	return cq.poll(completions, spin, nil, 0)
}

// PollSpinWhile is PollSpin that also stops looking once word no longer has the value was: somebody has changed it, to call
// the goroutine that polls to something else.
func (cq *CQ) PollSpinWhile(completions []Completion, spin time.Duration, word *atomic.Uint64, was uint64) (int, error) {
	return cq.poll(completions, spin, word, was)
}

// poll is PollSpinWhile, or PollSpin when there is no word.
func (cq *CQ) poll(completions []Completion, spin time.Duration, word *atomic.Uint64, was uint64) (n int, err error) {
	cq.domain.use(cq)
	if err := cq.life.Enter(); err != nil {
		return 0, err
	}
	if cq.events != nil {
		cq.events.dismiss()
	}
	if ns := uint32(min(max(spin, 0), MaxSpin)); word == nil {
		n = cPollCQ(cq.ptr, completions, ns)
	} else {
		n = cPollCQWhile(cq.ptr, completions, ns, word, was)
	}
	cq.life.Exit()
	if n < 0 {
		return 0, failed("fi_cq_read", -n)
	}
	return n, nil
}

// waitSlice bounds a wait in C, so that a context that ends, or Close, is noticed.
const waitSlice = 50 * time.Millisecond

// Wait blocks until there are completions, and moves up to len(completions) of them there; or until ctx ends, and its error
// is then ctx's. One goroutine at a time may wait. The queue was made with a [WaitObject].
//
// Implements:
//
//	int fi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
//	ssize_t fi_cq_sread(struct fid_cq *cq, void *buf, size_t count, const void *cond, int timeout)
//	ssize_t fi_cq_sreadfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr, const void *cond, int timeout)
func (cq *CQ) Wait(ctx context.Context, completions []Completion) (int, error) {
	cq.waits.Use()
	if cq.set != nil {
		return 0, invalid("wait for completions: the queue is one of a wait set, which waits for it")
	}
	if cq.wait == WaitNone || len(completions) == 0 {
		return 0, invalid("wait for %d completions: it needs room for one, and a queue that was opened with CQConfig.Wait (this has %d)",
			len(completions), cq.wait)
	}
	wait := cq.waitInC
	if cq.wait == WaitFD {
		wait = func(completions []Completion) (int, error) {
			return cq.events.wait(ctx, func() (int, error) { return cq.Poll(completions) }, func() bool { return cTryWaitCQ(cq.ptr) })
		}
	}
	for {
		if n, err := wait(completions); n != 0 || err != nil {
			return n, err
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
}

// waitInC is guarded by itself, since Close must not wait for a Wait.
func (cq *CQ) waitInC(completions []Completion) (int, error) {
	cq.domain.use(cq)
	if err := cq.life.Enter(); err != nil {
		return 0, err
	}
	defer cq.life.Exit()
	n := cWaitCQ(cq.ptr, completions, waitSlice)
	if n < 0 {
		return 0, failed("fi_cq_sread", -n)
	}
	return n, nil
}

// Signal has a Wait in progress look again. The queue was made with a [WaitObject].
//
// Implements:
//
//	int fi_cq_signal(struct fid_cq *cq)
func (cq *CQ) Signal() error {
	if err := cq.life.Enter(); err != nil {
		return err
	}
	defer cq.life.Exit()
	if cq.wait == WaitNone {
		return fmt.Errorf("signal completion queue: it was opened without CQConfig.Wait: %w", syscall.EINVAL)
	}
	return cSignalCQ(cq.ptr)
}
