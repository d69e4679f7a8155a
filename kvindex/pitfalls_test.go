package kvindex_test

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/kvindex"
)

// loaded is an index of keys that nobody has verified.
func loaded(t testing.TB, keys []uint64, cfg kvindex.Config) *kvindex.Index[uint64] {
	x, err := kvindex.BulkLoad(pairs(keys, inverse), cfg)
	require.NoError(t, err)
	return x
}

func load(t testing.TB, keys []uint64, cfg kvindex.Config) *kvindex.Index[uint64] {
	x := loaded(t, keys, cfg)
	require.NoError(t, x.Verify())
	return x
}

// stretch is everyday's part of a large set, another one each time; in a soak it is all of it.
func stretch(t testing.TB, keys []uint64, most int) []uint64 {
	if most = min(kvindex.Rounds(most), len(keys)); most == len(keys) {
		return keys
	}
	from := newRandom(t).IntN(len(keys) - most)
	return keys[from : from+most]
}

// requireAll finds every key, and nothing beside it.
func requireAll(t testing.TB, x *kvindex.Index[uint64], keys []uint64) {
	t.Helper()
	for i, k := range keys {
		if v, ok := x.Get(k); !ok || v != ^k {
			require.Failf(t, "missed", "key %d at %d: %d, %v", k, i, v, ok)
		}
		if next := k + 1; next != 0 && (i+1 == len(keys) || keys[i+1] != next) {
			if _, ok := x.Get(next); ok {
				require.Failf(t, "invented", "key %d", next)
			}
		}
	}
}

// TestPitfalls has one case for each fault that users of learned indexes have reported; the names say which.
func TestPitfalls(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"01 largest key as a sentinel (PGM 29, 49, 33)":                largestKey,
		"02 wrong range at a large ε (PGM 30)":                         largeEpsilon,
		"03 keys missed (PGM 44, 45)":                                  realSetsComplete,
		"04 prediction outside the range (PGM 1, 2)":                   farPredictions,
		"05 duplicates (PGM 13, 65)":                                   duplicates,
		"06 big floats do not terminate (PGM 23)":                      bigFloats,
		"07 one element (PGM 61)":                                      oneElement,
		"08 signed keys (PGM 50, 52, 53)":                              signedKeys,
		"09 product of index and step (PGM 8125b35)":                   wideSteps,
		"10 absent keys need one position more (PGM 43)":               absentKeys,
		"11 scan past the end (hppc 262)":                              scanPastEnd,
		"12 intercept too narrow (PGM, Segment)":                       capacityBound,
		"13 key 0 (SOSD 6)":                                            keyZero,
		"14 degenerate depth on lognormal (ALEX 8)":                    lognormalDepth,
		"15 one-by-one insert of real sets (ALEX 10)":                  insertReal,
		"16 erase does not find a present key (ALEX 16)":               eraseAll,
		"17 crash after a bulk load (ALEX 4, LIPP 2)":                  writesAfterLoad,
		"18 insert into an empty tree (GRE 4)":                         insertIntoEmpty,
		"19 crashes on hard sets (treeline 10, 23)":                    hardSets,
		"20 keys above 2^53 (float64 differences)":                     above53,
		"21 emptiness judged by count loses keys (Typhon 679, 297)":    aroundEmpty,
		"22 capacity cuts lose or double keys (make_segmentation_par)": capacityCuts,
	} {
		t.Run(name, test)
	}
}

func largestKey(t *testing.T) {
	x := load(t, []uint64{1, math.MaxUint64}, small)
	requireAll(t, x, []uint64{1, math.MaxUint64})
	old, ok := x.Put(math.MaxUint64, 5)
	require.True(t, ok)
	require.Zero(t, old)
	k, v, ok := x.Max()
	require.True(t, ok && k == math.MaxUint64 && v == 5)
	_, ok = x.Delete(math.MaxUint64)
	require.True(t, ok)
	_, _, ok = x.Ceil(2)
	require.False(t, ok)
}

func largeEpsilon(t *testing.T) {
	for _, keys := range keySets(t, 20000) {
		keys = stretch(t, keys, 20000)
		requireAll(t, load(t, keys, kvindex.Config{LeafEpsilon: 56, InnerEpsilon: 56, Search: kvindex.SearchLearned}), keys)
	}
}

func realSetsComplete(t *testing.T) {
	for _, name := range []string{"ip4", "ip6hi", "word_prefix8"} {
		for _, search := range []kvindex.Search{kvindex.SearchAuto, kvindex.SearchLearned, kvindex.SearchPlain} {
			keys := stretch(t, realKeys(t, name), 30000)
			requireAll(t, load(t, keys, kvindex.Config{Search: search}), keys)
		}
	}
}

