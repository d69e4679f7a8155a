// Package outbox keeps what a rail has to report: the events of a turn, and those that did not fit.
package outbox

import "github.com/weftrdma/weft/transferengine/rail"

// Outbox is one rail's.
type Outbox struct {
	events []rail.Event // of the turn that runs
	filled int
	held   []rail.Event // what did not fit, from heldAt on
	heldAt int
}

// Begin starts a turn with the events that the last one had no room for.
func (o *Outbox) Begin(events []rail.Event) {
	o.events, o.filled = events, 0
	if !o.Holding() {
		return
	}
	o.filled = copy(events, o.held[o.heldAt:])
	if o.heldAt += o.filled; o.heldAt == len(o.held) {
		o.held, o.heldAt = o.held[:0], 0
	}
}

// Emit reports an event, in this turn or the next.
func (o *Outbox) Emit(e rail.Event) {
	if o.filled < len(o.events) {
		o.events[o.filled] = e
		o.filled++
		return
	}
	o.held = append(o.held, e)
}

// Full tells whether this turn has no room for another event.
func (o *Outbox) Full() bool { return o.filled == len(o.events) }

// Holding tells whether there are events that only the next turn reports.
func (o *Outbox) Holding() bool { return o.heldAt < len(o.held) }

// End ends a turn and returns how many events it reports.
func (o *Outbox) End() (n int) {
	n = o.filled
	o.events, o.filled = nil, 0
	return n
}
