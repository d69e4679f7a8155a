package kvindex

import (
	"math"
	"math/rand/v2"
	"slices"
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

// TestSearchesAgree compares the spelled-out searches of windows with the plain one, at every key and beside it.
func TestSearchesAgree(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var value [3 * leaf18]uint64
	for range 200 {
		keys := make([]uint64, leaf18)
		for i := range keys {
			keys[i] = random.Uint64()
		}
		keys[random.IntN(leaf18)], keys[random.IntN(leaf18)] = 0, math.MaxUint64
		slices.Sort(keys)
		window := (*[leaf18]uint64)(slices.Compact(keys)[:leaf18:leaf18])
		probes := []uint64{0, 1, math.MaxUint64 - 1, math.MaxUint64}
		for _, k := range window {
			probes = append(probes, k-1, k, k+1)
		}
		r := newRouter(window[:], model{slope: 0, width: inner10, eps: 4})
		n := newInner([]segment[int]{{router: r}})
		for _, k := range probes {
			want := predecessor(window[:], 0, leaf18, k)
			require.Equal(t, want, predecessor18(window, k), "key %d in %d", k, window)
			require.Equal(t, want, search18(window, k, &value[0]), "key %d in %d", k, window)
			want = predecessor(window[:], 0, inner10, k)
			require.Equal(t, want, r.child(k), "key %d in %d", k, window[:inner10])
			var x Index[int]
			x.root.Store(n)
			n.segs[0].leaves = make([]slot[int], 1)
			_, got := x.slotOf(k)
			require.Equal(t, want, got, "key %d in %d", k, window[:inner10])
		}
	}
}
