package kvindex_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/kvindex"
)

// filled is a flushed index of n keys, 1000 apart, whose values are theirs.
func filled(t testing.TB, n uint64, cfg kvindex.Config) *kvindex.Index[uint64] {
	x, err := kvindex.New[uint64](cfg)
	require.NoError(t, err)
	for k := range n {
		x.Put(k*1000, k*1000)
	}
	require.NoError(t, x.Flush(context.Background()))
	return x
}

// requireFilled compares a snapshot of what filled made.
func requireFilled(t testing.TB, s *kvindex.Snapshot[uint64], n uint64) {
	t.Helper()
	next := uint64(0)
	for k, v := range s.All() {
		if k != next*1000 || v != k {
			require.Failf(t, "changed", "key %d with value %d, want key %d", k, v, next*1000)
		}
		next++
	}
	require.Equal(t, n, next)
	require.Equal(t, int(n), s.Len())
	v, ok := s.Get(1000)
	require.True(t, ok && v == 1000)
}

// TestSnapshotsKeepEachLeafOnce has splits and joins under one snapshot, in the three forms in which they once multiplied
// what was kept: everything deleted and put again, and a window that slides away.
func TestSnapshotsKeepEachLeafOnce(t *testing.T) {
	for name, cfg := range shapes {
		for what, change := range map[string]func(x *kvindex.Index[uint64], n uint64, round uint64){
			"filled and emptied": func(x *kvindex.Index[uint64], n, _ uint64) {
				for k := range n {
					x.Put(k*1000+1, k)
				}
				for k := range n {
					x.Delete(k*1000 + 1)
					x.Delete(k * 1000)
				}
			},
			"put again": func(x *kvindex.Index[uint64], n, round uint64) {
				for k := range n {
					x.Put(k*1000+round, k)
				}
			},
			"sliding": func(x *kvindex.Index[uint64], n, round uint64) {
				for k := round * n; k < (round+1)*n; k++ {
					x.Put((k+n)*1000, k)
					x.Delete(k * 1000)
				}
			},
		} {
			const n = 400
			x := filled(t, n, cfg)
			leaves := x.Stats().Leaves
			s := x.Snapshot()
			for round := range uint64(kvindex.Rounds(3)) {
				change(x, n, round)
				require.NoError(t, x.Flush(context.Background()))
				require.LessOrEqual(t, kvindex.Kept(x), leaves, "%s, %s: leaves kept after round %d", name, what, round)
			}
			requireFilled(t, s, n)
			require.NoError(t, s.Close())
			require.Zero(t, kvindex.Kept(x))
			require.NoError(t, x.Verify())
		}
	}
}

// TestShortSnapshotsAreLetGo opens and closes snapshots beside one that stays open, and some that overlap.
func TestShortSnapshotsAreLetGo(t *testing.T) {
	const n = 3000
	x := filled(t, n, kvindex.Config{})
	leaves := x.Stats().Leaves
	long := x.Snapshot()
	var overlapping *kvindex.Snapshot[uint64]
	for round := range uint64(20) {
		short := x.Snapshot()
		for k := range uint64(n) {
			x.Put(k*1000, round)
		}
		if overlapping != nil {
			require.NoError(t, overlapping.Close())
		}
		require.LessOrEqual(t, kvindex.Kept(x), 3*leaves, "leaves kept for two snapshots, after round %d", round)
		if overlapping = nil; round%3 == 0 {
			overlapping = short
			continue
		}
		require.NoError(t, short.Close())
		require.LessOrEqual(t, kvindex.Kept(x), leaves, "leaves kept for one snapshot, after round %d", round)
	}
	requireFilled(t, long, n)
	require.NoError(t, long.Close())
	require.Zero(t, kvindex.Kept(x))
}

// TestClosingSnapshotsHandDown reads one snapshot from several goroutines while newer ones open and close around it, and
// hand down to it what it sees.
func TestClosingSnapshotsHandDown(t *testing.T) {
	random := newRandom(t)
	const n = 300
	for name, cfg := range shapes {
		x := filled(t, n, cfg)
		old := x.Snapshot()
		var done atomic.Bool
		var wg sync.WaitGroup
		for range 2 {
			r := rand.New(rand.NewPCG(random.Uint64(), 0))
			wg.Go(func() {
				for !done.Load() {
					k := r.Uint64N(n) * 1000
					if v, ok := old.Get(k); !ok || v != k {
						t.Errorf("%s: key %d is %d, %v", name, k, v, ok)
						return
					}
					if _, ok := old.Get(k + 1); ok {
						t.Errorf("%s: key %d is newer than the snapshot", name, k+1)
						return
					}
				}
			})
		}
		write := func(times int) {
			for range times {
				k := random.Uint64N(n) * 1000
				x.Put(k, 1)
				x.Put(k+1, 1)
				x.Delete(random.Uint64N(n) * 1000)
			}
		}
		for range kvindex.Rounds(8) {
			first := x.Snapshot()
			write(40)
			second := x.Snapshot()
			write(1)
			var closing sync.WaitGroup
			closing.Go(func() {
				if err := errors.Join(first.Close(), second.Close()); err != nil {
					t.Error(err)
				}
			})
			write(100)
			closing.Wait()
		}
		done.Store(true)
		wg.Wait()
		requireFilled(t, old, n)
		require.NoError(t, old.Close())
		require.Zero(t, kvindex.Kept(x))
	}
}
