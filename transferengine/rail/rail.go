// Package rail is the seam between the transfer engine and one NIC: what a NIC must do for the engine, and nothing else.
//
// # Ownership
//
// A [Rail] is owned by one worker. Connect, Disconnect, Post, Turn, Arm and Close are called by one goroutine at a time,
// though not always the same one; they never block, never take the time of day and start no goroutine. Register, Name,
// Caps, Address, Peer and Wait may be called from any goroutine at any time before Close.
//
// # Order
//
// None is promised between any two writes, of one peer or of several, nor between writes and immediates of other writes.
// What is promised: the immediate of a write arrives after all bytes of that same write are in place.
//
// # Accounting
//
// Every write that Post accepted comes back in exactly one [Completed] event with its token, whatever happens to the peer
// or the rail. Until then its local memory belongs to the NIC and must neither change nor be deregistered. A peer that
// came up comes down in exactly one [PeerDown] event, after the last Completed of its writes.
package rail

import (
	"context"
	"time"
)

// Opener makes a rail when an engine is opened. Each rail package's Config is one.
type Opener interface {
	// Open opens the NIC for an engine. The incarnation identifies that engine to its peers.
	Open(Incarnation) (Rail, error)
}

// Incarnation identifies one engine in one life of its process: 16 random bytes. A restarted process is another one.
type Incarnation [16]byte

// Rail is one NIC. See the package comment for who may call what, and when.
type Rail interface {
	// Name says the binding and the device, as a user would write it: "verbs:rxe0".
	Name() string

	// Caps says what the rail can do. It does not change.
	Caps() Caps

	// Address is what a peer's rail of the same kind needs to Connect: opaque bytes, at most [MaxAddress].
	Address() []byte

	// Register lets the NIC use mem, which must stay in place until the registration is closed. Local use is always
	// allowed; access says what peers may do.
	Register(mem []byte, access Access) (Registration, error)

	// Connect starts connecting to the rail at address, for which the caller names a limit. Either PeerUp or PeerDown
	// follows for the returned peer. Connecting to a peer that is connected or connecting already, from whichever side,
	// returns that peer; its PeerUp is not repeated.
	Connect(now time.Time, address []byte, deadline time.Time) (PeerID, error)

	// Disconnect gives up a peer: the peer is told where it can be, writes in flight complete with an error unless they
	// already had completed, and PeerDown with net.ErrClosed follows.
	Disconnect(now time.Time, peer PeerID)

	// Peer describes a peer that is up. After its PeerDown event was returned by Turn the result is the zero PeerInfo.
	Peer(peer PeerID) PeerInfo

	// Post hands writes to the NIC in one batch and returns how many of them, from the first on, it accepted. Fewer than
	// all with a nil error is back-pressure (queue full, or no immediate credit at this peer): post the rest after a later
	// Turn, whether or not that one returned events. An error concerns writes[n], which can never be posted as it is, or the peer, which is not up.
	Post(peer PeerID, writes []Write) (n int, err error)

	// Turn makes progress: polls completions, answers peers, runs timers that are due at now. It fills events from the
	// start and returns how many; if it filled all, there may be more. next is when it must be called again even if
	// nothing happens, the zero time if never.
	Turn(now time.Time, events []Event) (n int, next time.Time)

	// Arm asks for a notification at the next completion. It returns true if there is something to do already, in which
	// case no notification may come: call Turn again.
	Arm() (ready bool)

	// Wait blocks until a notification that Arm asked for has come, or the context ends.
	Wait(ctx context.Context) error

	// Close frees everything. All peers must be down, or they are cut off without their events; registrations still open
	// make it fail with EBUSY and change nothing.
	Close() error
}

// Caps says what a rail can do.
type Caps struct {
	// MaxMessage is the largest write in bytes.
	MaxMessage uint64
	// MaxBatch is the most writes that one Post can accept.
	MaxBatch int
	// Completion is what a Completed event without error means.
	Completion Completion
	// ImmSource tells whether an Immediate event names the peer that sent it.
	ImmSource bool
	// Ordered: more than the package promises about order, an immediate arrives after the bytes of every write to the same
	// peer that Post accepted before it (one RC queue pair per peer). It saves a round trip per write beyond MaxMessage.
	Ordered bool
}

// Completion is the meaning of a write's successful completion.
type Completion uint8

const (
	// Responsible: the target's NIC has taken responsibility for the bytes (an RC acknowledgement). That the target's CPU
	// sees them is promised only to whoever takes the immediate, or a later one from the same peer.
	Responsible Completion = iota + 1
	// Delivered: the bytes are in the target's memory (FI_DELIVERY_COMPLETE).
	Delivered
)

// Access is what peers may do with registered memory.
type Access uint8

const (
	// RemoteWrite lets peers write.
	RemoteWrite Access = 1 << iota
	// RemoteRead lets peers read.
	RemoteRead
)

// Registration is memory known to one NIC.
type Registration interface {
	// LocalKey goes into Write.LocalKey of this rail.
	LocalKey() uint64
	// RemoteKey goes, by way of a descriptor, into Write.RemoteKey of a peer's rail.
	RemoteKey() uint64
	// Close makes the memory unknown to the NIC. No write that uses it may be in flight.
	Close() error
}

// PeerID names a peer of one rail. Values are not used again in a rail's life.
type PeerID uint64

// MaxAddress is the largest rail address in bytes.
const MaxAddress = 256

// PeerInfo describes a peer.
type PeerInfo struct {
	Incarnation Incarnation
	Address     []byte // of the peer's rail
	Name        string // for people: "10.9.0.2 qpn 18"
}

// Write is one write to a peer: Length bytes from local to remote memory, with or without an immediate. A write of no
// bytes needs neither local memory nor key; its remote address and key must be valid all the same.
type Write struct {
	Token      uint64 // comes back in the Completed event
	LocalAddr  uint64
	LocalKey   uint64
	RemoteAddr uint64
	RemoteKey  uint64
	Length     uint64 // at most Caps.MaxMessage
	Imm        uint32 // host order
	HasImm     bool
}

// EventKind says what an Event tells.
type EventKind uint8

const (
	// Completed: the write Token of Peer is done; Err nil means what Caps.Completion says. With an error nothing is
	// promised of its bytes.
	Completed EventKind = iota + 1
	// Immediate: a write with Imm from Peer is in place.
	Immediate
	// PeerUp: Peer is connected and may be posted to, whichever side asked for it.
	PeerUp
	// PeerDown: Peer is lost, could not be reached, or was given up; Err says why. Nothing of it follows.
	PeerDown
)

// Event is what Turn reports.
type Event struct {
	Kind  EventKind
	Imm   uint32
	Peer  PeerID
	Token uint64
	Err   error
}
