//go:build linux && cgo && !noverbs

package verbsrail_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/verbsrail"
	"github.com/weftrdma/weft/verbs"
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

// TestImmediatesBehindAnErrorAreReported has immediates, which the peer was told are in place, lie in the completion queue behind the
// error of an operation of ours; and behind another peer's load.
func TestImmediatesBehindAnErrorAreReported(t *testing.T) {
	for _, load := range []bool{false, true} {
		b := newBare(t, verbsrail.Config{DrainTimeout: 50 * time.Millisecond})
		id, other := b.adopt(0), b.adopt(1)
		b.room = b.room[:16]
		flood := func() {
			for load && b.immediate(other, 1) == nil { // as many as there are receives
			}
		}
		b.null.Hold()
		b.null.FailSend(0, uint32(verbs.WCRetryExceeded), 0)
		require.Equal(t, 1, b.post(id, 1, 1))
		b.null.Release()
		const many = 200
		for i := range uint32(many) {
			flood()
			require.NoError(t, b.immediate(id, i))
		}
		for turns := 0; b.count(rail.PeerDown, id) == 0; turns++ {
			flood()
			b.turn()
			b.now = b.now.Add(10 * time.Millisecond)
			require.Less(t, turns, 1000)
		}
		require.Equal(t, many, b.count(rail.Immediate, id), "load: %v", load)
		require.Equal(t, 1, b.count(rail.Completed, id))
		lost := b.find(rail.PeerLost, id)
		require.ErrorIs(t, b.events[lost].Err, rail.ErrPeerGone)
		require.Equal(t, 1, b.count(rail.PeerLost, id))
		require.Greater(t, b.find(rail.PeerDown, id), lost)
		require.Zero(t, b.count(rail.PeerLost, other))
	}
}

// TestADeviceThatDoesNotFlush has a queue pair that cannot be moved to the error state: its peer is lost in time, and down once the
// queue pair is destroyed.
func TestADeviceThatDoesNotFlush(t *testing.T) {
	b := newBare(t, verbsrail.Config{DrainTimeout: time.Second})
	id := b.adopt(0)
	b.null.Hold()
	require.Equal(t, 3, b.post(id, 1, 3))
	b.null.Fail("ibv_modify_qp", 0, int(syscall.EIO), 0)
	b.null.Fail("ibv_destroy_qp", 0, int(syscall.EIO), 0)
	b.rail.Disconnect(b.now, id)
	b.settle()
	require.Zero(t, b.count(rail.Completed, id))
	require.Zero(t, b.count(rail.PeerLost, id))
	b.now = b.now.Add(time.Second)
	b.settle()
	require.Equal(t, 1, b.count(rail.PeerLost, id))
	require.Zero(t, b.count(rail.Completed, id), "the queue pair was not destroyed: the device may go on with them")
	require.Zero(t, b.count(rail.PeerDown, id))
	_, err := b.rail.Post(id, []rail.Op{write(4)})
	require.ErrorIs(t, err, rail.ErrNotUp)
	for range 3 {
		b.now = b.now.Add(time.Second)
		b.settle()
	}
	require.Equal(t, 3, b.count(rail.Completed, id))
	require.Equal(t, 1, b.count(rail.PeerDown, id))
	for _, e := range b.events[b.find(rail.PeerLost, id)+1 : len(b.events)-1] {
		require.ErrorIs(t, e.Err, rail.ErrFlushed)
	}
	b.null.Release()
}
