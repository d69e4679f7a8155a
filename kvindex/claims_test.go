package kvindex_test

import (
	"context"
	"encoding/binary"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/kvindex"
)

// TestReadsDoNotAllocate covers lookups, scans and batches, with and without writes in buffers.
func TestReadsDoNotAllocate(t *testing.T) {
	random := newRandom(t)
	keys := uniform(random, 10000)
	x := load(t, keys, kvindex.Config{})
	for round := range 2 {
		values, found := make([]uint64, 64), make([]bool, 64)
		i := 0
		require.Zero(t, testing.AllocsPerRun(200, func() {
			i += 37
			k := keys[i%len(keys)]
			x.Get(k)
			x.Floor(k)
			x.Ceil(k)
			n := 0
			for range x.From(k) {
				if n++; n == 10 {
					break
				}
			}
			x.GetBatch(keys[i%9000:][:64], values, found)
		}), "round %d", round)
		for range 5000 {
			x.Put(keys[random.IntN(len(keys))], 1)
		}
	}
}

// TestBatch compares batches with single lookups.
func TestBatch(t *testing.T) {
	random := newRandom(t)
	for name, cfg := range shapes {
		x, err := kvindex.New[uint64](cfg)
		require.NoError(t, err)
		m := newReference()
		for _, n := range []int{0, 1, 31, 32, 33, 100} {
			for range 200 {
				m.step(t, x, random, 30)
			}
			keys, values, found := make([]uint64, n), make([]uint64, n), make([]bool, n)
			for i := range keys {
				keys[i], values[i] = m.near(random), 99
			}
			x.GetBatch(keys, values, found)
			for i, k := range keys {
				want, exists := m.values[k]
				require.Equal(t, exists, found[i], name)
				require.Equal(t, want, values[i], name)
			}
		}
		require.Panics(t, func() { x.GetBatch([]uint64{1}, nil, nil) })
	}
}

// TestLearnedShare asks for lines where they win, and for the memory that the index may take beside its contents.
func TestLearnedShare(t *testing.T) {
	random := newRandom(t)
	for name, keys := range map[string][]uint64{
		"uniform": uniform(random, 200_000), "dense4x": dense4x(random, 200_000),
		"lognormal": lognormal(random, 200_000), "ip4": realKeys(t, "ip4"),
	} {
		require.GreaterOrEqual(t, loaded(t, keys, kvindex.Config{}).Stats().LearnedShare, 0.95, name)
	}
	require.Less(t, loaded(t, uniform(random, 200_000), kvindex.Config{}).Stats().Overhead, 2.0)
	words := realKeys(t, "word_prefix8")
	require.Less(t, loaded(t, words, kvindex.Config{}).Stats().Overhead, 10.0)
	require.Less(t, loaded(t, words, kvindex.Config{Search: kvindex.SearchLearned}).Stats().Overhead, 10.0)
}

// steps are runs of consecutive keys at the distances that next gives.
func steps(length uint64, next func() uint64) (keys []uint64) {
	start := uint64(0)
	for range 5000 {
		for k := range length {
			keys = append(keys, start+k)
		}
		start += next()
	}
	return keys
}

// TestProbeChoosesEpsilon has stairs, which a line passes within half of a step's height, and runs at distances of all
// magnitudes, where no line carries two.
func TestProbeChoosesEpsilon(t *testing.T) {
	even := func() uint64 { return 1 << 40 }
	for length, want := range map[uint64]float64{10: 8, 20: 16} {
		s := load(t, steps(length, even), kvindex.Config{}).Stats()
		require.Equal(t, want, s.LeafEpsilon, "steps of %d: %+v", length, s)
		require.Equal(t, 1.0, s.LearnedShare)
	}
	random := newRandom(t)
	rough := steps(20, func() uint64 { return 1 << (10 + random.IntN(40)) })
	s := load(t, rough, kvindex.Config{LeafCapacity: 40}).Stats() // which leaves nothing for a wider bound to win
	require.Zero(t, s.LearnedShare, "%+v", s)
	require.Less(t, s.Overhead, 10.0)
	s = load(t, steps(20, even), kvindex.Config{LeafEpsilon: 8}).Stats()
	require.Zero(t, s.LearnedShare, "a bound that is given stays: %+v", s)
}

