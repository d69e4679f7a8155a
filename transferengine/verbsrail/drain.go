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
//     verbs.QP.SetError gives. Its operations and receives complete, in whatever way: among the receives are the immediates that the
//     NIC has acknowledged and that lie in the completion queue. Some drivers (mlx5) drop what lies there when the queue pair is
//     destroyed.
//  2. PeerLost is reported as soon as the operations are back. The queue pair is destroyed once the receives are: nothing that the
//     peer sent lands here from then on, and nothing of this end touches the memory of operations that did not complete.
//  3. The peer is told so by the farewell, if it can be told. Where operations of ours may still land there, its own
//     farewell is awaited.
//  4. The rest is destroyed, and PeerDown reported.
//
// Steps 1 and 3 take at most DrainTimeout each, and until what had come by then was taken from the completion queue. Where the device
// refuses to destroy a queue pair, operations stay out, and step 4 is tried again.
func (r *Rail) giveUp(c *conn, cause error, farewell bye) {
	c.wasUp = c.state == connUp
	c.cause, c.state, c.farewell, c.deadline = cause, connDraining, farewell, r.now.Add(r.cfg.DrainTimeout)
	r.dying = append(r.dying, c)
	if !c.wasUp {
		return // nothing was sent
	}
	_ = c.writes.SetError() // a queue pair that refuses does not drain, and is destroyed at the deadline
	if farewell == 0 {
		_ = c.messages.SetError()
	}
}

// reap takes connections that are given up to their next step. Only one in a turn destroys anything, since that takes long. What had
// come by the time taken was taken. It returns when there is more to do, the zero time if never.
func (r *Rail) reap(taken time.Time) (next time.Time) {
	stepped := false
	for i := 0; i < len(r.dying); i++ {
		c := r.dying[i]
		ready := c.done() || !taken.Before(c.deadline)
		if ready || !c.wasUp || c.head == c.tail {
			r.reportLost(c)
		}
		at := c.deadline
		switch {
		case ready && stepped:
			at = r.now
		case ready:
			stepped = true
			if r.step(c) {
				r.dying = slices.Delete(r.dying, i, i+1)
				i--
				continue
			}
			at = c.deadline
		}
		next = liveness.Earlier(next, at)
	}
	return next
}

// done tells whether a connection that is given up has nothing to wait for before its next step.
func (c *conn) done() bool {
	switch c.state {
	case connDraining:
		return !c.wasUp || c.head == c.tail && c.receives == 0
	case connLeaving:
		return c.parted && (c.farewell&byeAnswer == 0 || c.ended)
	case connStuck:
		return false
	}
	return true
}

// reportLost tells once that a connection is lost.
func (r *Rail) reportLost(c *conn) {
	if c.report && !c.lost {
		c.lost = true
		r.outbox.Emit(rail.Event{Kind: rail.PeerLost, Peer: c.id, Err: c.cause})
	}
}

// step takes a connection to its next step, and tells whether that was the last.
func (r *Rail) step(c *conn) (over bool) {
	if c.state == connDraining && c.farewell != 0 {
		if c.writes.Close() != nil {
			r.retry(c)
			return false
		}
		r.flush(c)
		if r.leave(c) {
			return false
		}
	}
	return r.bury(c)
}

// retry has a connection destroyed later, which the device has refused and whose operations it might go on with.
func (r *Rail) retry(c *conn) { c.state, c.deadline = connStuck, r.now.Add(r.cfg.DrainTimeout) }

// leave says farewell. It returns false if that was not possible.
func (r *Rail) leave(c *conn) bool {
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

// flush reports the operations of a queue pair that was destroyed before they had completed.
func (r *Rail) flush(c *conn) {
	for ; c.head != c.tail; c.head++ {
		c.unsure = true
		r.outbox.Emit(rail.Event{Kind: rail.Completed, Peer: c.id, Token: *c.token(c.head), Err: rail.ErrFlushed})
	}
}

// bury destroys a connection and reports what is left to report. It returns false if the device refused.
func (r *Rail) bury(c *conn) (over bool) {
	if c.closeQueues() != nil {
		r.retry(c)
		return false
	}
	r.flush(c)
	if c.closeMemory() == nil { // otherwise it is leaked, with the connection's room and slot, and Close will say so
		r.conns[c.slot] = nil
		r.freeSlots = append(r.freeSlots, c.slot)
		r.freed += r.cfg.perPeer()
		r.emptied = false // it may have completions in the queue
	}
	if r.peers[c.id] == c {
		delete(r.peers, c.id)
	}
	if c.report {
		r.outbox.Emit(rail.Event{Kind: rail.PeerDown, Peer: c.id, Err: c.cause, Proven: c.ended || !c.unsure})
	}
	return true
}

// destroy gives back what the connection has. Memory goes after the queue pairs that use it.
func (c *conn) destroy() error {
	if err := c.closeQueues(); err != nil {
		return err
	}
	return c.closeMemory()
}

func (c *conn) closeQueues() error {
	c.signs.Close()
	var errs []error
	for _, qp := range []*verbs.QP{c.messages, c.writes} {
		if qp != nil {
			errs = append(errs, qp.Close())
		}
	}
	return errors.Join(errs...)
}

func (c *conn) closeMemory() error {
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
