package verbsrail

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/transferengine/internal/liveness"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/verbs"
)

// conn is our half of a connection: two RC queue pairs, with the account of what is posted to them.
type conn struct {
	id    rail.PeerID
	slot  uint32
	tag   workID
	state connState
	peer  address

	messages, writes *verbs.QP

	// Operations from head up to tail are in flight, in the order in which they were posted. The length of tokens, a ring, is a power of
	// two, so that it divides the range of the positions: they wrap around without leaving their places.
	tokens     []uint64
	head, tail uint32
	unsignaled int    // posted since the last one that asks for a completion
	granted    uint64 // immediates that the peer lets us send, in the connection's life
	used       uint64
	window     uint64 // the most that can be granted and not used
	unsure     bool   // an operation failed: it may land yet

	// Immediates of the peer.
	offered  uint64 // receives posted in the connection's life
	told     uint64 // of these, how many the peer was told of
	taken    uint64
	receives int // that have not completed

	// Control messages: receives of messageSize bytes each, then sends.
	memory           *mem.Buffer
	mr               *verbs.MR
	msgHead, msgTail uint32 // sends in flight, as head and tail
	msgLimit         int    // bytes that the peer's receives take

	signs liveness.Signs

	// From when it is given up.
	cause    error
	wasUp    bool
	report   bool // PeerLost and PeerDown are due
	lost     bool // PeerLost was reported
	deadline time.Time
	farewell bye  // to be said once the queue pair for writes is destroyed; 0 is none
	parted   bool // the farewell has arrived
	ended    bool // the peer's farewell came: its queue pair for writes is destroyed
}

type connState uint8

const (
	connConnecting connState = iota // the handshake runs
	connUp
	connDraining // what was posted to the queue pair for writes completes
	connLeaving  // it is destroyed, and the farewell is on its way, and the peer's where one is awaited
	connGone     // nothing is left to wait for
	connStuck    // the device refused to destroy its queue pairs
)

// railEffects is what the handshake makes happen to a rail.
type railEffects struct{ *Rail }

// Open implements [handshake.Effects].
func (r railEffects) Open(id rail.PeerID, _ address) (half, error) {
	if need := r.cfg.perPeer(); r.room < need {
		return half{}, fmt.Errorf("%s: no room for another peer: each takes %d of the completion queue's %d; raise "+
			"Config.CompletionDepth, or lower WriteDepth or Immediates: %w", r.name, need, r.depth, verbs.ErrQueueFull)
	}
	c := &conn{id: id, tokens: make([]uint64, 1<<bits.Len(uint(r.cfg.WriteDepth-1)))}
	h, err := r.build(c)
	if err != nil {
		return half{}, errors.Join(fmt.Errorf("%s: make a connection: %w", r.name, err), c.destroy())
	}
	r.room -= r.cfg.perPeer()
	r.seat(c)
	if err := r.provide(c); err != nil {
		delete(r.peers, id)
		r.giveUp(c, err, 0)
		return half{}, fmt.Errorf("%s: make a connection: %w", r.name, err)
	}
	return h, nil
}

// build makes the queue pairs and the memory of a connection.
func (r *Rail) build(c *conn) (h half, err error) {
	if c.memory, err = mem.Map((messageRecvs + messageSends) * messageSize); err != nil {
		return h, err
	}
	if c.mr, err = r.pd.RegMR(c.memory.Bytes(), verbs.AccessLocalWrite); err != nil {
		return h, err
	}
	if c.messages, err = r.pd.CreateQP(verbs.QPConfig{
		Type: verbs.RC, SendCQ: r.cq, RecvCQ: r.cq, MaxSendWR: messageSends, MaxRecvWR: messageRecvs,
	}); err != nil {
		return h, err
	}
	if c.writes, err = r.pd.CreateQP(verbs.QPConfig{
		Type: verbs.RC, SendCQ: r.cq, RecvCQ: r.cq, MaxSendWR: r.cfg.WriteDepth, MaxRecvWR: r.cfg.Immediates,
	}); err != nil {
		return h, err
	}
	messages, err := c.messages.Init(r.gid, verbs.AccessLocalWrite) // the NIC refuses writes here, immediates included
	if err != nil {
		return h, err
	}
	access := verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead
	if r.caps.Atomics {
		access |= verbs.AccessRemoteAtomic
	}
	writes, err := c.writes.Init(r.gid, access)
	if err != nil {
		return h, err
	}
	return half{
		messages: queuePair{messages.QPN, messages.PSN}, writes: queuePair{writes.QPN, writes.PSN},
		mtu: uint32(writes.MTU), rdAtomic: writes.RdAtomic, immediates: uint32(r.cfg.Immediates), message: messageSize,
		process: r.process,
	}, nil
}

