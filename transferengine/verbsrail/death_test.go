//go:build linux && cgo && !noverbs

package verbsrail_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/verbsrail"
)

// TestASilentPeerIsLostUnderLoad has a peer send so much that no turn sees the completion queue empty, while another one falls silent.
func TestASilentPeerIsLostUnderLoad(t *testing.T) {
	b := newBare(t, verbsrail.Config{Heartbeat: 200 * time.Millisecond, PeerTimeout: time.Second})
	talks, silent := b.adopt(0), b.adopt(1)
	start := b.now
	b.room = b.room[:8]
	full, turns := 0, 0
	for b.count(rail.PeerLost, silent) == 0 {
		for b.immediate(talks, 1) == nil { // as many as there are receives
		}
		if turns++; b.turn() == len(b.room) {
			full++
		}
		b.now = b.now.Add(time.Millisecond)
		require.LessOrEqual(t, b.now.Sub(start), b.rail.Caps().DeathWithin)
	}
	require.Greater(t, full, turns-3, "of %d", turns)
	require.ErrorIs(t, b.events[b.find(rail.PeerLost, silent)].Err, rail.ErrPeerGone)
	require.Zero(t, b.count(rail.PeerLost, talks))
}
