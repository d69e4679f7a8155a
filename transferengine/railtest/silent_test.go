package railtest

import (
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

// silencePlants are of peers that take no turns.
func silencePlants() []plant {
	return []plant{
		{clause: "a silent peer is given up", bug: "what is in flight is said to be over",
			says:    "of what was in the memory once the write was over",
			network: simrail.Config{TargetDriven: true}, leave: guess, post: notes, event: silent},
		{clause: "a silent peer is given up", bug: "what is in flight stays so", says: "hold: down, though the peer does nothing",
			network: simrail.Config{TargetDriven: true, NoRecall: true}, caps: func(c *rail.Caps) { c.Recalls = true }},
		{clause: "closing beside a silent peer", bug: "what is in flight stays so",
			says:    "memory is deregistered under an operation in flight",
			network: simrail.Config{TargetDriven: true}, close: func(*buggy) error { return nil }},
	}
}