func farPredictions(t *testing.T) {
	var keys []uint64
	for k := range uint64(500) {
		keys = append(keys, 1000+k)
	}
	x := load(t, keys, kvindex.Config{})
	for _, k := range []uint64{0, 1, 999, 1500, 1 << 32, 1 << 63, math.MaxUint64} {
		_, ok := x.Get(k)
		require.False(t, ok)
		floor, _, ok := x.Floor(k)
		require.Equal(t, k >= 1000, ok)
		require.True(t, !ok || floor == 1499)
	}
}

func duplicates(t *testing.T) {
	twice := []uint64{1, 2, 2, 2, 3}
	_, err := kvindex.BulkLoad(pairs(twice, inverse), kvindex.Config{})
	require.ErrorContains(t, err, "key 2 comes after 2")
	n := uint64(0)
	count := func(uint64) uint64 { n++; return n }
	x, err := kvindex.BulkLoad(pairs(twice, count), kvindex.Config{Duplicates: kvindex.DuplicatesLastWins})
	require.NoError(t, err)
	keys, values := collect(x.All())
	require.Equal(t, []uint64{1, 2, 3}, keys)
	require.Equal(t, []uint64{1, 4, 5}, values)
	_, err = kvindex.BulkLoad(pairs([]uint64{2, 1}, inverse), kvindex.Config{Duplicates: kvindex.DuplicatesLastWins})
	require.ErrorContains(t, err, "key 1 comes after 2")
}

func bigFloats(t *testing.T) {
	var keys []uint64
	for e := -300.0; e < 300; e += 0.1 {
		keys = append(keys, kvindex.Float64Key(math.Pow(10, e)), kvindex.Float64Key(-math.Pow(10, e)))
	}
	keys = sorted(keys)
	requireAll(t, load(t, keys, kvindex.Config{}), keys)
}

func oneElement(t *testing.T) {
	for _, k := range []uint64{0, 7, math.MaxUint64} {
		x := load(t, []uint64{k}, kvindex.Config{})
		requireAll(t, x, []uint64{k})
		require.Equal(t, 1, x.Len())
		_, ok := x.Delete(k)
		require.True(t, ok)
		require.Zero(t, x.Len())
	}
}

func signedKeys(t *testing.T) {
	var keys []uint64
	for _, v := range []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64} {
		keys = append(keys, kvindex.Int64Key(v))
	}
	require.True(t, slices.IsSorted(keys))
	requireAll(t, load(t, keys, small), keys)
}

func wideSteps(t *testing.T) {
	for _, n := range []uint64{100, 1000, 65536} {
		var keys []uint64
		for i := range n {
			keys = append(keys, i*(math.MaxUint64/(n-1)))
		}
		requireAll(t, load(t, keys, kvindex.Config{}), keys)
	}
}

func absentKeys(t *testing.T) {
	random := newRandom(t)
	keys := clusters(random, 3000)
	x := load(t, keys, kvindex.Config{LeafEpsilon: 1, InnerEpsilon: 1, Search: kvindex.SearchLearned})
	m := newReference()
	m.keys = keys
	for _, k := range keys {
		m.values[k] = ^k
	}
	for _, k := range keys {
		m.requirePoint(t, x, k-1)
		m.requirePoint(t, x, k)
		m.requirePoint(t, x, k+1)
	}
}

func scanPastEnd(t *testing.T) {
	x := load(t, []uint64{5, math.MaxUint64}, kvindex.Config{})
	for lo, want := range map[uint64]int{0: 2, 5: 2, 6: 1, math.MaxUint64: 1} {
		keys, _ := collect(x.From(lo))
		require.Len(t, keys, want, "from %d", lo)
	}
	x.Delete(math.MaxUint64)
	keys, _ := collect(x.From(6))
	require.Empty(t, keys)
	keys, _ = collect(x.Range(9, 3))
	require.Empty(t, keys)
}

func capacityBound(t *testing.T) {
	for _, cfg := range []kvindex.Config{{LeafCapacity: 129}, {LeafCapacity: 3}, {LeafEpsilon: 57}, {InnerEpsilon: -1},
		{NodeSegments: 8}, {BufferCapacity: 17}, {Search: 9}, {Duplicates: 2}} {
		_, err := kvindex.New[int](cfg)
		require.ErrorContains(t, err, " are possible", "%+v", cfg)
	}
}

func keyZero(t *testing.T) {
	x, err := kvindex.New[uint64](small)
	require.NoError(t, err)
	_, ok := x.Get(0)
	require.False(t, ok)
	for k := uint64(20); ; k-- { // downwards, so that 0 comes below the first routing key
		x.Put(k, ^k)
		if k == 0 {
			break
		}
	}
	require.NoError(t, x.Verify())
	k, v, ok := x.Min()
	require.True(t, ok && k == 0 && v == math.MaxUint64)
	_, ok = x.Delete(0)
	require.True(t, ok)
	k, _, _ = x.Min()
	require.Equal(t, uint64(1), k)
	belowFirst(t)
}

