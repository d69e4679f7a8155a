package verbsrail

import (
	"errors"
	"fmt"
	"time"

	"github.com/weftrdma/weft/transferengine/internal/liveness"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/verbs"
)

// maxPolled is how many completions one turn takes: somebody may send datagrams as fast as they are taken.
const maxPolled = 1024

// Connect implements [rail.Rail].
func (r *Rail) Connect(now time.Time, to []byte, deadline time.Time) (rail.PeerID, error) {
	r.touch(now)
	a, err := parseAddress(to)
	if err != nil {
		return 0, err
	}
	return r.handshake.Connect(now, a, deadline)
}

// Expect implements [rail.Rail].
func (r *Rail) Expect(now time.Time, from []byte, deadline time.Time) (rail.PeerID, error) {
	r.touch(now)
	a, err := parseAddress(from)
	if err != nil {
		return 0, err
	}
	return r.handshake.Expect(now, a, deadline)
}

// Turn implements [rail.Rail].
func (r *Rail) Turn(now time.Time, events []rail.Event) (n int, next time.Time) {
	r.begin(now, events)
	watching := r.vigil.Due(now)
	// What Spin or Arm found empty may be looked at again by the next turn, unless peers are about to be judged by it.
	r.emptied = r.emptied && r.wcEnd > 0 && !watching && len(r.dying) == 0
	polled, more := r.poll()
	if more {
		r.vigil.Took(now, polled, r.depth-r.room)
	}
	calling := r.handshake.Calling()
	if calling {
		r.handshake.Turn(now)
	}
	if watching {
		r.watch()
	}
	if next = r.vigil.Next(); calling {
		next = liveness.Earlier(next, r.handshake.Next())
	}
	if len(r.dying) > 0 {
		next = liveness.Earlier(next, r.reap(r.vigil.Taken(now, !more)))
	}
	if more {
		next = now
	}
	return r.outbox.End(), next
}

// touch notes that something was done between two turns, which may be due sooner than what the last turn said.
func (r *Rail) touch(now time.Time) { r.now, r.touched = now, true }

// begin starts a turn with the events that the last one had no room for.
func (r *Rail) begin(now time.Time, events []rail.Event) {
	if pause := r.vigil.Turn(now); pause > 0 {
		for _, c := range r.conns {
			if c != nil {
				c.signs.Heard = c.signs.Heard.Add(pause)
			}
		}
	}
	r.now, r.touched = now, false
	r.outbox.Begin(events)
}

// poll takes completions until there are none, the events are full, or it was enough for a turn. It returns how many it took, and
// true if it stopped before there were none.
func (r *Rail) poll() (polled int, more bool) {
	for ; polled < maxPolled; polled++ {
		if r.outbox.Full() {
			r.emptied = false
			return polled, true
		}
		if r.wcAt == r.wcEnd && !r.emptied {
			n, err := r.cq.Poll(r.wcs[:])
			if err != nil {
				r.failAll(err)
				return polled, false
			}
			r.wcAt, r.wcEnd, r.emptied = 0, n, n < len(r.wcs)
		}
		if r.wcAt == r.wcEnd {
			r.room, r.freed, r.emptied = r.room+r.freed, 0, false
			return polled, false
		}
		r.wcAt++
		r.completed(&r.wcs[r.wcAt-1])
	}
	r.emptied = false
	return polled, true
}

// failAll gives up every connection, for the device is lost.
func (r *Rail) failAll(cause error) {
	for _, c := range r.conns {
		if c != nil {
			r.fail(c, cause, 0)
		}
	}
}

// completed takes a completion to whom it belongs.
func (r *Rail) completed(wc *verbs.WC) {
	id := workID(wc.ID)
	switch id.kind() {
	case workDatagramSend:
		r.datagrams.sendDone(id, wc)
		return
	case workDatagramRecv:
		if from, datagram, ok := r.datagrams.arrived(id, wc); ok {
			r.handshake.Handle(r.now, datagram, from.agrees)
			r.datagrams.done(id)
		}
		return
	}
	if int(id.slot()) >= len(r.conns) {
		return
	}
	c := r.conns[id.slot()]
	if c == nil || c.tag != id.tag() {
		return // of a connection that was destroyed
	}
	switch id.kind() {
	case workWrite:
		r.written(c, id.index(), wc)
	case workImmediate:
		r.immediate(c, wc)
	case workMessageSend:
		r.messageSent(c, id.index(), wc)
	case workMessageRecv:
		r.message(c, id.index(), wc)
	}
}

// written takes the completion of an operation, which with RC is that of all before it too: they ask for none, and would
// have had one if they had failed.
func (r *Rail) written(c *conn, index uint16, wc *verbs.WC) {
	before := uint32(index - uint16(c.head))
	if before >= c.tail-c.head {
		return
	}
	for range before {
		r.outbox.Emit(rail.Event{Kind: rail.Completed, Peer: c.id, Token: *c.token(c.head)})
		c.head++
	}
	e := rail.Event{Kind: rail.Completed, Peer: c.id, Token: *c.token(c.head)}
	c.head++
	if wc.Status == verbs.WCSuccess {
		r.outbox.Emit(e)
		return
	}
	c.unsure = true
	e.Err = rail.ErrFlushed
	if wc.Status != verbs.WCFlushed {
		e.Err = broken(wc)
	}
	r.outbox.Emit(e)
	if c.state == connUp {
		r.fail(c, broken(wc), farewellAfter(wc.Status))
	}
}

// immediate takes the completion of a receive for an immediate. One of a peer that was given up before it came up is nobody's.
func (r *Rail) immediate(c *conn, wc *verbs.WC) {
	c.receives--
	if wc.Status != verbs.WCSuccess {
		r.fail(c, broken(wc), farewellAfter(wc.Status))
		return
	}
	if wc.Opcode != verbs.WCRecvWriteImm {
		r.fail(c, errors.New("the peer sent a message where only writes may arrive"), byeFailed)
		return
	}
	r.heard(c)
	c.taken++
	if c.state != connUp && !c.wasUp {
		return
	}
	r.outbox.Emit(rail.Event{Kind: rail.Immediate, Peer: c.id, Imm: wc.Imm})
	if left := int(c.offered - c.taken); c.state == connUp && left <= r.cfg.Immediates/2 {
		if err := r.offer(c, r.cfg.Immediates-left); err != nil {
			r.fail(c, err, byeFailed)
			return
		}
		r.grant(c)
	}
}

// heard notes that something came from the peer, which proves also that it is connected.
func (r *Rail) heard(c *conn) {
	c.signs.Heard = r.now
	if c.state == connConnecting {
		r.handshake.Proven(c.id)
	}
}

// watch sends the heartbeats that are due, and gives up the peers of whom nothing more will come.
func (r *Rail) watch() {
	drained := r.wcAt == r.wcEnd && !r.outbox.Full()
	r.vigil.Begin()
	for _, c := range r.conns {
		if c == nil || c.state != connUp {
			continue
		}
		speak := func() { r.say(c, control{kind: controlHeartbeat}, nil, reserveForFarewell) }
		if gone := r.vigil.Look(r.now, &c.signs, drained, speak); gone != nil {
			r.fail(c, fmt.Errorf("%w: %w", rail.ErrPeerGone, gone), 0)
		}
	}
	r.vigil.End(r.now)
}
