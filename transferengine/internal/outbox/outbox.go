// Package outbox keeps what a rail has to report: the events of a turn, those that did not fit, and what Peer says of the
// peers that are up.
package outbox

import (
	"sync"

	"github.com/weftrdma/weft/transferengine/rail"
)

// Outbox is one rail's. All but Peer is for whoever owns the rail.
type Outbox struct {
	events []rail.Event // of the turn that runs
	filled int
	held   []rail.Event // what did not fit, from heldAt on
	heldAt int

	mu    sync.Mutex
	infos map[rail.PeerID]rail.PeerInfo // of the peers that are up
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

// End ends a turn and returns how many events it reports. Of the peers whose end is among them Peer says nothing any more.
func (o *Outbox) End() (n int) {
	n = o.filled
	for i := range o.events[:n] {
		if o.events[i].Kind == rail.PeerDown {
			o.mu.Lock()
			delete(o.infos, o.events[i].Peer)
			o.mu.Unlock()
		}
	}
	o.events, o.filled = nil, 0
	return n
}

// Up reports a peer that is connected.
func (o *Outbox) Up(id rail.PeerID, info rail.PeerInfo) {
	o.mu.Lock()
	if o.infos == nil {
		o.infos = make(map[rail.PeerID]rail.PeerInfo)
	}
	o.infos[id] = info
	o.mu.Unlock()
	o.Emit(rail.Event{Kind: rail.PeerUp, Peer: id})
}

// Peer describes a peer that is up, until the turn that reports its end is over. It may be called at any time.
func (o *Outbox) Peer(id rail.PeerID) rail.PeerInfo {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.infos[id]
}
