package fabricrail

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weftrdma/weft/transferengine/rail"
)

// handshake makes connections by messages, which may be lost with the connection that a provider keeps under them, and sent
// again. It is a state machine: time, randomness and everything that it does to the world come from outside.
//
// Both ends send the same message, a hello, until they know that the other end holds their half:
//
//	calling   our half exists; nothing was heard of the other end's
//	holding   our half is connected to the other end's, which we hold; it may not hold ours yet
//	up        the other end holds ours too: it may be written to
//
// What keeps a late hello from bringing back what is gone: one that holds a half which we do not have is refused as stale,
// and an end goes up only when it is answered by its own nonce. A stale refusal is true for ever once it is true, as a half
// is connected to one other half in its life, so it may arrive late or twice.
//
// It is the protocol of the rail over verbs, whose hellos are datagrams.
type handshake struct {
	self        address
	incarnation rail.Incarnation
	effects     effects
	nonce       func() uint64
	timing      timing

	ends     map[address]*end
	byID     map[rail.PeerID]*end
	pending  []*end // those that are not up, in the order they were made
	lastID   rail.PeerID
	attempts uint64
	ignored  atomic.Uint64 // messages that could change nothing
	scratch  [messageSize]byte
}

// timing is the handshake's share of Config.
type timing struct {
	retry       time.Duration // after the provider did not take a hello
	first, most time.Duration // between two hellos to a peer: at first, and after doubling
	accept      time.Duration // how long a peer that called has to finish
}

// effects is what the handshake does to the world. Its methods do not call the handshake.
type effects interface {
	// open makes our half of a connection. A peer has one at a time.
	open(id rail.PeerID, to address) (half, error)
	// connect connects our half to another. When it returns the other end may send.
	connect(id rail.PeerID, other half) error
	// abandon gives up our half of a peer that is not up.
	abandon(id rail.PeerID)
	// send sends a message, which it copies. False is back-pressure: it is to be sent again soon.
	send(to address, message []byte) (sent bool, err error)
	// up says that a peer is connected.
	up(id rail.PeerID, incarnation rail.Incarnation)
	// down says that a peer is lost that was up, or that connect was called for, and gives up our half if there is one.
	down(id rail.PeerID, cause error)
}

// end is our end of a connection that exists or is being made.
type end struct {
	id       rail.PeerID
	to       address
	state    endState
	nonce    uint64
	attempt  uint64
	half     half
	remote   hello // what our half is connected to, unless calling
	wanted   bool  // connect was called: who called is to be told how it ends
	deadline time.Time
	due      time.Time // of the next hello
	interval time.Duration
	sent     int
}

type endState uint8

const (
	calling endState = iota
	holding
	up
)

func newHandshake(self address, inc rail.Incarnation, t timing, nonce func() uint64, e effects) *handshake {
	return &handshake{self: self, incarnation: inc, effects: e, nonce: nonce, timing: t,
		ends: make(map[address]*end), byID: make(map[rail.PeerID]*end)}
}

// connect starts, or joins, a connection to a rail.
func (h *handshake) connect(now time.Time, to address, deadline time.Time) (rail.PeerID, error) {
	if e := h.ends[to]; e != nil {
		if !e.wanted || deadline.After(e.deadline) {
			e.wanted, e.deadline = true, deadline
		}
		return e.id, nil
	}
	e, err := h.add(now, to, deadline)
	if err != nil {
		return 0, err
	}
	if err := h.say(now, e, true); err != nil {
		h.drop(e, err)
		return 0, err
	}
	e.wanted = true
	return e.id, nil
}

// forget removes a peer that the caller gives up, or has lost.
func (h *handshake) forget(id rail.PeerID) {
	e := h.byID[id]
	if e == nil {
		return
	}
	if e.state == holding {
		h.refuse(e.to, e.remote.nonce, reasonClosing, "")
	}
	h.remove(e)
}

// proven tells that something arrived from the peer on its connection: it holds our half.
func (h *handshake) proven(id rail.PeerID) {
	if e := h.byID[id]; e != nil && e.state == holding {
		h.rise(e)
	}
}

