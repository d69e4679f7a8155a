package fabricrail

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/transferengine/internal/liveness"
	"github.com/weftrdma/weft/transferengine/rail"
)

// conn is our half of a connection, with the account of what is posted on it.
type conn struct {
	id     rail.PeerID
	tag    tag
	secret secret
	state  connState
	peer   address
	remote *remote

	// Of the peer's half.
	theirs      tag
	theirSecret secret
	longest     int // bytes of a message that it takes

	flying  int // operations
	sent    int // operations, in the turn of that number
	turn    uint64
	owed    bool   // a grant
	granted uint64 // immediates that the peer lets us send, in the connection's life
	used    uint64
	window  uint64 // the most that can be granted and not used
	unsure  bool   // an operation may land yet
	posted  bool   // an operation was

	// Immediates and messages of the peer: how many it may have sent, of which it was told so many, and how many came.
	offered, told, taken        uint64
	messagesTold, messagesTaken uint64
	mayMessage, messaged        uint64 // messages that the peer lets us send, and those that were
	messageWindow               uint64
	signs                       liveness.Signs
	fenceTaken                  bool      // the peer's provider has our last fence
	fenceAnswer                 uint64    // the last of our fences that the peer has answered
	fenceAsked, fenceAnswered   uint64    // the last of the peer's, and the last of these that was answered
	doubted                     time.Time // when the peer seemed to be gone, while there was more of it to be taken
	cause                       error     // from when it is given up, as what follows
	report                      bool      // PeerLost and PeerDown are due
	wasUp                       bool      // what comes from the peer is reported until it is down
	lost                        bool      // PeerLost was reported
	silent                      bool      // the peer cannot be told, or will not answer
	deadline                    time.Time
	farewell                    bye  // what the peer is to be told
	byes, byesSent              int  // farewells that were posted, and those of which the buffer is free again
	replied                     bool // one of them answers the peer's
	asked, answered             bool // the peer's came that is to be answered, and one that answers ours
}

type connState uint8

const (
	connConnecting connState = iota // the handshake runs
	connUp
	connDraining // its operations are awaited
	connLeaving  // the farewell is on its way, and the peer's is awaited
)

// railEffects is what the handshake makes happen to a rail.
type railEffects struct{ *Rail }

// Open implements [handshake.Effects].
func (r railEffects) Open(id rail.PeerID, to address) (half, error) {
	if need := r.cfg.perPeer(); r.room < need {
		return half{}, fmt.Errorf("%s: no room for another peer: each takes %d of the completion queue's %d; raise "+
			"Config.CompletionDepth, or lower WriteDepth or Immediates: %w", r.name, need, r.cfg.CompletionDepth,
			fabric.ErrQueueFull)
	}
	c := &conn{id: id, peer: to, offered: uint64(r.cfg.Immediates), told: uint64(r.cfg.Immediates),
		messagesTold: messageWindow}
	rand.Read(c.secret[:])
	if err := r.transport.hold(c); err != nil {
		return half{}, err
	}
	if !r.seat(c) {
		return half{}, fmt.Errorf("%s: no room for another peer: a rail has %d: %w", r.name, maxSlots, fabric.ErrQueueFull)
	}
	if c.remote != nil {
		c.remote.users++
	}
	r.room -= r.cfg.perPeer()
	return half{tag: c.tag, secret: c.secret, immediates: uint32(r.cfg.Immediates), messages: messageWindow, message: uint32(r.caps.MaxSend), process: r.process}, nil
}

// seat gives a connection a slot and a tag. The generation is random, because a peer that is told its own tag must not know those of
// others, and differs from that of the slot's last connection, of which immediates may be late.
func (r *Rail) seat(c *conn) bool {
	slot := uint32(len(r.conns))
	if n := len(r.freeSlots); n > 0 {
		slot = r.freeSlots[n-1]
		r.freeSlots = r.freeSlots[:n-1]
	} else if slot == maxSlots {
		return false
	} else {
		r.conns, r.tags = append(r.conns, nil), append(r.tags, 0)
	}
	for c.tag == 0 || c.tag == r.tags[slot] {
		c.tag = tag(1+random()%(maxTagGenerations-1))*maxSlots + tag(slot)
	}
	r.conns[slot], r.tags[slot] = c, c.tag
	r.peers[c.id] = c
	return true
}

// tagged returns the connection whose half has the tag.
func (r *Rail) tagged(t tag) *conn {
	if int(t.slot()) < len(r.conns) {
		if c := r.conns[t.slot()]; c != nil && c.tag == t {
			return c
		}
	}
	return nil
}

// Connect implements [handshake.Effects].
func (r railEffects) Connect(id rail.PeerID, _ address, other half) error {
	c := r.peers[id]
	if err := r.transport.bind(c); err != nil {
		return err
	}
	c.theirs, c.theirSecret, c.longest = other.tag, other.secret, min(int(other.message), r.caps.MaxSend)
	c.granted, c.window = uint64(other.immediates), uint64(other.immediates)
	c.mayMessage, c.messageWindow = uint64(other.messages), uint64(other.messages)
	c.signs.Watch(other.process, r.process)
	return nil
}

// Send implements [handshake.Effects].
func (r railEffects) Send(to address, message []byte) (bool, error) {
	if to.provider != r.self.provider {
		return false, r.otherProvider(to)
	}
	endpoint, err := r.transport.meet(to)
	if err != nil {
		return false, err
	}
	if endpoint == nil {
		return r.transport.later(to, message), nil
	}
	defer r.part(endpoint)
	i, b, ok := r.mailbox.buffer(endpoint)
	if !ok {
		return false, nil
	}
	return r.mailbox.post(i, copy(b, message), endpoint, nil, 0)
}

// otherProvider is the error of two rails that cannot talk.
func (r *Rail) otherProvider(to address) error {
	return fmt.Errorf("this rail is %s, the peer's at %s is fabric:%s: both ends need the same provider", r.name, to.text, to.provider)
}

// Up implements [handshake.Effects].
func (r railEffects) Up(id rail.PeerID, _ address, incarnation rail.Incarnation) {
	c := r.peers[id]
	c.state, c.wasUp = connUp, true
	r.transport.calls(c.peer, false)
	if r.traits.source {
		r.bySource[c.remote.addr] = c
	}
	r.vigil.Meet(r.now, &c.signs)
	r.outbox.Emit(rail.Event{Kind: rail.PeerUp, Peer: id,
		Info: &rail.PeerInfo{Incarnation: incarnation, Address: c.peer.append(nil), Name: c.peer.text}})
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
	if c != nil {
		r.transport.calls(c.peer, false)
	}
	if c == nil { // it could not be given another half
		r.outbox.Emit(rail.Event{Kind: rail.PeerLost, Peer: id, Err: cause})
		r.outbox.Emit(rail.Event{Kind: rail.PeerDown, Peer: id, Err: cause})
		return
	}
	c.report = true
	r.giveUp(c, cause, 0)
}
