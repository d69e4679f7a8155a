package kvindex_test

import (
	"compress/gzip"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newRandom returns a generator whose seed stands in the test's log.
func newRandom(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// sorted makes keys distinct and puts them in order.
func sorted(keys []uint64) []uint64 {
	slices.Sort(keys)
	return slices.Compact(keys)
}

func uniform(random *rand.Rand, n int) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = random.Uint64()
	}
	return sorted(keys)
}

// dense4x draws n of 4n consecutive numbers.
func dense4x(random *rand.Rand, n int) []uint64 {
	var keys []uint64
	for k := range uint64(4 * n) {
		if random.IntN(4*n-int(k)) < n-len(keys) {
			keys = append(keys, k+1<<40)
		}
	}
	return keys
}

func lognormal(random *rand.Rand, n int) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = uint64(math.Exp(2*random.NormFloat64()) * 1e12)
	}
	return sorted(keys)
}

// clusters puts keys at both ends of the range and in runs of consecutive ones between.
func clusters(random *rand.Rand, n int) []uint64 {
	keys := []uint64{0, 1, math.MaxUint64 - 1, math.MaxUint64}
	for len(keys) < n {
		k := random.Uint64()
		for range random.IntN(50) {
			keys = append(keys, k)
			k += random.Uint64N(3)
		}
	}
	return sorted(keys)
}

// realKeys reads one of the sets under testdata/keys.
func realKeys(t testing.TB, name string) []uint64 {
	f, err := os.Open("../testdata/keys/" + name + ".u64.gz")
	require.NoError(t, err)
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	require.NoError(t, err)
	raw, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	keys := make([]uint64, len(raw)/8)
	for i := range keys {
		keys[i] = binary.LittleEndian.Uint64(raw[8*i:])
	}
	require.True(t, slices.IsSorted(keys))
	return keys
}

// keySets are all kinds, n keys of each generated one and all of the real ones.
func keySets(t testing.TB, n int) map[string][]uint64 {
	random := newRandom(t)
	steps := make([]uint64, n)
	for i := range steps {
		steps[i] = uint64(i) * 1000
	}
	return map[string][]uint64{
		"uniform":      uniform(random, n),
		"dense4x":      dense4x(random, n),
		"lognormal":    lognormal(random, n),
		"clusters":     clusters(random, n),
		"equal gaps":   steps,
		"far apart":    {0, 1, 2, 1 << 63, 1<<63 + 1, math.MaxUint64},
		"ip4":          realKeys(t, "ip4"),
		"ip6hi":        realKeys(t, "ip6hi"),
		"word_prefix8": realKeys(t, "word_prefix8"),
	}
}
