package handshake

import "github.com/weftrdma/weft/transferengine/rail"

// Hello is the one message that makes a connection; both ends send the same. It says who sends, which of its connections
// this is, what the other end needs to use it (H), and which connection of the other end it belongs to.
type Hello[A Address, H any] struct {
	From        A
	To          uint64 // the key of the receiver's address; 0 where the wire has none
	Incarnation rail.Incarnation
	Nonce       uint64 // of the sender's half; not zero
	Attempt     uint64 // of the sender's half
	Holds       uint64 // the nonce of the receiver's half that the sender's is connected to, 0 while it is to none
	AckWanted   bool   // the sender does not know yet that the receiver holds its half
	Half        H
}

// Refusal answers a hello that leads to no connection. It is written so that every version reads it.
type Refusal[A Address] struct {
	From    A      // the zero A where the wire has keys
	To      uint64 // the key of the receiver's address; 0 where the wire has none
	Answers uint64 // the nonce of the hello
	Reason  Reason
	Text    string // for people
}

// Reason says why a hello was refused.
type Reason uint8

const (
	// Version: the hello needs a version that the refuser does not have.
	Version Reason = iota + 1
	// NoRoom: no queues are left for another peer.
	NoRoom
	// Stale: the hello holds a half that the refuser has given up, or never had.
	Stale
	// Closing: the refuser gave up this connection.
	Closing
	// Failed: the refuser could not make the connection.
	Failed
)

func (r Reason) String() string {
	names := [...]string{"", "version", "no room", "stale", "closing", "failed"}
	if int(r) < len(names) {
		return names[r]
	}
	return "unknown reason"
}
