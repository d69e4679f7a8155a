// Package rail is the seam between the transfer engine and one NIC: what a NIC must do for the engine, and nothing else.
// Package railtest, beside it, tries every sentence of it on a rail.
//
// # Ownership
//
// A [Rail] is owned by one worker. Connect, Disconnect, Post, Send, Turn, Arm, Close and a [Spinner]'s Spin are called by one
// goroutine at a time, though not always the same one; they never block, never take the time of day and start no goroutine.
// Register, Name, Caps and Address, and the methods of a [Registration], may be called from any goroutine at any time
// before Close. So may Wait, by one goroutine at a time; it has returned when Close is called.
//
// The slices that Post, Send and Turn are given are the caller's again when the call returns.
//
// # Order
//
// None is promised between any two operations or messages, of one peer or of several. What is promised: the immediate of a
// write arrives after all bytes of that same write are in place, and a write that asks for an immediate makes exactly one,
// however many bytes it has; and a message arrives after the immediates of all writes whose Completed, without an error, was
// reported before the message was sent.
//
// # Accounting
//
// Every operation that Post accepted comes back in exactly one [Completed] event with its token, whatever happens to the
// peer or the rail, unless the rail is closed before. Until then its local memory belongs to the NIC: that of a write must not
// change, that of a read must not be used, and neither may be deregistered. Once it has come back, with an error or without, this
// end touches that memory no more. One that comes back with an error may have ended its connection, of which the others then come
// back with errors too.
//
// # The end of a peer
//
// A peer that came up, or that Connect or Expect was called for, ends in two events. [PeerLost] says that it is over, and why, within
// Caps.DeathWithin of a death; nothing can be posted from then on. What can be taken back at once, or has arrived, is reported
// before it. [PeerDown] follows, in the same turn if nothing is left, when every operation has come back and every immediate that the
// NIC had accepted was reported. An operation that the transport cannot take back keeps PeerDown waiting for as long as the peer
// keeps it, unless the rail is closed: see Caps.Recalls. After PeerDown nothing that the peer sends lands here, as far as
// Caps.Fences says.
//
// # Back-pressure
//
// A NIC's queues and the room at a peer are finite. What Post and Send do not take they leave to the caller, who tries
// again after a later Turn. A peer that takes no turns, for however long, costs its senders their progress and nothing
// else: nothing is lost, and no connection ends for it while its process answers for its life.
package rail

import (
	"context"
	"sync/atomic"
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

	// Connect starts connecting to the rail at address, its own among them, until the deadline. Either PeerUp or PeerLost
	// follows for the returned peer. Connecting to a peer that is connected or connecting already, from whichever side,
	// returns that peer, and the later deadline counts; its PeerUp is not repeated. After a PeerLost it makes a new connection,
	// to whatever engine has the address then.
	Connect(now time.Time, address []byte, deadline time.Time) (PeerID, error)

	// Expect is Connect for a peer that will call: nothing is sent to its address before it does, or Connect is called. It is for
	// firewalls that let connections through in one direction, and for addresses that are not trusted enough to be called.
	Expect(now time.Time, address []byte, deadline time.Time) (PeerID, error)

	// Disconnect gives up a peer: the peer is told where it can be, operations in flight complete with an error unless
	// they already had completed, and PeerLost with net.ErrClosed follows. A peer that is lost or not there is passed over.
	Disconnect(now time.Time, peer PeerID)

	// Post hands operations to the NIC in one batch and returns how many of them, from the first on, it accepted. Fewer
	// than all with a nil error is back-pressure: post the rest after a later Turn, whether or not that one returned
	// events. An error concerns ops[n], which can never be posted as it is; or it is [ErrNotUp], and the operations are the
	// caller's until the peer's PeerLost says why.
	Post(peer PeerID, ops []Op) (n int, err error)

	// Send copies a message of at most Caps.MaxSend bytes to the peer, for engines to settle things among themselves. It
	// arrives whole and once in a Message event, unless the peer comes down. False without an error is back-pressure. The
	// errors are those of Post.
	Send(peer PeerID, message []byte) (sent bool, err error)

	// Turn makes progress: polls completions, answers peers, runs timers that are due at now. It fills events from the
	// start and returns how many; if it filled all, there may be more. next is when it must be called again even if
	// nothing happens, the zero time if never. Times do not go backwards.
	Turn(now time.Time, events []Event) (n int, next time.Time)

	// Arm asks for a notification when there is something to do: an event, or room for what Post or Send did not take. It
	// returns true if there is something already, in which case no notification may come: call Turn again. It does not
	// cover what is posted or sent after it.
	Arm() (ready bool)

	// Wait blocks until a notification that Arm asked for has come, or the context ends. It may be left from an Arm before
	// the last, and a Turn then find nothing. Any other error means that it will never notify again.
	Wait(ctx context.Context) error

	// Close ends everything that is in flight and frees what the rail has: when it returns, the rail uses no memory of this
	// process any more. Peers that are not down are cut off without their events. Registrations that are open stay to be closed, after
	// it too.
	Close() error
}

