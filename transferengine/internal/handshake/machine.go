package handshake

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weftrdma/weft/transferengine/rail"
)

// Machine makes the connections of one rail. It has no clock, no goroutine and no NIC: time, randomness and everything that
// it does to the world come from outside.
type Machine[A Address, H any] struct {
	cfg Config[A, H]

	ends     map[A]*end[A, H]
	byID     map[rail.PeerID]*end[A, H]
	pending  []*end[A, H] // those that are not up, in the order they were made
	lastID   rail.PeerID
	attempts uint64
	ignored  atomic.Uint64 // messages that could change nothing
	scratch  []byte
}

// Config is what a machine is made of.
type Config[A Address, H any] struct {
	Wire        *Wire[A, H]
	Self        A
	Incarnation rail.Incarnation
	Timing      Timing
	OnlyCalled  bool          // hellos of rails that Connect was not called for are neither taken nor answered
	Nonce       func() uint64 // random numbers
	Effects     Effects[A, H]
}

// Timing is how long a machine waits.
type Timing struct {
	// First and Most are the time between two hellos to a peer: at first, and after doubling.
	First, Most time.Duration
	// Retry is the time after a hello that was not taken, at first; it doubles up to Most, since each try may be a connection
	// that somebody refuses.
	Retry time.Duration
	// Accept is how long a peer that called has to finish.
	Accept time.Duration
}

// Effects is what a machine does to the world. Its methods do not call the machine.
type Effects[A Address, H any] interface {
	// Open makes our half of a connection. A peer has one at a time.
	Open(id rail.PeerID, to A) (H, error)
	// Connect connects our half to another. When it returns the other end may send.
	Connect(id rail.PeerID, to A, other H) error
	// Abandon gives up our half of a peer that is not up.
	Abandon(id rail.PeerID)
	// Send sends a message, which it copies. False is back-pressure: it is to be sent again soon.
	Send(to A, message []byte) (sent bool, err error)
	// Up says that a peer is connected.
	Up(id rail.PeerID, to A, incarnation rail.Incarnation)
	// Down says that a peer is lost that was up, or that Connect of the machine was called for, and gives up our half if there
	// is one.
	Down(id rail.PeerID, cause error)
}

// end is our end of a connection that exists or is being made.
type end[A Address, H any] struct {
	id       rail.PeerID
	to       A
	state    state
	nonce    uint64
	attempt  uint64
	half     H
	remote   Hello[A, H] // what our half is connected to, unless calling
	wanted   bool        // Connect was called: who called is to be told how it ends
	silent   bool        // it says nothing before the peer does: see Expect
	deadline time.Time
	due      time.Time // of the next hello
	interval time.Duration
	retry    time.Duration // zero once a hello was taken
	sent     int
}

type state uint8

const (
	calling state = iota
	holding
	up
)

// New returns a machine without peers.
func New[A Address, H any](cfg Config[A, H]) *Machine[A, H] {
	return &Machine[A, H]{cfg: cfg, ends: make(map[A]*end[A, H]), byID: make(map[rail.PeerID]*end[A, H])}
}

// Ignored is how many messages were malformed, forged, or came when they could change nothing. It may be called at any time.
func (m *Machine[A, H]) Ignored() uint64 { return m.ignored.Load() }

// Connect starts, or joins, a connection to a rail, until the deadline. Effects.Up or Effects.Down follows, unless it is up.
func (m *Machine[A, H]) Connect(now time.Time, to A, deadline time.Time) (rail.PeerID, error) {
	if e := m.ends[to]; e != nil {
		e.join(deadline)
		e.silent = false
		return e.id, nil
	}
	e, err := m.add(now, to, deadline)
	if err != nil {
		return 0, err
	}
	if err := m.say(now, e, true); err != nil {
		m.drop(e, err)
		return 0, err
	}
	e.wanted = true
	return e.id, nil
}

// Expect is Connect for a peer that will call: nothing is said to it before it does.
func (m *Machine[A, H]) Expect(now time.Time, to A, deadline time.Time) (rail.PeerID, error) {
	if e := m.ends[to]; e != nil {
		e.join(deadline)
		return e.id, nil
	}
	e, err := m.add(now, to, deadline)
	if err != nil {
		return 0, err
	}
	e.wanted, e.silent = true, true
	return e.id, nil
}

