package filetransfer

// How the two ends meet.
//
//	greeting   Hello, Challenge, Request: at the receiver outside the seats, within Timeouts.Greeting. No message is read ahead,
//	           since the keys are made of those that went before.
//	line       the sender waits for a seat and is told its place. From here on session.listen reads what the other end says.
//	set-up     the receiver registers a window for this sender alone and says Welcome; the sender connects to the receiver's
//	           data port. The receiver connects nowhere.
//
// What follows is a transfer, at the end of which the receiver gives the peer up and takes the window away.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
)

// signOfLife is how often a sender in line is told its place, so that it knows a receiver that is alive from one that is not.
const signOfLife = 3 * time.Second

var (
	errReceiverHasKey = errors.New("the receiver serves only senders that have its key: give --key-file")
	errReceiverNoKey  = errors.New("the receiver has no key: give both ends the same --key-file, or neither")
)

// await waits for a message while nobody listens. Its deadline is that of the whole message.
func await[T wire.Message](s *session, deadline time.Time) (T, error) {
	stop := context.AfterFunc(s.ctx, func() { _ = s.conn.Close() })
	m, err := s.conn.ReceiveBy(deadline)
	if !stop() {
		err = context.Cause(s.ctx)
	} else if err != nil && !time.Now().Before(deadline) {
		err = &errGone{errors.New("it said nothing in time")}
	} else if err != nil {
		err = lost(err)
	}
	var none T
	switch m := m.(type) {
	case *wire.Abort:
		return none, gaveUp(m)
	case nil:
		return none, err
	case T:
		return m, err
	}
	return none, fmt.Errorf("it sent %q where %q was due", wire.NameOf(m), wire.NameOf(none))
}

// introduce says who this sender is, asks for a seat, and returns the answer to that: a Wait or a Welcome.
func (s *sending) introduce(request *wire.Request) (wire.Message, error) {
	keyed := len(s.config.Key) > 0
	if err := s.conn.Send(&wire.Hello{Nonce: wire.NewNonce(), Keyed: keyed}); err != nil {
		return nil, lost(err)
	}
	challenge, err := await[*wire.Challenge](s.session, time.Now().Add(s.timeouts.Handshake))
	switch {
	case err != nil:
		return nil, err
	case challenge.Keyed && !keyed:
		return nil, errReceiverHasKey
	case !challenge.Keyed && keyed:
		return nil, errReceiverNoKey
	}
	if err := s.conn.Authenticate(s.config.Key, true); err != nil {
		return nil, err
	}
	if err := s.conn.Send(request); err != nil {
		return nil, lost(err)
	}
	return await[wire.Message](s.session, time.Now().Add(s.patienceForSeat()))
}

// patienceForSeat bounds the time between two words of a receiver that has not said Welcome.
func (s *session) patienceForSeat() time.Duration { return 2 * s.timeouts.Handshake }

// knock is introduce, on other connections where the receiver closes one without a word.
func (s *sending) knock(request *wire.Request) (wire.Message, error) {
	limit := time.Now().Add(s.timeouts.Handshake)
	for backOff := firstBackOff; ; backOff = min(2*backOff, mostBackOff) {
		m, err := s.introduce(request)
		if !errors.As(err, new(*errLost)) || s.config.Redial == nil || !time.Now().Before(limit) {
			return m, err
		}
		select {
		case <-time.After(backOff):
		case <-s.ctx.Done():
			return nil, context.Cause(s.ctx)
		}
		conn, dialErr := s.config.Redial(s.ctx)
		if dialErr != nil {
			return nil, errors.Join(err, dialErr)
		}
		_ = s.conn.Close() // which is lost
		s.conn = wire.NewConn(conn, s.timeouts.Handshake)
	}
}

// greet introduces this end, waits for a seat, and connects.
func (s *sending) greet() (err error) {
	if s.credits, err = newBuffer(s.config.Engine, slotAlign, transferengine.RemoteWrite); err != nil {
		return err
	}
	request := new(wire.Request)
	if request.Engine, request.Credits, err = marshal(s.config.Engine, s.credits); err != nil {
		return err
	}
	m, err := s.knock(request)
	if err != nil {
		return err
	}
	s.start()
	welcome, err := s.standInLine(m)
	if err != nil {
		return err
	}
	address, err := s.accept(welcome)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.timeouts.Handshake)
	defer cancel()
	if s.peer, err = s.config.Engine.Connect(ctx, address); err != nil {
		return s.reason(err)
	}
	s.watch(s.peer)
	return nil
}

// standInLine waits until the receiver has a seat, given its first answer.
func (s *sending) standInLine(m wire.Message) (welcome *wire.Welcome, err error) {
	for {
		switch m := m.(type) {
		case *wire.Welcome:
			return m, nil
		case *wire.Wait:
			if s.config.Waiting != nil {
				s.config.Waiting(int(m.Place))
			}
		default:
			return nil, fmt.Errorf("it sent %q where \"welcome\" was due", wire.NameOf(m))
		}
		if m, err = s.receive(s.patienceForSeat()); err != nil {
			return nil, err
		}
	}
}

// accept checks what the receiver offers, and allocates what it takes to use it.
func (s *sending) accept(welcome *wire.Welcome) (address transferengine.Address, err error) {
	if address, s.window, err = unmarshal(welcome.Engine, welcome.Window); err != nil {
		return address, err
	}
	if welcome.SlotSize < slotAlign || welcome.SlotSize > acceptSlot || welcome.Slots > acceptSlots ||
		s.window.Length() != uint64(welcome.SlotSize)*uint64(welcome.Slots) {
		return address, fmt.Errorf("it offers %d slots of %d bytes in a window of %d; at most %d of %d to %d are possible",
			welcome.Slots, welcome.SlotSize, s.window.Length(), acceptSlots, slotAlign, acceptSlot)
	}
	s.slotSize, s.slots = int(welcome.SlotSize), int(welcome.Slots)
	s.stage, err = newBuffer(s.config.Engine, s.stageSlots()*s.slotSize, 0)
	return address, err
}

