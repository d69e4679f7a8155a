package railtest

import "github.com/weftrdma/weft/transferengine/rail"

func messagePlants() []plant {
	return []plant{
		{clause: "messages", bug: "one in 100 is lost", says: "hold: all messages", event: drop(rail.Message, 100)},
		{clause: "messages", bug: "one in 100 comes twice", says: "303", event: double(rail.Message, 100)},
		{clause: "messages", bug: "the last byte is lost", says: "a message of",
			event: sometimes(rail.Message, 1, func(e rail.Event) []rail.Event {
				e.Data = e.Data[:max(len(e.Data), 1)-1]
				return []rail.Event{e}
			})},
		{clause: "messages", bug: "the caller's bytes are kept", says: "a message of",
			send: func(r *buggy, peer rail.PeerID, m []byte) (bool, error) {
				r.loot = append(r.loot, m)
				if len(r.loot) > 1 { // it goes when the next one comes
					return r.Rail.Send(peer, r.loot[len(r.loot)-2].([]byte))
				}
				return r.Rail.Send(peer, m)
			}},
		{clause: "messages come after what was acknowledged", bug: "immediates are reported late", says: "immediates before message",
			event: func(r *buggy, e rail.Event) (now []rail.Event) {
				if e.Kind == rail.Immediate && len(r.loot) == 0 { // until the next event
					r.loot = append(r.loot, e)
					return nil
				}
				now = []rail.Event{e}
				for _, late := range r.loot {
					now = append(now, late.(rail.Event))
				}
				r.loot = nil
				return now
			}},
		{clause: "messages", bug: "what is too long is cut", says: "An error is expected",
			send: func(r *buggy, peer rail.PeerID, m []byte) (bool, error) {
				return r.Rail.Send(peer, m[:min(len(m), r.Caps().MaxSend)])
			}},
	}
}
