package kvindex_test

import (
	"math"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/kvindex"
)

// last is the model's own definition of what a search must find.
func last(keys []uint64, k uint64) int {
	return sort.Search(len(keys), func(i int) bool { return keys[i] > k }) - 1
}

// requireWindows checks a model's window for every key, its neighbours and the ends of the range.
func requireWindows(t *testing.T, keys []uint64, m kvindex.Model) {
	t.Helper()
	check := func(k uint64) {
		lo := m.Start(k)
		want := max(last(keys, k), 0)
		if lo < 0 || lo+m.Width() > len(keys) || want < lo || want >= lo+m.Width() {
			require.Failf(t, "window", "key %d at %d of %d: window [%d, %d)", k, want, len(keys), lo, lo+m.Width())
		}
		if got := kvindex.Predecessor(keys, lo, m.Width(), k); got != want {
			require.Equal(t, want, got, "key %d", k)
		}
	}
	for i, k := range keys {
		check(k)
		check(k - 1)
		check(k + 1)
		if i+1 < len(keys) {
			check(k + (keys[i+1]-k)/2)
		}
	}
	check(0)
	check(math.MaxUint64)
}

type runFunc = func(keys []uint64, eps, limit int) (kvindex.Model, int)

// segments cuts all keys and checks each segment.
func segments(t *testing.T, keys []uint64, eps, limit int, run runFunc) (count int) {
	for len(keys) > 0 {
		m, n := run(keys, eps, limit)
		require.True(t, n >= 1 && n <= limit, "%d keys", n)
		requireWindows(t, keys[:n], m)
		keys = keys[n:]
		count++
	}
	return count
}

func TestSegmentsHoldTheirBound(t *testing.T) {
	for name, keys := range keySets(t, 20000) {
		keys = stretch(t, keys, 2500)
		for _, eps := range []int{1, 4, 8, 16} {
			for _, limit := range []int{4, 8, 128} {
				optimal := segments(t, keys, eps, limit, kvindex.OptimalRun)
				cone := segments(t, keys, eps, limit, kvindex.ConeRun)
				require.LessOrEqual(t, optimal, cone, "%s: ε %d, at most %d keys", name, eps, limit)
			}
		}
	}
}

// TestSegmentCounts compares with the published-method figures of an independent implementation.
func TestSegmentCounts(t *testing.T) {
	for name, want := range map[string]float64{"word_prefix8": 29.9, "ip4": 56.7, "ip6hi": 74.0} {
		keys := realKeys(t, name)
		count := 0
		for rest := keys; len(rest) > 0; count++ {
			_, n := kvindex.OptimalRun(rest, 8, 128)
			rest = rest[n:]
		}
		require.InDelta(t, want, float64(len(keys))/float64(count), 0.2, name)
	}
}

// TestOptimalRunIsLongest tries one key more than the run took, by brute force over pairs of bounds.
func TestOptimalRunIsLongest(t *testing.T) {
	random := newRandom(t)
	for range 300 {
		keys := clusters(random, 60)
		for i := range keys { // small enough for exact float64 slopes
			keys[i] = uint64(i)*3 + random.Uint64N(1<<20)
		}
		keys = sorted(keys)
		eps := 1 + random.IntN(4)
		_, n := kvindex.OptimalRun(keys, eps, 128)
		require.True(t, lineExists(keys[:n], eps), "%v", keys[:n])
		if n < len(keys) {
			require.False(t, lineExists(keys[:n+1], eps), "%v", keys[:n+1])
		}
	}
}

// lineExists tells whether a line passes within eps of all positions: no pair asks for a slope above another's most.
func lineExists(keys []uint64, eps int) bool {
	least, most := math.Inf(-1), math.Inf(1)
	for j := range keys {
		for i := range j {
			dx := float64(keys[j] - keys[i])
			least = max(least, float64(j-i-2*eps)/dx)
			most = min(most, float64(j-i+2*eps)/dx)
		}
	}
	return least <= most
}

func TestSmallRuns(t *testing.T) {
	for _, run := range []runFunc{kvindex.OptimalRun, kvindex.ConeRun} {
		for _, keys := range [][]uint64{
			{0}, {math.MaxUint64}, {0, math.MaxUint64}, {0, 1}, {math.MaxUint64 - 1, math.MaxUint64},
			{0, 1, math.MaxUint64}, {0, math.MaxUint64 - 1, math.MaxUint64},
		} {
			for _, eps := range []int{1, 8} {
				segments(t, keys, eps, 128, run)
			}
		}
	}
}

func TestRetrainCutsAllKeys(t *testing.T) {
	random := newRandom(t)
	for _, search := range []kvindex.Search{kvindex.SearchAuto, kvindex.SearchLearned, kvindex.SearchPlain} {
		for range 200 {
			keys := clusters(random, 5+random.IntN(140))
			keys = keys[:min(len(keys), 144)]
			sizes, models := kvindex.Retrain(keys, kvindex.Config{Search: search}, random.IntN(2) == 0)
			if len(keys) > 128 {
				require.Greater(t, len(sizes), 1)
			}
			rest := keys
			for i, n := range sizes {
				require.LessOrEqual(t, n, 128)
				requireWindows(t, rest[:n], models[i])
				rest = rest[n:]
			}
			require.Empty(t, rest)
		}
	}
}

func FuzzSegments(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255}, uint8(1))
	f.Fuzz(func(t *testing.T, raw []byte, eps uint8) {
		keys := sorted(wordsOf(raw))
		bound := 1 + int(eps)%56
		require.LessOrEqual(t, segments(t, keys, bound, 128, kvindex.OptimalRun),
			segments(t, keys, bound, 128, kvindex.ConeRun))
	})
}

// wordsOf reads little-endian words.
func wordsOf(raw []byte) (words []uint64) {
	for ; len(raw) >= 8; raw = raw[8:] {
		w := uint64(0)
		for i := range 8 {
			w |= uint64(raw[i]) << (8 * i)
		}
		words = append(words, w)
	}
	return words
}
