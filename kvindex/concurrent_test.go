package kvindex_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/kvindex"
)

// TestWritersOnOneLeaf loses no acknowledged write of 32 writers whose keys are all in one leaf.
func TestWritersOnOneLeaf(t *testing.T) {
	const writers, each = 32, 100
	for name, cfg := range shapes {
		x, err := kvindex.New[uint64](cfg)
		require.NoError(t, err)
		var wg sync.WaitGroup
		for w := range uint64(writers) {
			wg.Go(func() {
				for i := range uint64(each) {
					k := i*writers + w // neighbours of all other writers' keys
					x.Put(k, k)
					if v, ok := x.Get(k); !ok || v != k {
						t.Errorf("%s: key %d is %d, %v right after its put", name, k, v, ok)
					}
				}
			})
		}
		wg.Wait()
		require.NoError(t, x.Verify(), name)
		keys, _ := collect(x.All())
		require.Len(t, keys, writers*each, name)
		require.Equal(t, writers*each, x.Len(), name)
	}
}

// TestPutsReturnEachValueOnce exchanges one key's value from many goroutines: every value put comes back exactly once,
// from a later put or at the end.
func TestPutsReturnEachValueOnce(t *testing.T) {
	const writers, each = 8, 2000
	x, err := kvindex.New[uint64](small)
	require.NoError(t, err)
	var next atomic.Uint64
	got := make([][]uint64, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range each {
				if old, replaced := x.Put(7, next.Add(1)); replaced {
					got[w] = append(got[w], old)
				}
			}
		})
	}
	wg.Wait()
	final, ok := x.Get(7)
	require.True(t, ok)
	all := append(slices.Concat(got...), final)
	slices.Sort(all)
	require.Len(t, all, writers*each)
	for i, v := range all {
		require.Equal(t, uint64(i+1), v)
	}
}

// churn writes to x from several goroutines until done reports true, each on keys of its own, and returns what is there.
func churn(x *kvindex.Index[uint64], random *rand.Rand, writers int, stop func(ops int) bool) *reference {
	parts := make([]*reference, writers)
	var wg sync.WaitGroup
	for w := range writers {
		r := rand.New(rand.NewPCG(random.Uint64(), 0))
		m := newReference()
		parts[w] = m
		wg.Go(func() {
			for ops := 0; !stop(ops); ops++ {
				k := r.Uint64N(2000)*uint64(writers) + uint64(w)
				if r.IntN(3) == 0 {
					x.Delete(k)
					m.remove(k)
				} else {
					x.Put(k, r.Uint64()<<20|k)
					v, _ := x.Get(k)
					m.put(k, v)
				}
			}
		})
	}
	wg.Wait()
	whole := newReference()
	for _, m := range parts {
		for _, k := range m.keys {
			whole.put(k, m.values[k])
		}
	}
	return whole
}

