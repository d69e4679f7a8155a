package transferengine

import "sync/atomic"

// Stats are counts since an engine was opened. They are taken one after the other, while the engine runs.
type Stats struct {
	Requests          uint64 // accepted by Write, WritePages, Read and Scatter
	Operations        uint64 // writes and reads handed to the NIC
	Bytes             uint64 // of these operations
	ImmediatesSent    uint64 // with these operations
	Completions       uint64 // of these operations, with or without error
	Errors            uint64 // of these completions, or posts that the NIC refused
	Immediates        uint64 // that arrived
	ImmediatesDropped uint64 // that arrived and count nowhere: of peers given up, or long lost; see Config.MaxImmediates
	Stray             uint64 // events that fit nothing: a rail that breaks its contract
	PeersUp           uint64 // peers that came up
	PeersDown         uint64 // of these, peers that were lost or given up
	Turns             uint64 // turns of the worker
	QueueFull         uint64 // requests that were refused with ErrQueueFull
	BackPressure      uint64 // posts of which the NIC took only a part, or for which there was no credit
	DeadlinesMissed   uint64 // by requests
}

// counts are Stats in the making.
type counts struct {
	requests, operations, bytes, immediatesSent, completions, errors, immediates, immediatesDropped, stray, peersUp,
	peersDown, turns, queueFull, backPressure, deadlinesMissed atomic.Uint64
}

func (c *counts) snapshot() Stats {
	return Stats{
		Requests:          c.requests.Load(),
		Operations:        c.operations.Load(),
		Bytes:             c.bytes.Load(),
		ImmediatesSent:    c.immediatesSent.Load(),
		Completions:       c.completions.Load(),
		Errors:            c.errors.Load(),
		Immediates:        c.immediates.Load(),
		ImmediatesDropped: c.immediatesDropped.Load(),
		Stray:             c.stray.Load(),
		PeersUp:           c.peersUp.Load(),
		PeersDown:         c.peersDown.Load(),
		Turns:             c.turns.Load(),
		QueueFull:         c.queueFull.Load(),
		BackPressure:      c.backPressure.Load(),
		DeadlinesMissed:   c.deadlinesMissed.Load(),
	}
}
