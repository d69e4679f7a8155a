package transferengine

import (
	"errors"
	"fmt"
	"net"
)

// ErrQueueFull is the error of a request that found the engine's queue full: wait for a transfer in flight, then repeat
// it. Config.QueueDepth and Config.MaxTransfers set the limit.
var ErrQueueFull = errors.New("queue is full")

// Outcome says what is known of the bytes of a transfer that failed.
type Outcome uint8

const (
	// NotDelivered: nothing of it was sent. It may be repeated.
	NotDelivered Outcome = iota + 1
	// MaybeDelivered: some, all or none of the bytes and immediates arrived, or may still.
	MaybeDelivered
)

// String returns the outcome in words: "not delivered".
func (o Outcome) String() string {
	switch o {
	case NotDelivered:
		return "not delivered"
	case MaybeDelivered:
		return "maybe delivered"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// TransferError is the error of a transfer. It always names the peer, the NIC and what happened.
type TransferError struct {
	// Peer is the target.
	Peer *Peer
	// Rail is the NIC that carried the transfer: "verbs:rxe0".
	Rail string
	// Outcome says what is known of the bytes.
	Outcome Outcome
	// InFlight is set when only a Wait ended and not the transfer: its memory still belongs to the NIC. Otherwise the
	// memory may be used again.
	InFlight bool
	// Cause is what happened: one of package rail's errors, net.ErrClosed, or the error of a context.
	Cause error
}

// Error names the peer, the NIC, the outcome and the cause.
func (e *TransferError) Error() string {
	state := e.Outcome.String()
	if e.InFlight {
		state = "still in flight"
	}
	return fmt.Sprintf("write to %v over %s: %s: %v", e.Peer, e.Rail, state, e.Cause)
}

// Unwrap returns the cause.
func (e *TransferError) Unwrap() error { return e.Cause }

// closedError is a use of an engine that is closed or shut down. It has its own text because net.ErrClosed speaks of a
// network connection.
type closedError struct{}

func (closedError) Error() string { return "engine is closed" }

func (closedError) Unwrap() error { return net.ErrClosed }