// join has one more caller wait for how it ends, until the deadline.
func (e *end[A, H]) join(deadline time.Time) {
	if !e.wanted || deadline.After(e.deadline) {
		e.wanted, e.deadline = true, deadline
	}
}

// Forget removes a peer that the caller gives up, or has lost.
func (m *Machine[A, H]) Forget(id rail.PeerID) {
	e := m.byID[id]
	if e == nil {
		return
	}
	if e.state == holding {
		m.refuse(&e.remote, Closing, "")
	}
	m.remove(e)
}

// Proven tells that something arrived from the peer on its connection: it holds our half.
func (m *Machine[A, H]) Proven(id rail.PeerID) {
	if e := m.byID[id]; e != nil && e.state == holding {
		m.rise(e)
	}
}

// Fail tells that our half of a peer that is not up has broken.
func (m *Machine[A, H]) Fail(id rail.PeerID, cause error) {
	if e := m.byID[id]; e != nil && e.state != up {
		m.drop(e, cause)
	}
}

// Broken tells that what our half of a peer that is not up went over has broken: another one calls, if somebody waits for it.
func (m *Machine[A, H]) Broken(now time.Time, id rail.PeerID, cause error) {
	switch e := m.byID[id]; {
	case e == nil || e.state != holding:
	case e.wanted:
		m.restart(now, e)
	default:
		m.drop(e, cause)
	}
}

// MayCall tells whether a hello from an address would be taken.
func (m *Machine[A, H]) MayCall(from A) bool { return m.mayCall(from) }

// Handle takes a message. Genuine tells whether it can come from that address, as far as the transport knows: without this
// anybody could have a rail send answers to somebody else. It may be nil where the wire has keys.
func (m *Machine[A, H]) Handle(now time.Time, message []byte, genuine func(from A) bool) {
	w := m.cfg.Wire
	meant := func(from A, to uint64) bool {
		return (w.Key == nil || w.Key(m.cfg.Self) == to) && (genuine == nil || genuine(from))
	}
	if bytes.HasPrefix(message, w.Refusal[:]) {
		if r, err := w.ParseRefusal(message); err == nil && meant(r.From, r.To) {
			m.refused(now, r)
			return
		}
	} else if hello, err := w.ParseHello(message); err == nil {
		if meant(hello.From, hello.To) && m.mayCall(hello.From) {
			m.hello(now, hello)
			return
		}
	} else if hello, ok := w.peek(message); ok && meant(hello.From, hello.To) && m.mayCall(hello.From) {
		m.refuse(&hello, Version, err.Error())
		return
	}
	m.ignored.Add(1)
}

// mayCall tells whether a hello of the rail is taken at all. An answer goes to the address that is in the hello, which somebody
// else may have written there.
func (m *Machine[A, H]) mayCall(from A) bool { return !m.cfg.OnlyCalled || m.ends[from] != nil }

// hello takes a hello.
func (m *Machine[A, H]) hello(now time.Time, h *Hello[A, H]) {
	e := m.ends[h.From]
	switch {
	case h.Holds != 0 && (e == nil || h.Holds != e.nonce):
		m.refuse(h, Stale, "")
	case e == nil || e.state == calling:
		m.begin(now, e, h)
	case h.Incarnation != e.remote.Incarnation:
		// The peer was restarted, or this is from before it was: the message does not tell. Say hello to the half that we
		// know; whoever took its place answers that ours is stale.
		m.tell(now, e, true)
	case h.Attempt == e.remote.Attempt && h.Nonce == e.remote.Nonce:
		m.again(now, e, h)
	case h.Attempt <= e.remote.Attempt:
		m.ignored.Add(1)
	default:
		// A later attempt: the peer has given up the half that ours is connected to, or somebody else says so in its name. Ask that
		// half, at its own address: the peer answers that it is stale, if it is. A half that is not up yet is asked too, since the
		// peer's may be.
		m.tell(now, e, true)
	}
}