// TestRetrainingChoosesEpsilon writes stairs key by key: leaves take the bound that their keys allow.
func TestRetrainingChoosesEpsilon(t *testing.T) {
	x, err := kvindex.New[uint64](kvindex.Config{})
	require.NoError(t, err)
	for _, k := range steps(20, func() uint64 { return 1 << 40 }) {
		x.Put(k, ^k)
	}
	require.NoError(t, x.Verify())
	s := x.Stats()
	require.Greater(t, s.LeafEpsilon, 8.0, "%+v", s)
	require.Greater(t, s.LearnedShare, 0.9, "%+v", s)
}

// TestSeriesFillTheirLeaves puts keys that rise, or fall, as those of a time series: in order, and a few of them late.
func TestSeriesFillTheirLeaves(t *testing.T) {
	random := newRandom(t)
	n := kvindex.Rounds(6000)
	for name, next := range map[string]func(k uint64) uint64{
		"even":    func(k uint64) uint64 { return k + 1_000_000 },
		"shaky":   func(k uint64) uint64 { return k + 900_000 + random.Uint64N(200_000) },
		"poisson": func(k uint64) uint64 { return k + 1 + uint64(random.ExpFloat64()*1e6) },
		"counted": func(k uint64) uint64 { return k + 1 },
	} {
		keys := make([]uint64, n)
		for i, k := 0, uint64(1)<<40; i < n; i++ {
			keys[i], k = k, next(k)
		}
		late := slices.Clone(keys)
		for i := 0; i+2 < n; i += 5 {
			late[i], late[i+2] = late[i+2], late[i]
		}
		falling := slices.Clone(keys)
		slices.Reverse(falling)
		for order, list := range map[string][]uint64{"rising": keys, "falling": falling, "a few late": late} {
			for _, cfg := range []kvindex.Config{{}, {Search: kvindex.SearchPlain}} {
				x, err := kvindex.New[uint64](cfg)
				require.NoError(t, err)
				for _, k := range list {
					x.Put(k, ^k)
				}
				require.NoError(t, x.Verify())
				requireAll(t, x, keys)
				s := x.Stats()
				require.GreaterOrEqual(t, float64(s.Keys)/float64(s.Leaves), 100.0, "%s, %s: %+v", name, order, s)
				require.Less(t, s.Overhead, 4.0, "%s, %s: %+v", name, order, s)
			}
		}
	}
}

func TestFlushStopsWithItsContext(t *testing.T) {
	x, err := kvindex.New[int](small)
	require.NoError(t, err)
	x.Put(1, 1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, x.Flush(ctx), context.Canceled)
	require.Equal(t, 1, x.Stats().Buffered)
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, uint8(1), uint8(4))
	f.Fuzz(func(t *testing.T, script []byte, epsilon, capacity uint8) {
		x, err := kvindex.New[uint64](kvindex.Config{
			LeafEpsilon: 1 + int(epsilon)%16, LeafCapacity: 4 + int(capacity)%125, NodeSegments: 2, BufferCapacity: 3})
		require.NoError(t, err)
		m := newReference()
		for ; len(script) >= 3; script = script[3:] {
			k := uint64(binary.LittleEndian.Uint16(script[1:])) << 47 // far apart, and close together
			k |= k >> 50
			switch script[0] % 4 {
			case 0:
				want, exists := m.remove(k)
				old, ok := x.Delete(k)
				require.Equal(t, exists, ok)
				require.Equal(t, want, old)
			default:
				want, exists := m.put(k, uint64(script[0]))
				old, ok := x.Put(k, uint64(script[0]))
				require.Equal(t, exists, ok)
				require.Equal(t, want, old)
			}
		}
		require.NoError(t, x.Verify())
		keys, _ := collect(x.All())
		require.Len(t, keys, len(m.keys))
	})
}

