package railtest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine/rail"
)

// loadStep is how far a virtual clock goes in a round under load, where it cannot wait until nothing is left to do.
const loadStep = time.Millisecond

// killedUnderLoad has a peer die while another one sends without pause: most turns of the rail find more than they have room for.
func killedUnderLoad(w *world) {
	a, b := w.open(), w.open()
	room := 8
	if window := a.caps.MaxImmediates; window > 0 {
		room = min(room, max(window/4, 1))
	}
	a.events = a.events[:room]
	_, atB := w.connect(a, b)
	v := w.victim(a.rail.Address())
	all := append([]*node{a, b}, v.nodes...)
	w.until("the victim is up", func() bool { return len(a.ups) == 2 }, all...)
	id := a.ups[1]

	turns, full := 0, 0
	round := func(others []*node) {
		for range 4 * room { // of which the rail takes what it has credit for
			b.post(atB, withImm(b.op(rail.Write, 0, a.remote(), 0, 8), 1))
		}
		for _, n := range others {
			n.turn()
		}
		did, _ := a.turn()
		if turns++; did == len(a.events) {
			full++
		}
		w.tick(loadStep)
	}
	for range 200 {
		round(all[1:])
	}
	require.Empty(w, a.losts)
	v.kill()
	start := w.now()
	within := a.caps.DeathWithin + w.suite.limit(slack)
	for turns, full = 0, 0; !a.isLost(id); {
		round([]*node{b})
		require.LessOrEqual(w, w.now().Sub(start), within, "told too late under load: %d of %d turns were full", full, turns)
	}
	w.Logf("lost after %v: %v; %d of %d turns were full", w.now().Sub(start), a.losts[id].Err, full, turns)
	w.requireLost(a.losts[id])
	require.GreaterOrEqual(w, full, turns/2, "turns of %d that had as many events as there was room for", turns)
	w.until("down", func() bool { return a.isDown(id) }, a, b)
	w.settle(v)
}
