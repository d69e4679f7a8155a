package verbsrail

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/verbs"
)

// fail gives up a connection that broke or is not wanted any more; the peer is told if farewell says why. Only the first
// cause counts.
func (r *Rail) fail(c *conn, cause error, farewell bye) {
	switch c.state {
	case connConnecting:
		r.handshake.fail(c.id, cause)
	case connUp:
		r.handshake.forget(c.id)
		c.report = true
		r.giveUp(c, cause, farewell)
	}
}

// giveUp begins the end of a connection. Its queue pairs are moved to the error state also if they failed by themselves,
// for the reason that verbs.QP.SetError gives.
func (r *Rail) giveUp(c *conn, cause error, farewell bye) {
	wasUp := c.state == connUp
	c.cause, c.state, c.deadline = cause, connDraining, r.now.Add(r.cfg.DrainTimeout)
	r.dying = append(r.dying, c)
	if !wasUp {
		return // nothing was sent
	}
	_ = c.writes.SetError() // a queue pair that refuses does not drain, and is destroyed at the deadline
	if farewell != 0 {
		if sent, err := c.send(control{controlBye, uint64(farewell)}, 0); sent && err == nil {
			c.state = connLeaving
			return
		}
	}
	_ = c.messages.SetError()
}

// left goes on after the farewell.
func (c *conn) left() {
	if c.state == connLeaving {
		c.state = connDraining
		_ = c.messages.SetError()
	}
}

// reap ends connections that are drained, or should have been; one in a turn, since that takes long. It returns when there
// is more to do, the zero time if never.
func (r *Rail) reap() (next time.Time) {
	buried := false
	for i := 0; i < len(r.dying); i++ {
		c := r.dying[i]
		late := !r.now.Before(c.deadline)
		done := c.state == connDraining && c.head == c.tail || late
		if done && !buried {
			r.bury(c)
			r.dying = slices.Delete(r.dying, i, i+1)
			i--
			buried = true
			continue
		}
		at := c.deadline
		if done {
			at = r.now
		}
		next = earlier(next, at)
	}
	return next
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
	}
	for ; c.head != c.tail; c.head++ {
		r.emit(rail.Event{Kind: rail.Completed, Peer: c.id, Token: c.token(c.head), Err: rail.ErrFlushed})
	}
	if r.peers[c.id] == c {
		delete(r.peers, c.id)
	}
	if c.report {
		r.emit(rail.Event{Kind: rail.PeerDown, Peer: c.id, Err: c.cause})
	}
}

// destroy gives back what the connection has. Memory goes after the queue pairs that use it.
func (c *conn) destroy() error {
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
	cause := fmt.Errorf("%s: %v was disconnected: %w", r.name, c.peer, net.ErrClosed)
	if c.state == connConnecting {
		r.handshake.forget(peer)
		c.report = true
		r.giveUp(c, cause, 0)
		return
	}
	r.fail(c, cause, byeClosed)
}

// broken is the error of a connection on which a work request ended with an error status.
func (r *Rail) broken(c *conn, what string, wc *verbs.WC) error {
	detail := fmt.Errorf("%w (QP %d, vendor error %#x)", wc.Status, wc.QPN, wc.VendorErr)
	switch wc.Status {
	case verbs.WCRemoteAccess, verbs.WCRemoteInvalidRequest, verbs.WCRemoteOperation:
		return fmt.Errorf("%s: %s %v: %w: %w; a peer whose process ends also answers so", r.name, what, c.peer,
			rail.ErrAccess, detail)
	case verbs.WCLocalLength, verbs.WCLocalQPOperation, verbs.WCLocalProtection, verbs.WCLocalAccess:
		return fmt.Errorf("%s: %s %v: %w", r.name, what, c.peer, detail)
	}
	return fmt.Errorf("%s: %s %v: %w: %w", r.name, what, c.peer, rail.ErrPeerGone, detail)
}

// farewellAfter says whether a peer can and should be told that its connection broke with the status.
func farewellAfter(status verbs.WCStatus) bye {
	if status == verbs.WCRetryExceeded || status == verbs.WCFlushed {
		return 0
	}
	return byeFailed
}

// earlier is the earlier of two times, of which the zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