// admit is the receiver's part of the greeting.
func (s *session) admit(key []byte, deadline time.Time) (*wire.Request, error) {
	hello, err := await[*wire.Hello](s, deadline)
	if err != nil {
		return nil, err
	}
	keyed := len(key) > 0
	if err := s.conn.Send(&wire.Challenge{Nonce: wire.NewNonce(), Keyed: keyed}); err != nil {
		return nil, lost(err)
	}
	if keyed != hello.Keyed { // which the sender has read out of the challenge
		return nil, &errGone{errors.New("only one end has a key")}
	}
	if err := s.conn.Authenticate(key, false); err != nil {
		return nil, err
	}
	return await[*wire.Request](s, deadline)
}

// wait waits for a seat, and tells the sender its place.
func (s *session) wait(w *waiter, seats *seats) error {
	alive := time.NewTicker(min(signOfLife, s.timeouts.Handshake/3))
	defer alive.Stop()
	place := 0
	for {
		select { // a seat that is free needs no words
		case <-w.turn:
			return nil
		default:
		}
		select {
		case <-w.turn:
			return nil
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case m := <-s.messages:
			return fmt.Errorf("it sent %q before it had a seat", wire.NameOf(m))
		case place = <-w.place:
		case <-alive.C:
			seats.reclaim(w, time.Now(), s.timeouts.Handshake)
		}
		if place == 0 {
			continue
		}
		if err := s.conn.Send(&wire.Wait{Place: uint32(place)}); err != nil {
			return s.reason(err)
		}
	}
}

// welcome registers a window for the sender, tells it where that is, and waits until it has connected.
func (s *receiving) welcome(request *wire.Request) error {
	address, credits, err := unmarshal(request.Engine, request.Credits)
	if err != nil {
		return err
	}
	if check := s.receiver.Reachable; check != nil {
		if err := check(s.conn.RemoteAddr(), address); err != nil {
			return err
		}
	}
	s.credits = credits
	s.slotSize, s.slots = cut(s.receiver.window())
	// The pages are new: nothing of another sender is in them.
	if s.window, err = newBuffer(s.receiver.Engine, s.slots*s.slotSize, transferengine.RemoteWrite); err != nil {
		return err
	}
	welcome := &wire.Welcome{SlotSize: uint32(s.slotSize), Slots: uint32(s.slots)}
	if welcome.Engine, welcome.Window, err = marshal(s.receiver.Engine, s.window); err != nil {
		return err
	}
	peer, err := s.expect(address)
	if err != nil {
		return err
	}
	if err := s.conn.Send(welcome); err != nil {
		return s.reason(err)
	}
	select {
	case s.peer = <-peer:
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	if s.peer == nil {
		return fmt.Errorf("its engine did not connect within %v: a firewall must let the sender connect to the receiver's data port",
			s.timeouts.Handshake)
	}
	s.watch(s.peer)
	return nil
}

// expect begins to wait for the sender's engine, which connects once it has been welcomed. The channel has the peer, or nil when
// the time is over. That says nothing of why, also with rails that connect themselves: otherwise a sender could give other
// addresses, and learn which ports of theirs are open.
//
// A session that ends earlier leaves the wait to itself: a peer that comes then is given up.
func (s *receiving) expect(address transferengine.Address) (<-chan *transferengine.Peer, error) {
	r := s.receiver
	if err := r.claim(s.ctx, address.Incarnation()); err != nil {
		return nil, err
	}
	met := make(chan *transferengine.Peer)
	r.expecting.Go(func() {
		defer r.release(address.Incarnation())
		ctx, cancel := context.WithTimeout(s.serving, s.timeouts.Handshake)
		defer cancel()
		peer, err := r.Engine.Expect(ctx, address)
		if err != nil {
			<-ctx.Done()
		}
		select {
		case met <- peer:
			<-s.parted
		case <-s.ctx.Done():
			_ = giveUpPeer(peer)
		}
	})
	return met, nil
}

// giveUpPeer gives up a peer, if there is one. When it returns nil nothing of the peer lands here any more.
func giveUpPeer(peer *transferengine.Peer) error {
	if peer == nil {
		return nil
	}
	if err := peer.Close(); err != nil {
		return err
	}
	select {
	case <-peer.Done():
		return nil
	case <-time.After(shutdownTimeout):
		return fmt.Errorf("%v is not given up after %v", peer, shutdownTimeout)
	}
}

// claim gives one transfer the immediates of an engine: a second one at a time would take them away from it. A transfer of the
// engine that is at its end is waited for: a sender whose connection was lost comes again.
func (r *Receiver) claim(ctx context.Context, engine rail.Incarnation) error {
	patience := time.After(grace)
	for {
		before := r.tryClaim(engine)
		if before == nil {
			return nil
		}
		select {
		case <-before:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-patience:
			return errors.New("the engine sends already: open another one")
		}
	}
}

// tryClaim returns nil if the engine is the caller's, and otherwise what is closed when it is released.
func (r *Receiver) tryClaim(engine rail.Incarnation) (before <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, ok := r.claimed[engine]; ok {
		return before
	}
	if r.claimed == nil {
		r.claimed = make(map[rail.Incarnation]chan struct{})
	}
	r.claimed[engine] = make(chan struct{})
	return nil
}

func (r *Receiver) release(engine rail.Incarnation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.claimed[engine])
	delete(r.claimed, engine)
}