func belowFirst(t *testing.T) {
	x := load(t, []uint64{1 << 40, 1 << 41}, small)
	for k := uint64(1 << 39); k > 1<<39-300; k-- {
		x.Put(k, ^k)
	}
	require.NoError(t, x.Verify())
	require.Equal(t, 302, x.Len())
}

func lognormalDepth(t *testing.T) {
	keys := lognormal(newRandom(t), 700_000)
	x := loaded(t, keys, kvindex.Config{})
	for _, k := range stretch(t, keys, 20000) {
		v, ok := x.Get(k)
		require.True(t, ok && v == ^k, "key %d", k)
	}
	require.LessOrEqual(t, x.Stats().Depth, 4)
}

func insertReal(t *testing.T) {
	random := newRandom(t)
	keys := stretch(t, realKeys(t, "ip6hi"), 20000)
	shuffled := slices.Clone(keys)
	random.Shuffle(len(keys), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	backward := slices.Clone(keys)
	slices.Reverse(backward)
	for _, order := range [][]uint64{keys, shuffled, backward} {
		x, err := kvindex.New[uint64](kvindex.Config{})
		require.NoError(t, err)
		for _, k := range order {
			x.Put(k, ^k)
		}
		require.NoError(t, x.Verify())
		requireAll(t, x, keys)
	}
}

func eraseAll(t *testing.T) {
	random := newRandom(t)
	keys := clusters(random, 9000)
	x := load(t, keys, kvindex.Config{})
	for _, i := range random.Perm(len(keys)) {
		v, ok := x.Delete(keys[i])
		require.True(t, ok, "key %d", keys[i])
		require.Equal(t, ^keys[i], v)
	}
	require.Zero(t, x.Len())
	require.NoError(t, x.Verify())
}

func writesAfterLoad(t *testing.T) {
	random := newRandom(t)
	keys := uniform(random, 100_000)
	x := load(t, keys, kvindex.Config{})
	m := map[uint64]bool{}
	for range kvindex.Rounds(30_000) {
		k := keys[random.IntN(len(keys))] + random.Uint64N(2)
		x.Put(k, ^k)
		m[k] = true
	}
	require.NoError(t, x.Verify())
	for k := range m {
		v, ok := x.Get(k)
		require.True(t, ok && v == ^k)
	}
}

func insertIntoEmpty(t *testing.T) {
	x, err := kvindex.New[uint64](small)
	require.NoError(t, err)
	require.NoError(t, x.Verify())
	_, _, ok := x.Min()
	require.False(t, ok)
	for k := range uint64(2000) {
		x.Put(k*7, ^(k * 7))
	}
	require.Greater(t, x.Stats().Depth, 4, "roots have split")
	require.NoError(t, x.Verify())
	require.Equal(t, 2000, x.Len())
}

func hardSets(t *testing.T) {
	random := newRandom(t)
	for _, name := range []string{"word_prefix8", "ip4"} {
		m := newReference()
		x, err := kvindex.New[uint64](kvindex.Config{LeafCapacity: 16})
		require.NoError(t, err)
		for _, k := range realKeys(t, name)[:4000] {
			m.put(k, ^k)
			x.Put(k, ^k)
		}
		for range kvindex.Rounds(3000) {
			m.step(t, x, random, 40)
		}
		require.NoError(t, x.Verify())
		m.requireSame(t, x, random)
	}
}

func above53(t *testing.T) {
	var keys []uint64
	for base := uint64(1) << 53; base != 0; base <<= 1 {
		for k := range uint64(300) {
			keys = append(keys, base+k*2+1)
		}
	}
	keys = sorted(keys)
	requireAll(t, load(t, keys, kvindex.Config{}), keys)
}

func aroundEmpty(t *testing.T) {
	x, err := kvindex.New[uint64](small)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for w := range uint64(4) {
		wg.Go(func() {
			for i := range uint64(1500) {
				k := i*4 + w
				x.Put(k, ^k)
				if i%50 == 0 {
					if err := x.Flush(context.Background()); err != nil {
						t.Error(err)
					}
				}
				if v, ok := x.Delete(k); !ok || v != ^k {
					t.Errorf("key %d was lost: %d, %v", k, v, ok)
				}
			}
			x.Put(w, w)
		})
	}
	wg.Wait()
	require.NoError(t, x.Verify())
	keys, _ := collect(x.All())
	require.Equal(t, []uint64{0, 1, 2, 3}, keys)
}

func capacityCuts(t *testing.T) {
	for _, n := range []int{1, 3, 4, 5, 127, 128, 129, 255, 256, 257, 128 * 7, 128*7 + 1, 128*128 + 1} {
		var keys []uint64
		for i := range n {
			keys = append(keys, uint64(i)*3)
		}
		for _, search := range []kvindex.Search{kvindex.SearchAuto, kvindex.SearchPlain} {
			x := load(t, keys, kvindex.Config{Search: search})
			requireAll(t, x, keys)
			require.Equal(t, (n+127)/128, x.Stats().Leaves)
		}
	}
}
