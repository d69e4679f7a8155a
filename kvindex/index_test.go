package kvindex_test

import (
	"context"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/kvindex"
)

// small makes a tree that splits all the time.
var small = kvindex.Config{LeafEpsilon: 1, InnerEpsilon: 1, LeafCapacity: 4, NodeSegments: 2, BufferCapacity: 3}

// shapes are the configurations that the model tests run with.
var shapes = map[string]kvindex.Config{
	"small":         small,
	"small plain":   {LeafCapacity: 4, NodeSegments: 3, BufferCapacity: 2, Search: kvindex.SearchPlain},
	"small learned": {LeafEpsilon: 2, InnerEpsilon: 1, LeafCapacity: 8, NodeSegments: 2, BufferCapacity: 1, Search: kvindex.SearchLearned},
	"middle":        {LeafEpsilon: 4, LeafCapacity: 16, NodeSegments: 2},
	"default":       {},
}

// pairs yields keys with the values that value gives.
func pairs(keys []uint64, value func(uint64) uint64) iter.Seq2[uint64, uint64] {
	return func(yield func(uint64, uint64) bool) {
		for _, k := range keys {
			if !yield(k, value(k)) {
				return
			}
		}
	}
}

func inverse(k uint64) uint64 { return ^k }

// reference is a sorted slice that does what the index does.
type reference struct {
	keys   []uint64
	values map[uint64]uint64
}

func newReference() *reference { return &reference{values: map[uint64]uint64{}} }

func (m *reference) put(k, v uint64) (old uint64, replaced bool) {
	old, replaced = m.values[k]
	if !replaced {
		i, _ := slices.BinarySearch(m.keys, k)
		m.keys = slices.Insert(m.keys, i, k)
	}
	m.values[k] = v
	return old, replaced
}

func (m *reference) remove(k uint64) (old uint64, ok bool) {
	old, ok = m.values[k]
	if ok {
		i, _ := slices.BinarySearch(m.keys, k)
		m.keys = slices.Delete(m.keys, i, i+1)
		delete(m.values, k)
	}
	return old, ok
}

func (m *reference) clone() *reference {
	c := newReference()
	c.keys = slices.Clone(m.keys)
	for k, v := range m.values {
		c.values[k] = v
	}
	return c
}

// reader is what Index and Snapshot share.
type reader interface {
	Get(uint64) (uint64, bool)
	All() iter.Seq2[uint64, uint64]
	Backward() iter.Seq2[uint64, uint64]
	Range(lo, hi uint64) iter.Seq2[uint64, uint64]
	From(lo uint64) iter.Seq2[uint64, uint64]
	Floor(uint64) (uint64, uint64, bool)
	Ceil(uint64) (uint64, uint64, bool)
	Len() int
}

func collect(seq iter.Seq2[uint64, uint64]) (keys, values []uint64) {
	for k, v := range seq {
		keys, values = append(keys, k), append(values, v)
	}
	return keys, values
}

// requireSame compares all that a reader says with the reference.
func (m *reference) requireSame(t testing.TB, r reader, random *rand.Rand) {
	t.Helper()
	keys, values := collect(r.All())
	require.True(t, slices.Equal(m.keys, keys), "%d keys, want %d", len(keys), len(m.keys))
	for i, k := range keys {
		if m.values[k] != values[i] { // a check without reflection: there are many
			require.Equal(t, m.values[k], values[i], "key %d", k)
		}
	}
	back, _ := collect(r.Backward())
	slices.Reverse(back)
	require.True(t, slices.Equal(m.keys, back), "backward: %d keys, want %d", len(back), len(m.keys))
	require.Equal(t, len(m.keys), r.Len())
	for range 20 {
		lo, hi := m.near(random), m.near(random)
		got, _ := collect(r.Range(lo, hi))
		from, to := last(m.keys, lo-1)+1, last(m.keys, hi)+1
		if lo == 0 {
			from = 0
		}
		require.True(t, slices.Equal(m.keys[from:max(from, to)], got), "range %d to %d", lo, hi)
		m.requirePoint(t, r, lo)
	}
}

