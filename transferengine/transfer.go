package transferengine

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
)

// Transfer follows one request. Its zero value is ready; it may be used again, for any request, once it is done and every
// Wait for it has returned. It must not be copied.
type Transfer struct {
	state   atomic.Uint32 // a transferState
	waiters waitlist

	engine atomic.Pointer[Engine] // of the last request; Done may look at it at any time

	// From start to finish what follows belongs to the worker.
	op      string
	timeout time.Duration
	peer    *Peer   // nil of a scatter
	region  *Region // of this engine; nil when there are no bytes
	plan    plan
	err     error

	// Of a scatter.
	targets []target // nil of other requests
	left    int      // of them, those that are not done
	failed  *ScatterError
	spare   []target // for the next scatter
}

// target is what a scatter does with one peer.
type target struct {
	peer *Peer
	plan plan
}

// transferState is what a Transfer does.
type transferState = uint32

const (
	unused transferState = iota
	inFlight
	finished
)

// claim begins a request: the transfer is its from then on, and so is the region. The request ends with start, or unclaim.
func (e *Engine) claim(t *Transfer, op string, timeout time.Duration, region *Region) error {
	if timeout < 0 {
		return fmt.Errorf("a Timeout of %v, less than 0: %w", timeout, syscall.EINVAL)
	}
	before := t.state.Load()
	if before == inFlight || !t.state.CompareAndSwap(before, inFlight) {
		return fmt.Errorf("the Transfer is in flight with another request, wait for that or use another Transfer: %w", syscall.EBUSY)
	}
	err := e.requests.Enter()
	if err == nil && region != nil {
		if err = region.hold(); err != nil {
			e.requests.Exit()
		}
	}
	if err != nil {
		t.state.Store(unused)
		return err
	}
	orDefault(&timeout, e.config.TransferTimeout)
	if t.engine.Load() != e { // the store costs more
		t.engine.Store(e)
	}
	t.op, t.timeout, t.region, t.err, t.failed = op, timeout, region, nil, nil
	return nil
}

// unclaim takes back a request that was refused.
func (e *Engine) unclaim(t *Transfer) {
	t.letGo()
	t.state.Store(unused)
	e.requests.Exit()
}

// start hands the worker a request to one peer, unless there is an error of its plan. More says that others follow at once.
func (e *Engine) start(t *Transfer, peer *Peer, more bool, err error) error {
	if err == nil {
		err = e.admit(t.op, peer, &t.plan)
	}
	if err != nil {
		e.unclaim(t)
		return err
	}
	t.peer = peer
	return e.hand(t, more)
}

// hand hands the worker a request, whose peers have admitted it.
func (e *Engine) hand(t *Transfer, more bool) error {
	if err := e.submit(submission{transfer: t}, more); err != nil {
		if t.targets == nil {
			t.peer.transfers.Add(-1)
		}
		for i := range t.targets {
			t.targets[i].peer.transfers.Add(-1)
		}
		e.unclaim(t)
		return err
	}
	e.stats.requests.Add(1)
	e.requests.Exit()
	return nil
}

// admit counts a transfer to a peer, unless the peer is lost, cannot have it now, or there are too many.
func (e *Engine) admit(op string, peer *Peer, p *plan) error {
	if err := peer.Err(); err != nil {
		return &TransferError{Op: op, Peer: peer, Rail: e.worker.name, Outcome: NotDelivered, Cause: err}
	}
	if err := peer.refuses(p); err != nil {
		return err
	}
	limit := int64(e.config.MaxTransfers)
	if peer.transfers.Add(1) > limit {
		peer.transfers.Add(-1)
		e.stats.queueFull.Add(1)
		return fmt.Errorf("%w: %d requests to this peer are in flight (Config.MaxTransfers)", ErrQueueFull, limit)
	}
	return nil
}

// Wait waits until the transfer is done and returns its error, a [*TransferError], or nil: see the package comment for
// what that promises. If the context ends first, the error says so and the transfer stays in flight.
func (t *Transfer) Wait(ctx context.Context) error {
	e, state := t.engine.Load(), t.state.Load()
	switch {
	case state == finished:
		return t.err
	case state == unused || e == nil:
		return fmt.Errorf("wait for a Transfer: no request was made with it: %w", syscall.EINVAL)
	}
	met, err := e.progress.await(ctx, &t.waiters, t)
	if !met {
		return &TransferError{Op: t.op, Peer: t.peer, Rail: e.worker.name, Outcome: MaybeDelivered, InFlight: true, Cause: err}
	}
	return err
}

// Done tells whether the transfer is done. If it is not, and nobody else drives the engine, it does a turn of its work. It may
// be called while the request is being made.
func (t *Transfer) Done() bool {
	if e := t.engine.Load(); e != nil && t.state.Load() == inFlight {
		e.progress.poll()
	}
	return t.state.Load() == finished
}

// Err returns the error of a transfer that is done, and nil before.
func (t *Transfer) Err() error {
	if t.state.Load() != finished {
		return nil
	}
	return t.err
}

// met tells whether the transfer is done.
func (t *Transfer) met() (bool, error) {
	if t.state.Load() != finished {
		return false, nil
	}
	return true, t.err
}

// targetDone ends what the transfer had to do with one peer, and the transfer if that was the last one.
func (t *Transfer) targetDone(peer *Peer, target int, err *TransferError) {
	peer.transfers.Add(-1)
	if t.targets == nil {
		if err != nil {
			t.err = err
		}
		t.finish()
		return
	}
	if err != nil {
		if t.failed == nil {
			t.failed = new(ScatterError)
			t.err = t.failed
		}
		t.failed.Failed = append(t.failed.Failed, TargetError{target, err})
	}
	if t.left--; t.left == 0 {
		t.finish()
	}
}

// finish ends the transfer. Its owner may use it again from then on.
func (t *Transfer) finish() {
	t.letGo()
	t.state.Store(finished)
	t.waiters.wake()
}

// letGo releases what the request used.
func (t *Transfer) letGo() {
	if t.region != nil {
		t.region.release()
	}
	t.region, t.plan.localPages, t.plan.remotePages = nil, nil, nil
	if t.targets != nil {
		clear(t.targets)
		t.spare, t.targets = t.targets[:0], nil
	}
}
