package transferengine

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// ErrQueueFull is the error of a request that found the engine's queue full, or too many requests to its peer in flight:
// wait for a transfer in flight, then repeat it. Config.QueueDepth and MaxTransfers set the limits.
var ErrQueueFull = errors.New("queue is full")

// What requests ask for.
const (
	opWrite   = "write"
	opPages   = "write of pages"
	opRead    = "read"
	opScatter = "scatter"
)

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
	// Op is what was asked for: "write", "write of pages", "read" or "scatter".
	Op string
	// Peer is the one that it failed with; nil when a Wait for a scatter ended, and not the scatter.
	Peer *Peer
	// Rail is the NIC that carried the transfer: "verbs:rxe0".
	Rail string
	// Outcome says what is known of the bytes.
	Outcome Outcome
	// InFlight is set while the memory still belongs to the NIC: when only a Wait ended and not the transfer, or when the peer was lost
	// and the NIC has not given back its operations. In the second case it is free once Region.Close succeeds, or Peer.Down is closed.
	// Otherwise the memory may be used again.
	InFlight bool
	// Cause is what happened: one of package rail's errors, net.ErrClosed, os.ErrDeadlineExceeded for its own deadline, or
	// the error of a context.
	Cause error
}

// Error names the peer, the NIC, the outcome and the cause.
func (e *TransferError) Error() string {
	state := e.Outcome.String()
	if e.InFlight {
		state = "still in flight"
	}
	with := ""
	if e.Peer != nil {
		with = fmt.Sprintf(" to %v", e.Peer)
		if e.Op == opRead {
			with = fmt.Sprintf(" from %v", e.Peer)
		}
	}
	return fmt.Sprintf("%s%s over %s: %s: %v", e.Op, with, e.Rail, state, e.Cause)
}

// Unwrap returns the cause.
func (e *TransferError) Unwrap() error { return e.Cause }

// ScatterError is the error of a scatter of which some targets failed.
type ScatterError struct {
	// Failed are these targets, in the order in which they ended.
	Failed []TargetError
}

// TargetError is the error of one target.
type TargetError struct {
	Target int // its index in Scatter.Targets
	Err    *TransferError
}

// Error has a line for each target.
func (e *ScatterError) Error() string {
	lines := make([]string, len(e.Failed))
	for i, f := range e.Failed {
		lines[i] = fmt.Sprintf("target %d: %v", f.Target, f.Err)
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors of the targets.
func (e *ScatterError) Unwrap() []error {
	errs := make([]error, len(e.Failed))
	for i, f := range e.Failed {
		errs[i] = f.Err
	}
	return errs
}

// deadlineError is a request that missed its deadline. It has its own text because os.ErrDeadlineExceeded speaks of files.
type deadlineError struct {
	timeout time.Duration
	waited  string // for what
}

func (e *deadlineError) Error() string {
	return fmt.Sprintf("not done within %v (Timeout, or Config.TransferTimeout): %s", e.timeout, e.waited)
}

func (e *deadlineError) Unwrap() error { return os.ErrDeadlineExceeded }

// closedError is a use of an engine that is closed or shut down. It has its own text because net.ErrClosed speaks of a
// network connection.
type closedError struct{}

func (closedError) Error() string { return "engine is closed" }

func (closedError) Unwrap() error { return net.ErrClosed }
