package fabricrail

import (
	"errors"
	"fmt"
	"time"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/transferengine/internal/liveness"
	"github.com/weftrdma/weft/transferengine/rail"
)

// maxPolled is how many completions one turn takes: somebody may send messages as fast as they are taken.
const maxPolled = 1024

// Connect implements [rail.Rail].
func (r *Rail) Connect(now time.Time, to []byte, deadline time.Time) (rail.PeerID, error) {
	a, err := r.peerAt(now, to)
	if err != nil {
		return 0, err
	}
	return r.handshake.Connect(now, a, deadline)
}

// Expect implements [rail.Rail].
func (r *Rail) Expect(now time.Time, from []byte, deadline time.Time) (rail.PeerID, error) {
	a, err := r.peerAt(now, from)
	if err != nil {
		return 0, err
	}
	return r.handshake.Expect(now, a, deadline)
}

// peerAt reads the address of a peer that this rail can have.
func (r *Rail) peerAt(now time.Time, at []byte) (address, error) {
	r.touch(now)
	a, err := parseAddress(at)
	if err == nil && a.provider != r.self.provider {
		err = r.otherProvider(a)
	}
	return a, err
}

// Turn implements [rail.Rail].
func (r *Rail) Turn(now time.Time, events []rail.Event) (n int, next time.Time) {
	r.begin(now, events)
	watching := r.vigil.Due(now)
	polled, more := r.poll(watching)
	if more {
		r.vigil.Took(now, polled, r.cfg.CompletionDepth-r.room)
	}
	r.payGrants()
	r.handshake.Turn(now)
	if watching {
		r.watch()
	}
	next = liveness.Earlier(liveness.Earlier(r.reap(), r.handshake.Next()), r.vigil.Next())
	if len(r.owed) > 0 {
		next = liveness.Earlier(next, now.Add(time.Millisecond))
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
	r.turns++
	r.now, r.touched, r.starved = now, false, false
	r.outbox.Begin(events)
}

// poll takes completions until there are none, the events are full, or it was enough for a turn. It returns how many it took, and
// true if it stopped before there were none. A look that brought fewer than it might have is the last one: another would cost what it
// costs to find nothing, and the next turn takes it. Only to be thorough, before peers are judged by what they have sent, poll
// goes on until a look finds nothing.
func (r *Rail) poll(thorough bool) (polled int, more bool) {
	for ; polled < maxPolled; polled++ {
		if r.outbox.Full() {
			return polled, true
		}
		if r.at == r.end {
			if r.emptied && !thorough && r.failed == nil {
				r.emptied = false
				return polled, false
			}
			n, err := 0, r.failed
			if r.failed = nil; err == nil {
				n, err = r.cq.Poll(r.completions[:])
			}
			if err != nil {
				r.failAll(fmt.Errorf("%w: %w", rail.ErrPeerGone, err))
				return polled, false
			}
			if r.took(n); n == 0 {
				return polled, false
			}
		}
		r.at++
		r.completed(&r.completions[r.at-1])
	}
	return polled, true
}

// took notes what a look at the queue brought.
func (r *Rail) took(n int) { r.at, r.end, r.emptied = 0, n, n > 0 && n < len(r.completions) }

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
		r.outbox.Emit(e)
		return
	}
	cause := r.cq.Err(x)
	if r.refusedBy(cause) {
		e.Err = fmt.Errorf("%w, or its process is ending: %w", rail.ErrAccess, reasonOf(cause))
		r.outbox.Emit(e)
		return
	}
	c.unsure = true
	e.Err = fmt.Errorf("%w: %w", rail.ErrPeerGone, reasonOf(cause))
	r.outbox.Emit(e)
	r.lost(c, e.Err)
}

// reasonOf is why a completion failed, without the operation's number, which says nothing to others than this rail.
func reasonOf(err error) error {
	e := new(fabric.CompletionError)
	switch {
	case !errors.As(err, &e):
		return err
	case e.ProvErrno == 0:
		return e.Reason
	}
	return fmt.Errorf("%w (%s)", e.Reason, e.Text)
}

// immediate takes an immediate of a peer.
func (r *Rail) immediate(x *fabric.Completion) {
	if x.Failed() || x.Flags&fabric.FlagRemoteCQData == 0 {
		return
	}
	c := r.bySource[x.Source]
	if r.traits.tagged {
		c = r.tagged(tag(x.Data >> 32))
	}
	if c == nil { // of a connection that is gone, or made up
		r.ignored.Add(1)
		return
	}
	r.heard(c)
	c.taken++
	if c.state == connUp {
		c.offered++
		r.outbox.Emit(rail.Event{Kind: rail.Immediate, Peer: c.id, Imm: uint32(x.Data)})
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
	drained := r.at == r.end && !r.outbox.Full()
	r.vigil.Begin()
	for _, c := range r.conns {
		if c == nil || c.state != connUp {
			continue
		}
		speak := func() { r.say(c, controlStatus, 0, nil) }
		if gone := r.vigil.Look(r.now, &c.signs, drained, speak); gone != nil {
			r.lost(c, fmt.Errorf("%w: %w", rail.ErrPeerGone, gone))
		}
	}
	r.vigil.End(r.now)
}
