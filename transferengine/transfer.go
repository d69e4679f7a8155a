package transferengine

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
)

// Transfer follows one request. Its zero value is ready; it may be used again, for any request, once it is done and every
// Wait for it has returned. It must not be copied.
type Transfer struct {
	state   atomic.Uint32 // a transferState
	waiters waitlist

	// From start to finish what follows belongs to the worker.
	engine *Engine
	peer   *Peer
	source *Region // nil when there are no bytes
	plan   plan
	err    error
}

// transferState is what a Transfer does.
type transferState = uint32

const (
	unused transferState = iota
	inFlight
	finished
)

// start hands the worker a request.
func (e *Engine) start(t *Transfer, peer *Peer, source *Region, p *plan) error {
	if err := e.requests.Enter(); err != nil {
		return err
	}
	defer e.requests.Exit()
	if err := peer.Err(); err != nil {
		return &TransferError{Peer: peer, Rail: e.worker.name, Outcome: NotDelivered, Cause: err}
	}
	before := t.state.Load()
	if before == inFlight || !t.state.CompareAndSwap(before, inFlight) {
		return fmt.Errorf("the transfer is in flight with another request: %w", syscall.EBUSY)
	}
	if source != nil {
		if err := source.hold(); err != nil {
			t.state.Store(unused)
			return err
		}
	}
	t.engine, t.peer, t.source, t.plan, t.err = e, peer, source, *p, nil
	if err := e.submit(submission{transfer: t}); err != nil {
		t.letGo()
		t.state.Store(unused)
		return err
	}
	e.stats.requests.Add(1)
	return nil
}

// Wait waits until the transfer is done and returns its error, a [*TransferError], or nil: see the package comment for
// what that promises. If the context ends first, the error says so and the transfer stays in flight.
func (t *Transfer) Wait(ctx context.Context) error {
	if t.state.Load() == unused {
		return fmt.Errorf("wait for a transfer that serves no request: %w", syscall.EINVAL)
	}
	if t.state.Load() == finished {
		return t.err
	}
	e, peer := t.engine, t.peer
	met, err := e.progress.await(ctx, &t.waiters, t)
	if !met {
		return &TransferError{Peer: peer, Rail: e.worker.name, Outcome: MaybeDelivered, InFlight: true, Cause: err}
	}
	return err
}

// Done tells whether the transfer is done. If it is not, and nobody else drives the engine, it does a turn of its work.
func (t *Transfer) Done() bool {
	if t.state.Load() == inFlight {
		t.engine.progress.poll()
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

// finish ends the transfer. Its owner may use it again from then on.
func (t *Transfer) finish(err error) {
	t.err = err
	t.letGo()
	t.state.Store(finished)
	t.waiters.wake()
}

// letGo releases what the request used.
func (t *Transfer) letGo() {
	if t.source != nil {
		t.source.release()
	}
	t.source, t.plan.localPages, t.plan.remotePages = nil, nil, nil
}
