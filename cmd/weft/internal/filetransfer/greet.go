package filetransfer

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
	"github.com/weftrdma/weft/transferengine"
)

// greet exchanges addresses and connects.
func (s *sending) greet() (err error) {
	if s.credits, err = newBuffer(s.config.Engine, slotAlign, transferengine.RemoteWrite); err != nil {
		return err
	}
	hello := new(wire.Hello)
	if hello.Engine, hello.Credits, err = marshal(s.config.Engine, s.credits); err != nil {
		return err
	}
	if err := s.conn.Send(hello); err != nil {
		return s.reason(err)
	}
	welcome, err := expect[*wire.Welcome](s.session, s.timeouts.Handshake)
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

// accept checks what the receiver offers, and allocates what it takes to use it.
func (s *sending) accept(welcome *wire.Welcome) (address transferengine.Address, err error) {
	if address, s.window, err = unmarshal(welcome.Engine, welcome.Window); err != nil {
		return address, err
	}
	if welcome.SlotSize > acceptSlot || welcome.Slots > acceptSlots ||
		s.window.Length() != uint64(welcome.SlotSize)*uint64(welcome.Slots) {
		return address, fmt.Errorf("it offers %d slots of %d bytes in a window of %d; at most %d of at most %d are possible",
			welcome.Slots, welcome.SlotSize, s.window.Length(), acceptSlots, acceptSlot)
	}
	s.slotSize, s.slots = int(welcome.SlotSize), int(welcome.Slots)
	s.allowed = uint64(s.slots)
	s.transfers = make([]transferengine.Transfer, min(s.slots, max(stageBytes/s.slotSize, 1)))
	s.stage, err = newBuffer(s.config.Engine, len(s.transfers)*s.slotSize, 0)
	return address, err
}

// noSender is the error of a connection that never became a transfer.
type noSender struct{ error }

func (e *noSender) Unwrap() error { return e.error }

// welcome exchanges addresses and connects.
func (s *receiving) welcome() error {
	hello, err := expect[*wire.Hello](s.session, s.timeouts.Handshake)
	if err != nil {
		return err
	}
	var address transferengine.Address
	if address, s.credits, err = unmarshal(hello.Engine, hello.Credits); err != nil {
		return err
	}
	size := s.receiver.window()
	s.slotSize, s.slots = cut(size)
	s.transfers = make([]transferengine.Transfer, s.slots)
	if s.window, err = newBuffer(s.receiver.Engine, s.slots*s.slotSize, transferengine.RemoteWrite); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.timeouts.Handshake)
	defer cancel()
	peer, err := s.receiver.Engine.Connect(ctx, address)
	if err != nil {
		return s.reason(err)
	}
	if err := s.receiver.claim(peer); err != nil {
		return err
	}
	s.peer = peer
	s.watch(peer)
	welcome := &wire.Welcome{SlotSize: uint32(s.slotSize), Slots: uint32(s.slots)}
	if welcome.Engine, welcome.Window, err = marshal(s.receiver.Engine, s.window); err != nil {
		return err
	}
	return s.conn.Send(welcome)
}

// claim gives one transfer the immediates of a peer: a second one at a time would take them away from it, and what the
// first one left behind would be counted for the second.
func (r *Receiver) claim(peer *transferengine.Peer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.serving {
		if p.Err() != nil { // it cannot come back
			delete(r.serving, p)
		}
	}
	if _, ok := r.serving[peer]; ok {
		return errors.New("the engine sends already, or has sent: open another one")
	}
	if r.serving == nil {
		r.serving = make(map[*transferengine.Peer]struct{})
	}
	r.serving[peer] = struct{}{}
	return nil
}
