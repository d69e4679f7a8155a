package verbsrail

import (
	"fmt"
	"time"

	"github.com/weftrdma/weft/internal/process"
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
		return 0, fmt.Errorf("%s: connect: %w", r.name, err)
	}
	return r.handshake.connect(now, a, deadline)
}

// Turn implements [rail.Rail].
func (r *Rail) Turn(now time.Time, events []rail.Event) (n int, next time.Time) {
	r.begin(now, events)
	more := r.poll()
	r.handshake.tick(now)
	if !r.watchAt.IsZero() && !now.Before(r.watchAt) {
		r.watch()
	}
	next = earlier(earlier(r.reap(), r.handshake.next()), r.watchAt)
	if more {
		next = now
	}
	r.events = nil
	r.forget(events[:r.filled])
	return r.filled, next
}

// touch notes that something was done between two turns, which may be due sooner than what the last turn said.
func (r *Rail) touch(now time.Time) { r.now, r.touched = now, true }

// begin starts a turn with the events that the last one had no room for.
func (r *Rail) begin(now time.Time, events []rail.Event) {
	// While nobody took turns nobody listened: that was not the peers' silence.
	if pause := now.Sub(r.lastTurn); pause > r.cfg.PeerTimeout/2 && !r.lastTurn.IsZero() {
		for _, c := range r.conns {
			if c != nil {
				c.lastHeard = c.lastHeard.Add(pause)
			}
		}
	}
	r.now, r.lastTurn, r.events, r.touched = now, now, events, false
	r.filled = copy(events, r.held[r.heldAt:])
	if r.heldAt += r.filled; r.heldAt == len(r.held) {
		r.held, r.heldAt = r.held[:0], 0
	}
}

// emit reports an event, in this turn or the next.
func (r *Rail) emit(e rail.Event) {
	if r.filled < len(r.events) {
		r.events[r.filled] = e
		r.filled++
		return
	}
	r.held = append(r.held, e)
}

// forget removes what Peer says of the peers whose end is reported.
func (r *Rail) forget(events []rail.Event) {
	for i := range events {
		if events[i].Kind == rail.PeerDown {
			r.mu.Lock()
			delete(r.infos, events[i].Peer)
			r.mu.Unlock()
		}
	}
}

// poll takes completions until there are none, the events are full, or it was enough for a turn. It returns true if it
// stopped before there were none.
func (r *Rail) poll() (more bool) {
	for polled := 0; polled < maxPolled; polled++ {
		if r.filled == len(r.events) {
			return true
		}
		if r.wcAt == r.wcEnd {
			n, err := r.cq.Poll(r.wcs[:])
			if err != nil {
				r.failAll(fmt.Errorf("%s: %w", r.name, err))
				return false
			}
			if n == 0 {
				r.room, r.freed = r.room+r.freed, 0
				return false
			}
			r.wcAt, r.wcEnd = 0, n
		}
		r.wcAt++
		r.completed(&r.wcs[r.wcAt-1])
	}
	return true
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
			r.handshake.receive(r.now, from, datagram)
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
		r.emit(rail.Event{Kind: rail.Completed, Peer: c.id, Token: c.token(c.head)})
		c.head++
	}
	e := rail.Event{Kind: rail.Completed, Peer: c.id, Token: c.token(c.head)}
	c.head++
	if wc.Status == verbs.WCSuccess {
		r.emit(e)
		return
	}
	c.unsure = true
	e.Err = rail.ErrFlushed
	if wc.Status != verbs.WCFlushed {
		e.Err = r.broken(c, "operation on", wc)
	}
	r.emit(e)
	if c.state == connUp {
		r.fail(c, r.broken(c, "operation on", wc), farewellAfter(wc.Status))
	}
}

// immediate takes an immediate of the peer.
func (r *Rail) immediate(c *conn, wc *verbs.WC) {
	if wc.Status != verbs.WCSuccess {
		r.fail(c, r.broken(c, "connection with", wc), farewellAfter(wc.Status))
		return
	}
	if wc.Opcode != verbs.WCRecvWriteImm {
		r.fail(c, fmt.Errorf("%s: %v: a message where only writes may arrive", r.name, c.peer), byeFailed)
		return
	}
	r.heard(c)
	c.taken++
	r.emit(rail.Event{Kind: rail.Immediate, Peer: c.id, Imm: wc.Imm})
	if left := int(c.offered - c.taken); c.state == connUp && left <= r.cfg.Immediates/2 {
		if err := r.offer(c, r.cfg.Immediates-left); err != nil {
			r.fail(c, fmt.Errorf("%s: %v: %w", r.name, c.peer, err), byeFailed)
			return
		}
		r.grant(c)
	}
}

// heard notes that something came from the peer, which proves also that it is connected.
func (r *Rail) heard(c *conn) {
	c.lastHeard = r.now
	if c.state == connConnecting {
		r.handshake.proven(c.id)
	}
}

// watch sends the heartbeats that are due and gives up the peers whose process has ended, or that were silent for too long.
// Everything that has come
// was taken before, or it is not the time to judge.
func (r *Rail) watch() {
	r.watchAt = time.Time{}
	drained := r.wcAt == r.wcEnd && r.filled < len(r.events)
	for _, c := range r.conns {
		if c == nil || c.state != connUp {
			continue
		}
		silence := r.now.Sub(c.lastHeard)
		switch {
		case drained && c.sentinel != nil && c.sentinel.Ended():
			r.fail(c, fmt.Errorf("%s: %v: %w: its process has ended", r.name, c.peer, rail.ErrPeerGone), 0)
			continue
		case silence >= r.cfg.PeerTimeout && drained:
			r.fail(c, fmt.Errorf("%s: %v: %w: nothing came from it for %v", r.name, c.peer, rail.ErrPeerGone, silence), 0)
			continue
		case r.now.Sub(c.lastSpoke) >= r.cfg.Heartbeat:
			r.say(c, control{kind: controlHeartbeat}, nil, reserveForFarewell)
		}
		r.watchAt = earlier(r.watchAt, earlier(c.lastSpoke.Add(r.cfg.Heartbeat), c.lastHeard.Add(r.cfg.PeerTimeout)))
		if c.sentinel != nil {
			r.watchAt = earlier(r.watchAt, r.now.Add(process.Interval))
		}
	}
	if soon := r.now.Add(min(r.cfg.Heartbeat/4, process.Interval)); !r.watchAt.IsZero() && r.watchAt.Before(soon) {
		r.watchAt = soon // many peers are looked at together
	}
}
