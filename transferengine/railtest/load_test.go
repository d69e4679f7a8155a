package railtest

import (
	"time"

	"github.com/weftrdma/weft/transferengine/rail"
)

// loadPlants are of peers whose end comes while much else is to be reported.
func loadPlants() []plant {
	return []plant{
		{clause: "what is acknowledged arrives before a peer is down", bug: "what a peer sent that is given up is not looked at",
			says: "immediates that the peer was told are in place",
			leave: func(r *buggy, now time.Time, peer rail.PeerID) {
				r.count = 1
				r.Rail.Disconnect(now, peer)
			},
			event: func(r *buggy, e rail.Event) []rail.Event {
				if r.count == 1 && e.Kind == rail.Immediate {
					return nil
				}
				return []rail.Event{e}
			}},
		{clause: "a peer is killed while another one sends", bug: "nobody is told before all is quiet", says: "told too late under load",
			turn: whenQuiet},
	}
}

// whenQuiet reports the end of a peer in a turn that has room for more.
func whenQuiet(r *buggy, now time.Time, events []rail.Event) (n int, next time.Time) {
	own := make([]rail.Event, len(events))
	did, next := r.Rail.Turn(now, own)
	for _, e := range own[:did] {
		if e.Kind == rail.PeerLost || e.Kind == rail.PeerDown {
			r.extra = append(r.extra, e)
			continue
		}
		events[n] = e
		n++
	}
	if did < len(own) {
		told := copy(events[n:], r.extra)
		r.extra = r.extra[told:]
		n += told
	}
	return n, next
}
