package fabricrail

import (
	"fmt"
	"time"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/process"
	"github.com/weftrdma/weft/transferengine/rail"
)

// maxPolled is how many completions one turn takes: somebody may send messages as fast as they are taken.
const maxPolled = 1024

// Connect implements [rail.Rail].
func (r *Rail) Connect(now time.Time, to []byte, deadline time.Time) (rail.PeerID, error) {
	r.touch(now)
	a, err := parseAddress(to)
	if err != nil {
		return 0, fmt.Errorf("%s: connect: %w", r.name, err)
	}
	if a.provider != r.self.provider {
		return 0, r.otherProvider(a)
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
	pause := now.Sub(r.lastTurn)
	late := pause > r.cfg.PeerTimeout/2 && !r.lastTurn.IsZero()
	for _, c := range r.conns {
		if c != nil {
			c.allowance = maxPosted
			if late {
				c.lastHeard = c.lastHeard.Add(pause)
			}
		}
	}
	r.now, r.lastTurn, r.events, r.touched, r.starved = now, now, events, false, false
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
		if r.at == r.end {
			n := r.sleep.take(r.completions[:])
			var err error
			if n == 0 {
				n, err = r.pollQueue()
			}
			if err != nil {
				r.failAll(fmt.Errorf("%s: %w: %w", r.name, rail.ErrPeerGone, err))
				return false
			}
			if r.at, r.end = 0, n; n == 0 {
				return false
			}
		}
		r.at++
		r.completed(&r.completions[r.at-1])
	}
	return true
}

// failAll gives up every connection, for the endpoint is lost.
func (r *Rail) failAll(cause error) {
	for _, c := range r.conns {
		if c != nil {
			r.lost(c, cause)
		}
	}
}

// completed takes a completion to whom it belongs.
func (r *Rail) completed(x *fabric.Completion) {
	switch id := workID(x.ID); {
	case x.ID == 0:
		r.immediate(x)
	case id.kind() == workOperation:
		r.operated(id, x)
	case id.kind() == workSend:
		r.messageSent(id, x)
	case id.kind() == workRecv:
		r.message(id, x)
	}
}

// operated takes the completion of an operation.
func (r *Rail) operated(id workID, x *fabric.Completion) {
	o := r.operations.find(id)
	if o == nil {
		return // given up
	}
	c := o.conn
	e := rail.Event{Kind: rail.Completed, Peer: c.id, Token: o.token}
	r.operations.remove(id.place())
	if !x.Failed() {
		r.emit(e)
		return
	}
	cause := r.cq.Err(x)
	if r.refusedBy(cause) {
		e.Err = fmt.Errorf("%s: operation on %v: %w: %w; a peer whose process ends also answers so", r.name, c.peer,
			rail.ErrAccess, cause)
		r.emit(e)
		return
	}
	c.unsure = true
	e.Err = fmt.Errorf("%s: operation on %v: %w: %w", r.name, c.peer, rail.ErrPeerGone, cause)
	r.emit(e)
	r.lost(c, e.Err)
}

// immediate takes an immediate of a peer.
func (r *Rail) immediate(x *fabric.Completion) {
	if x.Failed() || x.Flags&fabric.FlagRemoteCQData == 0 {
		return
	}
	var c *conn
	switch {
	case r.traits.tagged:
		c = r.tagged(tag(x.Data >> 32))
	case r.traits.source:
		c = r.bySource[x.Source]
	default:
		r.emit(rail.Event{Kind: rail.Immediate, Imm: uint32(x.Data)})
		return
	}
	if c == nil {
		return // of a connection that is gone
	}
	r.heard(c)
	c.taken++
	if c.state == connUp {
		c.offered++
		r.emit(rail.Event{Kind: rail.Immediate, Peer: c.id, Imm: uint32(x.Data)})
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

// watch sends the heartbeats that are due and gives up the peers whose process has ended, or that were silent for too long
// without a process that the kernel vouches for. Everything that has come was taken before, or it is not the time to judge.
func (r *Rail) watch() {
	r.watchAt = time.Time{}
	drained := r.at == r.end && r.filled < len(r.events)
	for _, c := range r.conns {
		if c == nil || c.state != connUp {
			continue
		}
		silence := r.now.Sub(c.lastHeard)
		switch {
		case drained && c.sentinel != nil && c.sentinel.Ended():
			r.lost(c, fmt.Errorf("%s: %v: %w: its process has ended", r.name, c.peer, rail.ErrPeerGone))
			continue
		case c.sentinel == nil && silence >= r.cfg.PeerTimeout && drained:
			r.lost(c, fmt.Errorf("%s: %v: %w: nothing came from it for %v", r.name, c.peer, rail.ErrPeerGone, silence))
			continue
		case r.now.Sub(c.lastSpoke) >= r.cfg.Heartbeat:
			r.say(c, controlStatus, 0, nil)
		}
		r.watchAt = earlier(r.watchAt, c.lastSpoke.Add(r.cfg.Heartbeat))
		if c.sentinel != nil {
			r.watchAt = earlier(r.watchAt, r.now.Add(process.Interval))
		} else {
			r.watchAt = earlier(r.watchAt, c.lastHeard.Add(r.cfg.PeerTimeout))
		}
	}
	if soon := r.now.Add(min(r.cfg.Heartbeat/4, process.Interval)); !r.watchAt.IsZero() && r.watchAt.Before(soon) {
		r.watchAt = soon // many peers are looked at together
	}
}
