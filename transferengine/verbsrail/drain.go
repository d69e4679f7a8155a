package verbsrail

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/weftrdma/weft/transferengine/internal/liveness"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/verbs"
)

// fail gives up a connection that broke or is not wanted any more; the peer is told if farewell says why. Only the first
// cause counts.
func (r *Rail) fail(c *conn, cause error, farewell bye) {
	switch c.state {
	case connConnecting:
		r.handshake.Fail(c.id, cause)
	case connUp:
		r.handshake.Forget(c.id)
		c.report = true
		r.giveUp(c, cause, farewell)
	}
}

// giveUp begins the end of a connection:
//
//  1. Its queue pair for writes is moved to the error state, also if it failed by itself, for the reason that
//     verbs.QP.SetError gives, and its operations complete.
//  2. That queue pair is destroyed: nothing that the peer sent lands here from then on.
//  3. The peer is told so by the farewell, if it can be told. Where operations of ours may still land there, its own
//     farewell is awaited.
//  4. The rest is destroyed, and PeerDown reported.
//
// Steps 1 and 3 take at most DrainTimeout each.
func (r *Rail) giveUp(c *conn, cause error, farewell bye) {
	wasUp := c.state == connUp
	c.cause, c.state, c.farewell, c.deadline = cause, connDraining, farewell, r.now.Add(r.cfg.DrainTimeout)
	r.dying = append(r.dying, c)
	if !wasUp {
		return // nothing was sent
	}
	_ = c.writes.SetError() // a queue pair that refuses does not drain, and is destroyed at the deadline
	if farewell == 0 {
		_ = c.messages.SetError()
	}
}

// reap takes connections that are given up to their next step; one in a turn, since destroying a queue pair takes long. It
// returns when there is more to do, the zero time if never.
func (r *Rail) reap() (next time.Time) {
	stepped := false
	for i := 0; i < len(r.dying); i++ {
		c := r.dying[i]
		ready := c.done() || !r.now.Before(c.deadline)
		if ready && !stepped {
			stepped = true
			if c.state == connDraining && c.farewell != 0 && r.leave(c) {
				next = liveness.Earlier(next, c.deadline)
				continue
			}
			r.bury(c)
			r.dying = slices.Delete(r.dying, i, i+1)
			i--
			continue
		}
		at := c.deadline
		if ready {
			at = r.now
		}
		next = liveness.Earlier(next, at)
	}
	return next
}

// done tells whether a connection that is given up has nothing to wait for before its next step.
func (c *conn) done() bool {
	switch c.state {
	case connDraining:
		return c.head == c.tail
	case connLeaving:
		return c.parted && (c.farewell&byeAnswer == 0 || c.ended)
	}
	return true
}

// leave destroys the queue pair for writes and says farewell. It returns false if that was not possible.
func (r *Rail) leave(c *conn) bool {
	r.flush(c)
	r.reportLost(c)
	if c.writes.Close() != nil {
		return false // bury tries again, and reports it
	}
	if c.unsure && !c.ended {
		c.farewell |= byeAnswer
	}
	sent, err := c.send(control{controlBye, uint64(c.farewell)}, nil, 0)
	if !sent || err != nil {
		return false
	}
	c.state, c.deadline = connLeaving, r.now.Add(r.cfg.DrainTimeout)
	return true
}

// reportLost tells that a connection is lost, once its operations have come back.
func (r *Rail) reportLost(c *conn) {
	if c.report && !c.lost {
		c.lost = true
		r.outbox.Emit(rail.Event{Kind: rail.PeerLost, Peer: c.id, Err: c.cause})
	}
}

// flush reports the operations that have not completed.
func (r *Rail) flush(c *conn) {
	for ; c.head != c.tail; c.head++ {
		c.unsure = true
		r.outbox.Emit(rail.Event{Kind: rail.Completed, Peer: c.id, Token: *c.token(c.head), Err: rail.ErrFlushed})
	}
}

// bury destroys a connection and reports what is left to report.
func (r *Rail) bury(c *conn) {
	if err := c.destroy(); err != nil {
		// The NIC may still use the queue pairs and the memory: they are leaked, with their room and their slot, and Close
		// will say so.
		c.cause = errors.Join(c.cause, err)
	} else {
		r.conns[c.slot] = nil
		r.freeSlots = append(r.freeSlots, c.slot)
		r.freed += r.cfg.perPeer()
		r.emptied = false // it may have completions in the queue
	}
	r.flush(c)
	if r.peers[c.id] == c {
		delete(r.peers, c.id)
	}
	r.reportLost(c)
	if c.report {
		r.outbox.Emit(rail.Event{Kind: rail.PeerDown, Peer: c.id, Err: c.cause, Proven: c.ended || !c.unsure})
	}
}

// destroy gives back what the connection has. Memory goes after the queue pairs that use it.
func (c *conn) destroy() error {
	c.signs.Close()
	var errs []error
	for _, qp := range []*verbs.QP{c.messages, c.writes} {
		if qp != nil {
			errs = append(errs, qp.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if c.mr != nil {
		if err := c.mr.Close(); err != nil {
			return err
		}
	}
	if c.memory != nil {
		return c.memory.Close()
	}
	return nil
}

// Disconnect implements [rail.Rail].
func (r *Rail) Disconnect(now time.Time, peer rail.PeerID) {
	r.touch(now)
	c := r.peers[peer]
	if c == nil {
		return
	}
	cause := fmt.Errorf("this end gave up the connection: %w", net.ErrClosed)
	if c.state == connConnecting {
		r.handshake.Forget(peer)
		c.report = true
		r.giveUp(c, cause, 0)
		return
	}
	r.fail(c, cause, byeClosed)
}

// broken is the error of a connection on which a work request ended with an error status.
func broken(wc *verbs.WC) error {
	detail := fmt.Errorf("%w (QP %d, vendor error %#x)", wc.Status, wc.QPN, wc.VendorErr)
	switch wc.Status {
	case verbs.WCRemoteAccess, verbs.WCRemoteInvalidRequest, verbs.WCRemoteOperation:
		return fmt.Errorf("%w, or its process is ending: %w", rail.ErrAccess, detail)
	case verbs.WCLocalLength, verbs.WCLocalQPOperation, verbs.WCLocalProtection, verbs.WCLocalAccess:
		return detail
	}
	return fmt.Errorf("%w: %w", rail.ErrPeerGone, detail)
}

// farewellAfter says how a peer is told that its connection broke with the status. After silence it cannot be told.
func farewellAfter(status verbs.WCStatus) bye {
	if status == verbs.WCRetryExceeded {
		return 0
	}
	return byeFailed
}
