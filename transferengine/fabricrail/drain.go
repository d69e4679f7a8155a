package fabricrail

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/weftrdma/weft/transferengine/internal/liveness"
	"github.com/weftrdma/weft/transferengine/rail"
)

// fail gives up a connection that broke or is not wanted any more; the peer is told why by the farewell. Only the first
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

// lost gives up a connection whose peer cannot be told, or has nothing more to say.
func (r *Rail) lost(c *conn, cause error) {
	c.silent = true
	r.fail(c, cause, 0)
}

// giveUp begins the end of a connection:
//
//  1. Its operations are awaited, which a peer that lives lets complete. What has not by then is taken back, where the transport can:
//     by closing the peer's own endpoint. Otherwise PeerLost is reported, and PeerDown waits for as long as the operations are out.
//  2. The peer is told so by the farewell, if it can be told, and its own is awaited: then nothing lands here any more.
//  3. PeerDown is reported.
//
// Steps 1 and 2 take at most DrainTimeout each. With an endpoint that serves all peers there is nothing of one peer's that could be
// destroyed: what a peer that is still alive, and does not answer, has on its way may land later (rail.Caps.Fences).
func (r *Rail) giveUp(c *conn, cause error, farewell bye) {
	wasUp := c.state == connUp
	c.cause, c.state, c.farewell, c.deadline = cause, connDraining, farewell, r.now.Add(r.cfg.DrainTimeout)
	c.silent = c.silent || !wasUp || farewell == 0
	r.dying = append(r.dying, c)
}

// reap takes connections that are given up to their next step. It returns when there is more to do, the zero time if never.
func (r *Rail) reap() (next time.Time) {
	for i := 0; i < len(r.dying); i++ {
		c := r.dying[i]
		expired := !r.now.Before(c.deadline)
		switch {
		case c.state == connDraining && c.flying > 0:
			if !expired && !(c.silent && c.remote.link != nil) {
				break
			}
			if !r.transport.recall(c) {
				r.reportLost(c) // and the operations stay out
				next = liveness.Earlier(next, r.now.Add(r.cfg.DrainTimeout))
				continue
			}
			c.silent = true
			fallthrough
		case c.state == connDraining:
			r.reportLost(c)
			c.state, c.deadline = connLeaving, r.now.Add(r.cfg.DrainTimeout)
			fallthrough
		case c.state == connLeaving:
			said := c.silent || r.leave(c)
			if c.silent || said && c.settled() || !r.now.Before(c.deadline) {
				r.bury(c)
				r.dying = slices.Delete(r.dying, i, i+1)
				i--
				continue
			}
			if !said {
				next = liveness.Earlier(next, r.now.Add(time.Millisecond))
			}
		}
		next = liveness.Earlier(next, c.deadline)
	}
	return next
}

// leave says what farewells are due: one, which answers the peer's if that has come, and otherwise another once that comes, as
// when both ends give up at once. It returns false if there is no room to say one.
func (r *Rail) leave(c *conn) bool {
	if c.byes > 0 && (c.replied || !c.asked) {
		return true
	}
	b := c.farewell
	if c.asked {
		b |= byeAnswer
	}
	if !r.say(c, controlBye, uint64(b), nil) {
		return false
	}
	c.byes, c.replied = c.byes+1, c.asked
	return true
}

// settled tells whether a connection that has said what is due has nothing to wait for: whoever said farewell first awaits the
// answer.
func (c *conn) settled() bool {
	return c.byesSent == c.byes && (c.answered || c.byes == 1 && c.replied)
}

// flush reports the operations that have not completed.
func (r *Rail) flush(c *conn) {
	for place := range r.operations.table {
		if o := &r.operations.table[place]; o.conn == c {
			c.unsure = true
			r.outbox.Emit(rail.Event{Kind: rail.Completed, Peer: c.id, Token: o.token, Err: rail.ErrFlushed})
			r.operations.remove(uint32(place))
		}
	}
}

// bury ends a connection and reports what is left to report.
func (r *Rail) bury(c *conn) {
	c.signs.Close()
	r.conns[c.tag.slot()] = nil
	r.freeSlots = append(r.freeSlots, c.tag.slot())
	r.room += r.cfg.perPeer()
	if c.remote != nil && r.bySource[c.remote.addr] == c {
		delete(r.bySource, c.remote.addr)
	}
	if c.remote != nil {
		c.remote.users--
		if c.remote.link != nil && c.remote.users == 0 {
			r.transport.part(c.remote)
		} else {
			r.part(c.remote)
		}
	}
	if r.peers[c.id] == c {
		delete(r.peers, c.id)
	}
	r.reportLost(c)
	if c.report {
		r.outbox.Emit(rail.Event{Kind: rail.PeerDown, Peer: c.id, Err: c.cause, Proven: r.proven(c)})
	}
}

// reportLost tells that a connection is lost, once its operations have come back.
func (r *Rail) reportLost(c *conn) {
	if c.report && !c.lost {
		c.lost = true
		r.outbox.Emit(rail.Event{Kind: rail.PeerLost, Peer: c.id, Err: c.cause})
	}
}

// proven tells whether no operation of ours lands at the peer any more. Where completing does not mean that, the peer's answer
// to our farewell does, which came after them.
func (r *Rail) proven(c *conn) bool {
	return !c.unsure && (r.traits.delivered || !c.posted || c.answered)
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
		r.transport.calls(c.peer, false)
		c.report = true
		r.giveUp(c, cause, 0)
		return
	}
	r.fail(c, cause, byeClosed)
}

// cutOff tells the peers that are there yet that the rail is being closed, as far as that goes without waiting. It takes first
// what has come, so that peers that have left are not told.
func (r *Rail) cutOff() {
	if r.handshake == nil {
		return // it was never open
	}
	if len(r.queues) == 0 {
		return
	}
	var unheard [maxPolled]rail.Event
	r.begin(r.now, unheard[:])
	r.poll(true)
	for _, c := range r.conns {
		if c != nil && c.state == connUp {
			r.say(c, controlBye, uint64(byeCut), nil)
		}
	}
}