// requirePoint compares everything about one key.
func (m *reference) requirePoint(t testing.TB, r reader, k uint64) {
	t.Helper()
	v, ok := r.Get(k)
	want, exists := m.values[k]
	require.Equal(t, exists, ok, "key %d", k)
	require.Equal(t, want, v, "key %d", k)
	i := last(m.keys, k)
	floor, v, ok := r.Floor(k)
	require.Equal(t, i >= 0, ok, "floor of %d", k)
	if ok {
		require.Equal(t, m.keys[i], floor)
		require.Equal(t, m.values[floor], v)
	}
	j := sort.Search(len(m.keys), func(i int) bool { return m.keys[i] >= k })
	ceil, v, ok := r.Ceil(k)
	require.Equal(t, j < len(m.keys), ok, "ceil of %d", k)
	if ok {
		require.Equal(t, m.keys[j], ceil)
		require.Equal(t, m.values[ceil], v)
	}
}

// near draws a key that is there, or beside one, or anything.
func (m *reference) near(random *rand.Rand) uint64 {
	if len(m.keys) == 0 || random.IntN(8) == 0 {
		return []uint64{0, 1, math.MaxUint64, math.MaxUint64 - 1, random.Uint64()}[random.IntN(5)]
	}
	return m.keys[random.IntN(len(m.keys))] + random.Uint64N(3) - 1
}

// step does one random write to both.
func (m *reference) step(t testing.TB, x *kvindex.Index[uint64], random *rand.Rand, deletions int) {
	k, v := m.near(random), random.Uint64()
	switch n := random.IntN(100); {
	case n < deletions:
		want, exists := m.remove(k)
		old, ok := x.Delete(k)
		require.Equal(t, exists, ok, "delete %d", k)
		require.Equal(t, want, old, "delete %d", k)
	case n < deletions+10:
		m.put(k, v)
		x.PutBlind(k, v)
	default:
		want, exists := m.put(k, v)
		old, ok := x.Put(k, v)
		require.Equal(t, exists, ok, "put %d", k)
		require.Equal(t, want, old, "put %d", k)
	}
}

func TestAgainstASortedSlice(t *testing.T) {
	random := newRandom(t)
	for name, cfg := range shapes {
		t.Run(name, func(t *testing.T) {
			x, err := kvindex.New[uint64](cfg)
			require.NoError(t, err)
			m := newReference()
			for phase, deletions := range []int{10, 45, 10, 90, 30} {
				for range 1500 {
					m.step(t, x, random, deletions)
				}
				require.NoError(t, x.Verify(), "phase %d", phase)
				m.requireSame(t, x, random)
			}
			require.NoError(t, x.Flush(context.Background()))
			require.Zero(t, x.Stats().Buffered)
			require.NoError(t, x.Verify())
			m.requireSame(t, x, random)
			if cfg.LeafCapacity == 4 {
				require.Greater(t, x.Stats().Depth, 2)
				require.NotZero(t, x.Stats().Splits)
				require.NotZero(t, x.Stats().Merges)
			}
		})
	}
}

func TestEmptyAgain(t *testing.T) {
	for name, cfg := range shapes {
		random := newRandom(t)
		x, err := kvindex.New[uint64](cfg)
		require.NoError(t, err)
		m := newReference()
		for round := range 3 {
			keys := uniform(random, kvindex.Rounds(800))
			for _, k := range keys {
				x.Put(k, k)
			}
			for i, at := range random.Perm(len(keys)) {
				_, ok := x.Delete(keys[at])
				require.True(t, ok)
				if i == len(keys)/2 {
					require.NoError(t, x.Verify(), "%s, round %d", name, round)
				}
			}
			require.NoError(t, x.Flush(context.Background()))
			require.NoError(t, x.Verify(), "%s, round %d", name, round)
			m.requireSame(t, x, random)
			s := x.Stats()
			require.Equal(t, 1, s.Leaves, name)
			require.Equal(t, 2, s.Depth, name)
		}
	}
}

func TestBulkLoad(t *testing.T) {
	random := newRandom(t)
	for name, keys := range keySets(t, 20000) {
		for shape, cfg := range shapes {
			some := stretch(t, keys, 10000)
			if cfg.LeafCapacity != 0 {
				some = stretch(t, keys, 1000)
			}
			x, err := kvindex.BulkLoad(pairs(some, inverse), cfg)
			require.NoError(t, err)
			require.NoError(t, x.Verify(), "%s, %s", name, shape)
			m := newReference()
			for _, k := range some {
				m.values[k] = inverse(k)
			}
			m.keys = some
			m.requireSame(t, x, random)
		}
	}
}