// fail tells that our half of a peer that is not up has broken.
func (h *handshake) fail(id rail.PeerID, cause error) {
	if e := h.byID[id]; e != nil && e.state != up {
		h.drop(e, cause)
	}
}

// receive takes a message of the handshake.
func (h *handshake) receive(now time.Time, message []byte) {
	if bytes.HasPrefix(message, refusalFormat.Magic[:]) {
		if m, err := parseRefusal(message); err == nil && m.to == h.self.key {
			h.refused(now, m)
			return
		}
	} else if m, err := parseHello(message); err == nil && m.to == h.self.key {
		h.hello(now, m)
		return
	} else if from, nonce, ok := h.peekHello(message); ok {
		h.refuse(from, nonce, reasonVersion, err.Error())
		return
	}
	h.ignored.Add(1)
}

// hello takes a hello.
func (h *handshake) hello(now time.Time, m *hello) {
	e := h.ends[m.from]
	switch {
	case m.holds != 0 && (e == nil || m.holds != e.nonce):
		h.refuse(m.from, m.nonce, reasonStale, "")
	case e == nil || e.state == calling:
		h.begin(now, e, m)
	case m.incarnation != e.remote.incarnation:
		// The peer was restarted, or this is from before it was: the message does not tell. Say hello to the half that we
		// know; whoever took its place answers that ours is stale.
		h.tell(now, e, true)
	case m.attempt == e.remote.attempt && m.nonce == e.remote.nonce:
		h.again(now, e, m)
	case m.attempt <= e.remote.attempt:
		h.ignored.Add(1)
	case e.state == up || !e.wanted: // and a later attempt: the peer has given up the half that ours is connected to
		h.drop(e, fmt.Errorf("%w: %v gave up the connection and began another", rail.ErrPeerGone, e.to))
		h.hello(now, m)
	case h.restart(now, e):
		h.hello(now, m)
	}
}

// begin connects an end that is calling, or a new one, to the half that a hello offers.
func (h *handshake) begin(now time.Time, e *end, m *hello) {
	if e == nil {
		var err error
		if e, err = h.add(now, m.from, now.Add(h.timing.accept)); err != nil {
			h.refuse(m.from, m.nonce, reasonNoRoom, err.Error())
			return
		}
	}
	if err := h.effects.connect(e.id, m.half); err != nil {
		h.refuse(m.from, m.nonce, reasonFailed, err.Error())
		h.drop(e, err)
		return
	}
	e.state, e.remote, e.interval = holding, *m, h.timing.first
	if m.holds == e.nonce {
		h.rise(e)
	}
	h.tell(now, e, e.state != up)
}

// again takes another hello of the half that ours is connected to.
func (h *handshake) again(now time.Time, e *end, m *hello) {
	if e.state == holding && m.holds == e.nonce {
		h.rise(e)
	}
	if m.ackWanted {
		h.tell(now, e, false) // an answer asks for none, or two ends that disagree would never fall silent
	}
}

// refused takes a refusal.
func (h *handshake) refused(now time.Time, m *refusal) {
	e := h.byNonce(m.answers)
	if e == nil {
		h.ignored.Add(1)
		return
	}
	switch bound := e.state != calling; {
	case m.reason == reasonStale && e.state == holding && e.wanted:
		h.restart(now, e)
	case m.reason == reasonStale && bound:
		h.drop(e, fmt.Errorf("%w: %v does not know the connection any more", rail.ErrPeerGone, e.to))
	case m.reason == reasonClosing:
		h.drop(e, fmt.Errorf("%v: %w", e.to, rail.ErrPeerClosed))
	case m.reason != reasonStale && (!bound || m.reason == reasonFailed && e.state == holding):
		h.drop(e, fmt.Errorf("%v: %w: %v: %q", e.to, rail.ErrRefused, m.reason, m.text))
	default: // overtaken by an answer that led further
		h.ignored.Add(1)
	}
}

// byNonce is the end of that half. Refusals are rare.
func (h *handshake) byNonce(nonce uint64) *end {
	for _, e := range h.ends {
		if e.nonce == nonce {
			return e
		}
	}
	return nil
}