// Spinner is a [Rail] that can look for something to do at less cost than by a Turn. An engine that waits for something to
// happen then does so between two turns.
type Spinner interface {
	// Spin looks for what Arm would return true for until it is there, and tells whether it is: call Turn then. It looks at
	// least once, and goes on at most for about so long, and while call has the value was: whoever changes that has
	// something else for the caller to do. Who may call it is as with Turn.
	Spin(limit time.Duration, call *atomic.Uint64, was uint64) (ready bool)
}

// Caps says what a rail can do.
type Caps struct {
	// MaxLength is the largest operation in bytes.
	MaxLength uint64
	// MaxBatch is the most operations that one Post can accept.
	MaxBatch int
	// MaxImmediates is how many immediates of one peer this rail takes in while no turn is taken; the peer's Post holds
	// back the rest. 0 is no limit.
	MaxImmediates int
	// MaxSend is the longest message of Send in bytes, at least [MinSend].
	MaxSend int
	// Completion is what a Completed event of a write without error means. That of a read means in any case that the
	// bytes are in local memory.
	Completion Completion
	// ImmSource tells whether an Immediate event names the peer that sent it.
	ImmSource bool
	// Ordered: more than the package promises about order, an immediate arrives after the bytes of every write to the same
	// peer that Post accepted before it (one RC queue pair per peer). It saves a round trip per write beyond MaxLength.
	Ordered bool
	// Read and Atomics tell whether Post takes operations of these kinds.
	Read, Atomics bool
	// DeathBy says how the death of a peer's process or machine is noticed while nothing is posted to it, and DeathWithin
	// in what time PeerLost tells of it, however busy other peers keep the rail.
	DeathBy     Detection
	DeathWithin time.Duration
	// CancelProof: the PeerDown after a Disconnect is Proven if the peer is alive and takes turns.
	CancelProof bool
	// Recalls: operations of a lost peer are taken back within DeathWithin, whatever the peer does. Otherwise they come back when
	// the peer or the provider lets go of them, and until then their memory cannot be had back but by Close.
	Recalls bool
	// Fences: nothing that a peer sent lands here after its PeerDown. Otherwise a peer that has the key of a registration may
	// still write to it, until that is closed.
	Fences bool
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

// Detection is a set of ways in which a death is noticed.
type Detection uint8

const (
	// ByHeartbeat: engines exchange signs of life.
	ByHeartbeat Detection = 1 << iota
	// ByProcess: the kernel tells of a process on the same host.
	ByProcess
	// ByTransport: the connection itself has a sign of life, or an end that is seen (a TCP connection).
	ByTransport
)

// Access is what peers may do with registered memory.
type Access uint8

// LocalOnly lets peers do nothing. The memory still serves as the source of this side's writes and the destination of its reads.
const LocalOnly Access = 0

// The rights of peers, which may be combined: RemoteWrite|RemoteRead.
const (
	// RemoteWrite lets peers write.
	RemoteWrite Access = 1 << iota
	// RemoteRead lets peers read.
	RemoteRead
	// RemoteAtomic lets peers do atomic operations.
	RemoteAtomic
)

// Registration is memory known to one NIC.
type Registration interface {
	// LocalKey goes into Op.LocalKey of this rail.
	LocalKey() uint64
	// RemoteKey goes, by way of a descriptor, into Op.RemoteKey of a peer's rail.
	RemoteKey() uint64
	// RemoteAddr is the address by which peers name the first byte, that of byte i being RemoteAddr+i. It need not be the one that
	// the memory has in this process: some NICs count from 0. It goes the same way into Op.RemoteAddr.
	RemoteAddr() uint64
	// Close makes the memory unknown to the NIC: operations of peers that come later are refused. No operation of this
	// rail that uses it may be in flight. When it returns, nobody uses the memory any more, unless it is a [Lingerer].
	Close() error
}

// Lingerer is a [Registration] in which peers may go on, after Close, with operations that they had begun before.
type Lingerer interface {
	// InUse tells of a registration that was closed whether peers may still be at it: what they write may land in the memory, and what
	// they read be what is there by now. It becomes false as turns are taken, within a bound of the rail's whatever peers do, though one that
	// does not answer may be lost by that; and at the latest when the rail is closed. It may be called by any goroutine.
	InUse() bool
}

// PeerID names a peer of one rail. Values are not used again in a rail's life.
type PeerID uint64

const (
	// MaxAddress is the largest rail address in bytes.
	MaxAddress = 256
	// MinSend is how long a message every rail can send, in bytes.
	MinSend = 256
)

// PeerInfo describes a peer.
type PeerInfo struct {
	Incarnation Incarnation
	Address     []byte // of the peer's rail
	Name        string // for people: "10.9.0.2 qpn 18"
}

// OpKind says what an Op does.
type OpKind uint8

const (
	// Write copies local memory to the peer's, with or without an immediate.
	Write OpKind = iota
	// Read copies the peer's memory to local memory.
	Read
	// FetchAdd adds Operand to a word of the peer's memory, and CompareSwap sets it to Operand if it equals Compare. The
	// word has 8 bytes in the peer's byte order at an address that is a multiple of 8, and Length is 8; what it was before
	// goes to local memory. They are atomic among the operations of rails of one NIC.
	FetchAdd
	CompareSwap
)

// Op is one operation on a peer's memory, of Length bytes. One of no bytes needs neither local memory nor key; its remote
// address and key must be valid all the same.
type Op struct {
	Kind       OpKind
	HasImm     bool   // only of writes
	Imm        uint32 // host order
	Token      uint64 // comes back in the Completed event
	LocalAddr  uint64
	LocalKey   uint64
	RemoteAddr uint64
	RemoteKey  uint64
	Length     uint64 // at most Caps.MaxLength
	Operand    uint64 // of atomic operations, as Compare
	Compare    uint64
}

// EventKind says what an Event tells.
type EventKind uint8

const (
	// Completed: the operation Token of Peer is done, and this end touches its local memory no more. Err nil means what
	// Caps.Completion says. With an error nothing is promised of its bytes at the other end, nor of its immediate.
	Completed EventKind = iota + 1
	// Immediate: a write with Imm from Peer is in place.
	Immediate
	// Message: Peer sent the bytes Data, which are the receiver's to keep.
	Message
	// PeerUp: Peer, which Info describes, is connected and may be posted to, whichever side asked for it.
	PeerUp
	// PeerLost: Peer died, could not be reached, or was given up here or there; Err says why. Nothing can be posted to it any more.
	PeerLost
	// PeerDown: Peer was lost, and its operations have come back. Nothing of it follows.
	PeerDown
)

// Event is what Turn reports.
type Event struct {
	Kind EventKind
	// Proven, of a PeerDown: no operation of this rail lands at the peer any more, since every one that was posted completed
	// without an error, or the peer said that it had destroyed its end. Otherwise packets may still be on the wire.
	Proven bool
	Imm    uint32
	Peer   PeerID
	Token  uint64
	Err    error
	Info   *PeerInfo // the receiver's to keep
	Data   []byte
}
