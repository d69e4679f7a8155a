package kvindex

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSnapshotEndsSlowWrites lets a snapshot read while a write is between reserving and committing its slot: the write
// must not be able to come into the snapshot afterwards.
func TestSnapshotEndsSlowWrites(t *testing.T) {
	x, err := New[int](Config{})
	require.NoError(t, err)
	x.Put(1, 1)
	b := x.leafOf(2).buf.Load()
	slot, ok := b.reserve(maxBuffer)
	require.True(t, ok)
	require.True(t, b.fill(slot, 2, 2, slotPut, x.version.Load()))
	s := x.Snapshot()
	_, ok = s.Get(2)
	require.False(t, ok)
	require.False(t, b.commit(slot, slotPut), "a write of the snapshot's version committed after the snapshot was read")
	x.Put(2, 2)
	_, ok = s.Get(2)
	require.False(t, ok)
	require.NoError(t, s.Close())
}

// TestPatchLeavesRetiredNodesAlone takes the moment between finding a leaf's parent and locking it, in which the parent
// was replaced.
func TestPatchLeavesRetiredNodesAlone(t *testing.T) {
	x, err := New[int](Config{})
	require.NoError(t, err)
	x.Put(1, 1)
	l := x.leafOf(1)
	x.root.Load().retired = true
	x.patch(1, l, nil)
	require.Same(t, l, x.leafOf(1))
	require.Zero(t, x.counters.patches.Load())
	x.root.Load().retired = false
	x.patch(1, l, nil)
	require.NotSame(t, l, x.leafOf(1))
}

// TestSealedBufferTakesNothing seals between a write's reservation and its commit, and before a reservation.
func TestSealedBufferTakesNothing(t *testing.T) {
	b := new(buffer[int])
	slot, ok := b.reserve(maxBuffer)
	require.True(t, ok)
	require.True(t, b.fill(slot, 1, 1, slotPut, 0))
	s := b.seal()
	require.False(t, b.commit(slot, slotPut))
	require.Equal(t, slotDead, s.kind(slot))
	_, ok = b.reserve(maxBuffer)
	require.False(t, ok)
	require.Equal(t, s, b.load())
}

// TestOldBufferTakesNoWrite has more snapshots between a buffer's birth and a write than the slot's version can tell.
func TestOldBufferTakesNoWrite(t *testing.T) {
	x, err := New[int](Config{})
	require.NoError(t, err)
	x.Put(1, 1)
	l := x.leafOf(1)
	for range maxDelta + 1 {
		require.NoError(t, x.Snapshot().Close())
	}
	s := x.Snapshot()
	x.Put(1, 2)
	require.NotSame(t, l, x.leafOf(1), "the buffer was replaced")
	v, ok := s.Get(1)
	require.True(t, ok && v == 1)
	v, ok = x.Get(1)
	require.True(t, ok && v == 2)
	require.NoError(t, s.Close())
}