// seat gives a connection a slot, and its work requests their tag.
func (r *Rail) seat(c *conn) {
	if n := len(r.freeSlots); n > 0 {
		c.slot = r.freeSlots[n-1]
		r.freeSlots = r.freeSlots[:n-1]
	} else {
		c.slot = uint32(len(r.conns))
		r.conns = append(r.conns, nil)
	}
	r.generation++
	c.tag = tag(c.slot, r.generation)
	r.conns[c.slot] = c
	r.peers[c.id] = c
}

// provide posts the receives that the peer finds from the start.
func (r *Rail) provide(c *conn) error {
	for i := range uint16(messageRecvs) {
		if err := c.receive(i); err != nil {
			return err
		}
	}
	c.told = uint64(r.cfg.Immediates) // in the hello
	return r.offer(c, r.cfg.Immediates)
}

// offer posts receives for n more immediates.
func (r *Rail) offer(c *conn, n int) error {
	wrs := r.recvs[:n]
	for i := range wrs {
		wrs[i] = verbs.RecvWR{ID: c.tag.with(workImmediate, 0)}
	}
	if _, err := c.writes.PostRecv(wrs, nil); err != nil {
		return err
	}
	c.offered += uint64(n)
	c.receives += n
	return nil
}

// Connect implements [handshake.Effects].
func (r railEffects) Connect(id rail.PeerID, to address, other half) error {
	c := r.peers[id]
	c.peer = to
	c.granted, c.window = uint64(other.immediates), uint64(other.immediates)
	c.msgLimit = int(other.message)
	c.signs.Watch(other.process, r.process)
	end := verbs.Endpoint{GID: to.gid, LID: to.lid, MTU: verbs.MTU(other.mtu), RdAtomic: other.rdAtomic}
	end.QPN, end.PSN = other.messages.qpn, other.messages.psn
	if err := c.messages.Connect(end, r.cfg.Connection); err != nil {
		return fmt.Errorf("connect to %v: %w", to, err)
	}
	end.QPN, end.PSN = other.writes.qpn, other.writes.psn
	if err := c.writes.Connect(end, r.cfg.Connection); err != nil {
		return fmt.Errorf("connect to %v: %w", to, err)
	}
	return nil
}

// Send implements [handshake.Effects]. What there is no room for is lost, like what the network loses.
func (r railEffects) Send(to address, datagram []byte) (bool, error) {
	return true, r.datagrams.send(r.now, to, datagram)
}

// Up implements [handshake.Effects].
func (r railEffects) Up(id rail.PeerID, to address, incarnation rail.Incarnation) {
	c := r.peers[id]
	c.state = connUp
	r.vigil.Meet(r.now, &c.signs)
	r.outbox.Emit(rail.Event{Kind: rail.PeerUp, Peer: id,
		Info: &rail.PeerInfo{Incarnation: incarnation, Address: to.append(nil), Name: to.String()}})
}

// Abandon implements [handshake.Effects].
func (r railEffects) Abandon(id rail.PeerID) {
	c := r.peers[id]
	delete(r.peers, id) // it may get another
	r.giveUp(c, nil, 0)
}

// Down implements [handshake.Effects].
func (r railEffects) Down(id rail.PeerID, cause error) {
	c := r.peers[id]
	if c == nil { // it could not be given another half
		r.outbox.Emit(rail.Event{Kind: rail.PeerLost, Peer: id, Err: cause})
		r.outbox.Emit(rail.Event{Kind: rail.PeerDown, Peer: id, Err: cause})
		return
	}
	c.report = true
	r.giveUp(c, cause, 0)
}