// tick sends the hellos that are due and gives up the ends whose time has passed.
func (h *handshake) tick(now time.Time) {
	for i := 0; i < len(h.pending); {
		e := h.pending[i]
		switch {
		case !now.Before(e.deadline):
			// Nothing is said to the peer: if it goes on calling, it is welcome.
			h.drop(e, fmt.Errorf("%v: %w: %d hellos were sent", e.to, rail.ErrUnreachable, e.sent))
		case !now.Before(e.due):
			e.interval = min(2*e.interval, h.timing.most)
			h.tell(now, e, true)
		}
		if i < len(h.pending) && h.pending[i] == e {
			i++
		}
	}
}

// next is when tick has something to do, the zero time if never.
func (h *handshake) next() (t time.Time) {
	for _, e := range h.pending {
		for _, at := range [...]time.Time{e.due, e.deadline} {
			if t.IsZero() || at.Before(t) {
				t = at
			}
		}
	}
	return t
}

// add makes an end that is calling.
func (h *handshake) add(now time.Time, to address, deadline time.Time) (*end, error) {
	e := &end{id: h.lastID + 1, to: to, deadline: deadline}
	if err := h.renew(now, e); err != nil {
		return nil, err
	}
	h.lastID++
	h.ends[to], h.byID[e.id] = e, e
	h.pending = append(h.pending, e)
	return e, nil
}

// restart gives an end that is not up another half, under the same id, and lets it call again. It returns false if that
// was not possible and the end is gone.
func (h *handshake) restart(now time.Time, e *end) bool {
	h.effects.abandon(e.id)
	if err := h.renew(now, e); err != nil {
		h.drop(e, err)
		return false
	}
	return true
}

// renew makes a half for an end, and calls at the next tick.
func (h *handshake) renew(now time.Time, e *end) error {
	half, err := h.effects.open(e.id, e.to)
	if err != nil {
		return err
	}
	h.attempts++
	e.state, e.half, e.attempt, e.remote = calling, half, h.attempts, hello{}
	e.due, e.interval = now, h.timing.first
	for e.nonce = h.nonce(); e.nonce == 0; {
		e.nonce = h.nonce()
	}
	return nil
}

func (h *handshake) rise(e *end) {
	e.state = up
	h.settle(e)
	h.effects.up(e.id, e.remote.incarnation)
}

// drop removes an end that is lost, or that came to nothing.
func (h *handshake) drop(e *end, cause error) {
	h.remove(e)
	if e.wanted || e.state == up {
		h.effects.down(e.id, cause)
	} else {
		h.effects.abandon(e.id)
	}
}

func (h *handshake) remove(e *end) {
	delete(h.ends, e.to)
	delete(h.byID, e.id)
	h.settle(e)
}

// settle takes an end off the pending ones.
func (h *handshake) settle(e *end) {
	if i := slices.Index(h.pending, e); i >= 0 {
		h.pending = slices.Delete(h.pending, i, i+1)
	}
}

// tell says hello, and drops an end that is not up if it cannot even be sent.
func (h *handshake) tell(now time.Time, e *end, ackWanted bool) {
	if err := h.say(now, e, ackWanted); err != nil && e.state != up {
		h.drop(e, err)
	}
}

// say sends hello. The next one is not due before the interval has passed, or soon if the provider did not take this one: it
// may be connecting.
func (h *handshake) say(now time.Time, e *end, ackWanted bool) error {
	m := hello{from: h.self, to: e.to.key, incarnation: h.incarnation, nonce: e.nonce, attempt: e.attempt,
		holds: e.remote.nonce, ackWanted: ackWanted, half: e.half}
	sent, err := h.effects.send(e.to, m.append(h.scratch[:0]))
	if err != nil {
		return fmt.Errorf("%v: %w: %w", e.to, rail.ErrUnreachable, err)
	}
	e.due = now.Add(e.interval)
	if !sent {
		e.due, e.interval = now.Add(h.timing.retry), h.timing.first
		return nil
	}
	e.sent++
	return nil
}

// refuse answers a hello. A refusal that is lost is sent again for the next hello.
func (h *handshake) refuse(to address, nonce uint64, why reason, text string) {
	m := refusal{to: to.key, answers: nonce, reason: why, text: text}
	_, _ = h.effects.send(to, m.append(h.scratch[:0]))
}