// begin connects an end that is calling, or a new one, to the half that a hello offers.
func (m *Machine[A, H]) begin(now time.Time, e *end[A, H], h *Hello[A, H]) {
	if e == nil {
		var err error
		if e, err = m.add(now, h.From, now.Add(m.cfg.Timing.Accept)); err != nil {
			m.refuse(h, NoRoom, err.Error())
			return
		}
	}
	e.silent = false
	if err := m.cfg.Effects.Connect(e.id, h.From, h.Half); err != nil {
		m.refuse(h, Failed, err.Error())
		m.drop(e, err)
		return
	}
	e.state, e.remote, e.interval = holding, *h, m.cfg.Timing.First
	if h.Holds == e.nonce {
		m.rise(e)
	}
	m.tell(now, e, e.state != up)
}

// again takes another hello of the half that ours is connected to.
func (m *Machine[A, H]) again(now time.Time, e *end[A, H], h *Hello[A, H]) {
	if e.state == holding && h.Holds == e.nonce {
		m.rise(e)
	}
	if h.AckWanted {
		m.tell(now, e, false) // an answer asks for none, or two ends that disagree would never fall silent
	}
}

// refused takes a refusal.
func (m *Machine[A, H]) refused(now time.Time, r *Refusal[A]) {
	e := m.answered(r)
	if e == nil {
		m.ignored.Add(1)
		return
	}
	switch bound := e.state != calling; {
	case r.Reason == Stale && e.state == holding && e.wanted:
		m.restart(now, e)
	case r.Reason == Stale && bound:
		m.drop(e, fmt.Errorf("%w: %v does not know the connection any more", rail.ErrPeerGone, e.to))
	case r.Reason == Closing:
		m.drop(e, fmt.Errorf("%v: %w", e.to, rail.ErrPeerClosed))
	case r.Reason != Stale && (!bound || r.Reason == Failed && e.state == holding):
		m.drop(e, fmt.Errorf("%v: %w: %v: %q", e.to, rail.ErrRefused, r.Reason, r.Text))
	default: // overtaken by an answer that led further
		m.ignored.Add(1)
	}
}

// answered is the end whose hello a refusal answers. Where a refusal does not say who sends it, all are looked through:
// refusals are rare, and who sends them has our key.
func (m *Machine[A, H]) answered(r *Refusal[A]) *end[A, H] {
	if m.cfg.Wire.Key == nil {
		if e := m.ends[r.From]; e != nil && e.nonce == r.Answers {
			return e
		}
		return nil
	}
	for _, e := range m.ends {
		if e.nonce == r.Answers {
			return e
		}
	}
	return nil
}

// Turn sends the hellos that are due and gives up the ends whose time has passed.
func (m *Machine[A, H]) Turn(now time.Time) {
	for i := 0; i < len(m.pending); {
		e := m.pending[i]
		switch {
		case !now.Before(e.deadline):
			// Nothing is said to the peer: if it goes on calling, it is welcome.
			m.drop(e, fmt.Errorf("%v: %w: %d hellos were sent; does its process run, and does a firewall drop its port?",
				e.to, rail.ErrUnreachable, e.sent))
		case e.silent:
		case !now.Before(e.due):
			e.interval = min(2*e.interval, m.cfg.Timing.Most)
			m.tell(now, e, true)
		}
		if i < len(m.pending) && m.pending[i] == e {
			i++
		}
	}
}

// Calling tells whether Turn may have something to do at some time.
func (m *Machine[A, H]) Calling() bool { return len(m.pending) > 0 }

// Next is when Turn has something to do, the zero time if never.
func (m *Machine[A, H]) Next() (t time.Time) {
	for _, e := range m.pending {
		at := e.deadline
		if !e.silent && e.due.Before(at) {
			at = e.due
		}
		if t.IsZero() || at.Before(t) {
			t = at
		}
	}
	return t
}

