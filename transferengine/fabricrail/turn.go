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
	r.transport.calls(a, true)
	id, err := r.handshake.Connect(now, a, deadline)
	if c := r.peers[id]; err != nil || c == nil || c.state == connUp {
		r.transport.calls(a, false)
	}
	return id, err
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
	watching := r.vigil.Due(now) || r.doubts
	more := r.poll(watching)
	r.payGrants()
	r.handshake.Turn(now)
	if watching {
		r.watch()
	}
	next = liveness.Earlier(r.transport.turn(), r.reap())
	next = liveness.Earlier(liveness.Earlier(next, r.handshake.Next()), r.vigil.Next())
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
	r.woken = r.sleeping.woke.Swap(false) || r.touched
	r.now, r.touched, r.starved = now, false, false
	r.outbox.Begin(events)
}

// poll takes completions, of all queues in turns, until there are none, the events are full, or it was enough for a turn. It returns
// true if it stopped before there were none. A look that brought fewer than it might have is the last one at its queue: another would
// cost what it costs to find nothing, and the next turn takes it. Only to be thorough, before peers are judged by what they have sent,
// poll goes on until a look finds nothing.
func (r *Rail) poll(thorough bool) (more bool) {
	looks := len(r.queues)
	if looks == 1 && r.at < r.end && r.end < len(r.completions) && !thorough {
		looks = 0 // the queue was just looked at
	}
	for polled := 0; polled < maxPolled; {
		switch {
		case r.outbox.Full():
			return true
		case r.at < r.end:
			r.at++
			polled++
			r.completed(r.from, &r.completions[r.at-1])
		case looks == 0 && r.failed == nil:
			return false
		default:
			q := r.from
			n, err := 0, r.failed
			if r.failed = nil; err == nil {
				q = r.nextQueue()
				n, err = q.cq.Poll(r.completions[:])
			}
			if err != nil {
				r.queueFailed(q, err)
			}
			if r.took(q, n); n == len(r.completions) || thorough && n > 0 {
				looks = len(r.queues)
			} else {
				looks = max(looks-1, 0)
			}
		}
	}
	return true
}

// nextQueue is the one to look at next. There is one.
func (r *Rail) nextQueue() *queue {
	r.next++
	return r.queues[r.next%len(r.queues)]
}

// took notes what a look at a queue brought.
func (r *Rail) took(q *queue, n int) {
	r.at, r.end, r.from = 0, n, q
	q.drained = n < len(r.completions)
}

// queueFailed gives up what a queue served that cannot be read any more.
func (r *Rail) queueFailed(q *queue, err error) {
	cause := fmt.Errorf("%w: %w", rail.ErrPeerGone, err)
	for _, c := range r.conns {
		if c != nil && q.isOf(c) {
			r.lost(c, cause)
		}
	}
}

// isOf tells whether a connection's completions come to the queue.
func (q *queue) isOf(c *conn) bool {
	return q.of == nil || c.remote == q.of || q.of.link.loop && c.peer.link() == q.of.link.key
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
func (r *Rail) completed(q *queue, x *fabric.Completion) {
	switch id := workID(x.ID); {
	case x.ID == 0:
		r.immediate(q, x)
	case id.kind() == workOperation:
		r.operated(q, id, x)
	case id.kind() == workSend:
		r.messageSent(q, id, x)
	case id.kind() == workRecv:
		r.message(q, id, x)
	}
}

// operated takes the completion of an operation.
func (r *Rail) operated(q *queue, id workID, x *fabric.Completion) {
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
	if q.of != nil && q.of.link.gone != nil && !q.of.link.up { // it was taken back
		c.unsure = true
		e.Err = rail.ErrFlushed
		r.outbox.Emit(e)
		return
	}
	cause := q.cq.Err(x)
	if r.refusedBy(cause) {
		e.Err = fmt.Errorf("%w, or its process is ending: %w", rail.ErrAccess, reasonOf(cause))
		r.outbox.Emit(e)
		if q.of != nil {
			r.lost(c, e.Err) // it costs the connection
		}
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
func (r *Rail) immediate(q *queue, x *fabric.Completion) {
	if x.Failed() || x.Flags&fabric.FlagRemoteCQData == 0 {
		return
	}
	c := r.bySource[x.Source]
	if r.traits.tagged {
		c = r.tagged(tag(x.Data >> 32))
	}
	if c != nil && !q.isOf(c) {
		c = nil
	}
	if c == nil { // of a connection that is gone, or made up
		r.ignored.Add(1)
		return
	}
	r.heard(c)
	c.taken++
	if c.wasUp {
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

// watch sends the heartbeats that are due, and gives up the peers of whom nothing more will come. What has come of one is to be taken
// before; but where others send without end, a peer is judged after DrainTimeout.
func (r *Rail) watch() {
	r.vigil.Begin()
	r.doubts = false
	for _, c := range r.conns {
		if c == nil || c.state != connUp {
			continue
		}
		speak := func() { r.say(c, controlStatus, 0, nil) }
		gone := r.vigil.Look(r.now, &c.signs, true, speak)
		switch {
		case gone == nil:
			c.doubted = time.Time{}
		case r.drained(c) || !c.doubted.IsZero() && r.now.Sub(c.doubted) >= r.cfg.DrainTimeout:
			r.lost(c, fmt.Errorf("%w: %w", rail.ErrPeerGone, gone))
		default:
			r.doubts = true
			if c.doubted.IsZero() {
				c.doubted = r.now
			}
		}
	}
	r.vigil.End(r.now)
}

// drained tells whether all was taken that has come of a peer.
func (r *Rail) drained(c *conn) bool {
	q := r.queues[0]
	if c.remote.link != nil {
		q = c.remote.link.queue
	}
	return q.drained && !(r.from == q && r.at < r.end)
}