// TestReadersBesideWriters checks that scans stay in order and values belong to their keys while the tree changes.
func TestReadersBesideWriters(t *testing.T) {
	random := newRandom(t)
	for name, cfg := range shapes {
		x, err := kvindex.New[uint64](cfg)
		require.NoError(t, err)
		var done atomic.Bool
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for !done.Load() {
					before, first := uint64(0), true
					for k, v := range x.All() {
						if !first && k <= before || v&(1<<20-1) != k {
							t.Errorf("%s: key %d with value %d after %d", name, k, v, before)
							return
						}
						before, first = k, false
					}
					before, first = 0, true
					for k := range x.Backward() {
						if !first && k >= before {
							t.Errorf("%s: key %d after %d, backward", name, k, before)
							return
						}
						before, first = k, false
					}
					if err := x.Flush(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		m := churn(x, random, 3, func(ops int) bool { return ops == kvindex.Rounds(1000) })
		done.Store(true)
		wg.Wait()
		require.NoError(t, x.Verify(), name)
		m.requireSame(t, x, random)
	}
}

// TestVerifyBesideWriters calls an index right that is being written to, whatever is replaced while it is walked.
func TestVerifyBesideWriters(t *testing.T) {
	random := newRandom(t)
	for name, cfg := range shapes {
		x := filled(t, 500, cfg)
		var done atomic.Bool
		var wg sync.WaitGroup
		for range 2 {
			r := rand.New(rand.NewPCG(random.Uint64(), 0))
			wg.Go(func() {
				for !done.Load() {
					k := r.Uint64N(500_000)
					x.Put(k, k)
					x.Delete(r.Uint64N(500_000))
				}
			})
		}
		for range kvindex.Rounds(10) {
			if err := x.Verify(); err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
		done.Store(true)
		wg.Wait()
		require.NoError(t, x.Verify())
	}
}

// TestSnapshotsBesideWriters takes snapshots while writers run: each stays what it was, and holds every write that was
// acknowledged before it and none that began after it.
func TestSnapshotsBesideWriters(t *testing.T) {
	random := newRandom(t)
	x, err := kvindex.New[uint64](small)
	require.NoError(t, err)
	const writers = 3
	var acked, begun [writers]atomic.Uint64 // each writer counts up its own key's value
	var done atomic.Bool
	var wg sync.WaitGroup
	for w := range uint64(writers) {
		r := rand.New(rand.NewPCG(random.Uint64(), 0))
		wg.Go(func() {
			for n := uint64(1); !done.Load(); n++ {
				begun[w].Store(n)
				x.Put(w<<32, n)
				acked[w].Store(n)
				x.Put(w<<32+1+r.Uint64N(500), n)
				x.Delete(w<<32 + 1 + r.Uint64N(500))
			}
		})
	}
	for range kvindex.Rounds(10) {
		var least, most [writers]uint64
		for w := range least {
			least[w] = acked[w].Load()
		}
		s := x.Snapshot()
		for w := range most {
			most[w] = begun[w].Load()
		}
		for w := range uint64(writers) {
			v, _ := s.Get(w << 32)
			require.True(t, least[w] <= v && v <= most[w], "writer %d: %d, outside %d to %d", w, v, least[w], most[w])
		}
		m := newReference()
		for k, v := range s.All() {
			m.put(k, v)
		}
		for range 2 {
			m.requireSame(t, s, random)
		}
		require.NoError(t, s.Close())
	}
	done.Store(true)
	wg.Wait()
	require.NoError(t, x.Verify())
}

// TestSnapshotContents compares snapshots with copies of the reference, many of them open at a time, while the tree
// goes on changing.
func TestSnapshotContents(t *testing.T) {
	random := newRandom(t)
	for name, cfg := range shapes {
		t.Run(name, func(t *testing.T) {
			x, err := kvindex.New[uint64](cfg)
			require.NoError(t, err)
			m := newReference()
			type pair struct {
				s *kvindex.Snapshot[uint64]
				m *reference
			}
			var open []pair
			for range 40 {
				for range 60 {
					m.step(t, x, random, 40)
				}
				open = append(open, pair{x.Snapshot(), m.clone()})
				if len(open) > 6 {
					i := random.IntN(len(open))
					require.NoError(t, open[i].s.Close())
					open = slices.Delete(open, i, i+1)
				}
				p := open[random.IntN(len(open))]
				p.m.requireSame(t, p.s, random)
				p.m.requireRanks(t, p.s)
			}
			require.Error(t, x.Close())
			for _, p := range open {
				p.m.requireSame(t, p.s, random)
				require.NoError(t, p.s.Close())
				require.NoError(t, p.s.Close())
				require.Panics(t, func() { p.s.Get(1) })
			}
			require.NoError(t, x.Close())
			require.Panics(t, func() { x.Get(1) })
			require.Panics(t, func() { x.Put(1, 1) })
		})
	}
}

// requireRanks compares Rank and At.
func (m *reference) requireRanks(t *testing.T, s *kvindex.Snapshot[uint64]) {
	for i, k := range m.keys {
		require.Equal(t, i, s.Rank(k), "rank of %d", k)
		got, v, ok := s.At(i)
		require.True(t, ok)
		require.Equal(t, k, got, "at %d", i)
		require.Equal(t, m.values[k], v)
	}
	for _, i := range []int{-1, len(m.keys)} {
		_, _, ok := s.At(i)
		require.False(t, ok)
	}
	require.Zero(t, s.Rank(0))
}