// add makes an end that is calling.
func (m *Machine[A, H]) add(now time.Time, to A, deadline time.Time) (*end[A, H], error) {
	e := &end[A, H]{id: m.lastID + 1, to: to, deadline: deadline}
	if err := m.renew(now, e); err != nil {
		return nil, err
	}
	m.lastID++
	m.ends[to], m.byID[e.id] = e, e
	m.pending = append(m.pending, e)
	return e, nil
}

// restart gives an end that is not up another half, under the same id, and lets it call again; if that is not possible the end is gone.
func (m *Machine[A, H]) restart(now time.Time, e *end[A, H]) {
	m.cfg.Effects.Abandon(e.id)
	if err := m.renew(now, e); err != nil {
		m.drop(e, err)
	}
}

// renew makes a half for an end, and calls at the next turn.
func (m *Machine[A, H]) renew(now time.Time, e *end[A, H]) error {
	half, err := m.cfg.Effects.Open(e.id, e.to)
	if err != nil {
		return err
	}
	m.attempts++
	e.state, e.half, e.attempt, e.remote = calling, half, m.attempts, Hello[A, H]{}
	e.due, e.interval = now, m.cfg.Timing.First
	for e.nonce = m.cfg.Nonce(); e.nonce == 0; {
		e.nonce = m.cfg.Nonce()
	}
	return nil
}

func (m *Machine[A, H]) rise(e *end[A, H]) {
	e.state = up
	m.settle(e)
	m.cfg.Effects.Up(e.id, e.to, e.remote.Incarnation)
}

// drop removes an end that is lost, or that came to nothing.
func (m *Machine[A, H]) drop(e *end[A, H], cause error) {
	m.remove(e)
	if e.wanted || e.state == up {
		m.cfg.Effects.Down(e.id, cause)
	} else {
		m.cfg.Effects.Abandon(e.id)
	}
}

func (m *Machine[A, H]) remove(e *end[A, H]) {
	delete(m.ends, e.to)
	delete(m.byID, e.id)
	m.settle(e)
}

// settle takes an end off the pending ones.
func (m *Machine[A, H]) settle(e *end[A, H]) {
	if i := slices.Index(m.pending, e); i >= 0 {
		m.pending = slices.Delete(m.pending, i, i+1)
	}
}

// tell says hello, and drops an end that is not up if it cannot even be sent.
func (m *Machine[A, H]) tell(now time.Time, e *end[A, H], ackWanted bool) {
	if err := m.say(now, e, ackWanted); err != nil && e.state != up {
		m.drop(e, err)
	}
}

// say sends a hello. The next one is not due before the interval has passed, or soon if this one was not taken: the transport
// may be connecting.
func (m *Machine[A, H]) say(now time.Time, e *end[A, H], ackWanted bool) error {
	w := m.cfg.Wire
	h := Hello[A, H]{From: m.cfg.Self, Incarnation: m.cfg.Incarnation, Nonce: e.nonce, Attempt: e.attempt,
		Holds: e.remote.Nonce, AckWanted: ackWanted, Half: e.half}
	if w.Key != nil {
		h.To = w.Key(e.to)
	}
	m.scratch = w.AppendHello(m.scratch[:0], &h)
	sent, err := m.cfg.Effects.Send(e.to, m.scratch)
	if err != nil {
		return fmt.Errorf("%v: %w: %w", e.to, rail.ErrUnreachable, err)
	}
	e.due = now.Add(e.interval)
	if !sent {
		e.retry = min(max(2*e.retry, m.cfg.Timing.Retry), m.cfg.Timing.Most)
		e.due, e.interval = now.Add(e.retry), m.cfg.Timing.First
		return nil
	}
	e.retry = 0
	e.sent++
	return nil
}

// refuse answers a hello. A refusal that is lost is sent again for the next hello.
func (m *Machine[A, H]) refuse(h *Hello[A, H], why Reason, text string) {
	w := m.cfg.Wire
	r := Refusal[A]{From: m.cfg.Self, Answers: h.Nonce, Reason: why, Text: text}
	if w.Key != nil {
		r.To = w.Key(h.From)
	}
	m.scratch = w.AppendRefusal(m.scratch[:0], &r)
	_, _ = m.cfg.Effects.Send(h.From, m.scratch)
}