// TestSoak runs everything against a reference for a long time: make soak-kvindex.
func TestSoak(t *testing.T) {
	seed := *kvindex.SoakSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-soak.seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for deadline := time.Now().Add(*kvindex.Soak); time.Now().Before(deadline); {
		cfg := kvindex.Config{LeafEpsilon: 1 + random.IntN(16), InnerEpsilon: 1 + random.IntN(8),
			LeafCapacity: 4 + random.IntN(125), NodeSegments: 2 + random.IntN(6), BufferCapacity: 1 + random.IntN(16),
			Search: kvindex.Search(random.IntN(3))}
		x, err := kvindex.New[uint64](cfg)
		require.NoError(t, err)
		m := churn(x, random, 3, func(ops int) bool { return ops == 4000 })
		for range 4000 {
			m.step(t, x, random, random.IntN(90))
		}
		var open []*kvindex.Snapshot[uint64]
		var then []*reference
		leaves := 0
		for range 6 {
			require.NoError(t, x.Flush(context.Background()))
			leaves += x.Stats().Leaves
			open, then = append(open, x.Snapshot()), append(then, m.clone())
			for range 1000 {
				m.step(t, x, random, random.IntN(90))
			}
		}
		require.LessOrEqual(t, kvindex.Kept(x), leaves)
		for _, i := range random.Perm(len(open)) {
			then[i].requireSame(t, open[i], random)
			require.NoError(t, open[i].Close())
		}
		require.Zero(t, kvindex.Kept(x))
		require.NoError(t, x.Verify(), "%+v", cfg)
		m.requireSame(t, x, random)
	}
}

// TestUseAfterClose calls everything that an index and a snapshot have, after they were closed.
func TestUseAfterClose(t *testing.T) {
	x, err := kvindex.New[uint64](kvindex.Config{})
	require.NoError(t, err)
	x.Put(1, 1)
	s := x.Snapshot()
	require.NoError(t, s.Close())
	require.NoError(t, x.Close())
	require.NoError(t, x.Close())
	scan := func(pairs iter.Seq2[uint64, uint64]) func() {
		return func() {
			for range pairs {
			}
		}
	}
	for name, use := range map[string]func(){
		"Get":      func() { x.Get(1) },
		"GetBatch": func() { x.GetBatch([]uint64{1}, make([]uint64, 1), make([]bool, 1)) },
		"Put":      func() { x.Put(1, 1) }, "PutBlind": func() { x.PutBlind(1, 1) }, "Delete": func() { x.Delete(1) },
		"Floor": func() { x.Floor(1) }, "Ceil": func() { x.Ceil(1) }, "Min": func() { x.Min() }, "Max": func() { x.Max() },
		"All": scan(x.All()), "Backward": scan(x.Backward()), "From": scan(x.From(1)), "Range": scan(x.Range(0, 1)),
		"Len": func() { x.Len() }, "Stats": func() { x.Stats() }, "Verify": func() { require.NoError(t, x.Verify()) },
		"Snapshot": func() { x.Snapshot() },
		"WriteTo":  func() { _, _ = x.WriteTo(io.Discard) },
		"Flush":    func() { _ = x.Flush(t.Context()) },
		"s.Get":    func() { s.Get(1) }, "s.Floor": func() { s.Floor(1) }, "s.Ceil": func() { s.Ceil(1) },
		"s.All": scan(s.All()), "s.Backward": scan(s.Backward()), "s.From": scan(s.From(1)), "s.Range": scan(s.Range(0, 1)),
		"s.Len": func() { s.Len() }, "s.Rank": func() { s.Rank(1) }, "s.At": func() { s.At(0) },
	} {
		require.Panics(t, use, name)
	}
}

// TestSnapshotsCostTheSame takes one of a small map and one of a large one.
func TestSnapshotsCostTheSame(t *testing.T) {
	random := newRandom(t)
	cost := func(n int) float64 {
		x := load(t, uniform(random, n), kvindex.Config{})
		return testing.AllocsPerRun(100, func() { require.NoError(t, x.Snapshot().Close()) })
	}
	require.Equal(t, cost(10), cost(100_000))
}
