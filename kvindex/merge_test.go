package kvindex

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWeaving compares weaving with what copies nothing too much, for keys that are put, replaced and deleted.
func TestWeaving(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range Rounds(3000) {
		from, want := make([]uint64, random.IntN(maxCapacity+1)), []uint64{}
		for i := range from {
			from[i] = random.Uint64()
		}
		var written [maxBuffer]uint64
		var g gaps
		at := 0
		for i := range random.IntN(maxBuffer + 1) {
			next := at + min(random.IntN(len(from)-at+1), random.IntN(1+random.IntN(60)))
			put, out := random.IntN(2), min(random.IntN(2), len(from)-next)
			written[i] = random.Uint64()
			want = append(want, from[at:next]...)
			want = append(want, written[i:i+put]...)
			g.add(next, put, out)
			at = next + out
		}
		g.add(len(from), 0, 0)
		want = append(want, from[at:]...)
		require.Equal(t, len(want), g.to)

		room := make([]uint64, len(want)+16) // what is behind must stay as it is
		weave(room[:len(want)], from, &written, &g)
		require.Equal(t, append(want, make([]uint64, 16)...), room, "%+v", g)
		clear(room)
		goWeaveWords(room[:len(want)], from, &written, &g)
		require.Equal(t, want[:len(want):len(want)], room[:len(want)])
		texts, fromTexts, writtenTexts := make([]string, len(want)), make([]string, len(from)), [maxBuffer]string{}
		for i, v := range from {
			fromTexts[i] = string(binary.BigEndian.AppendUint64(nil, v))
		}
		for i, v := range written {
			writtenTexts[i] = string(binary.BigEndian.AppendUint64(nil, v))
		}
		weave(texts, fromTexts, &writtenTexts, &g)
		for i, text := range texts {
			require.Equal(t, want[i], binary.BigEndian.Uint64([]byte(text)))
		}
	}
}

// TestMergingKeepsFlips merges a leaf of which a value has changed by itself: Verify says so afterwards, as it did before.
func TestMergingKeepsFlips(t *testing.T) {
	x, err := New[uint64](Config{})
	require.NoError(t, err)
	for k := range uint64(40) {
		x.Put(1000*k, k)
	}
	require.NoError(t, x.Flush(t.Context()))
	l := x.leafOf(0)
	l.values[len(l.values)-1] ^= 1 << 20
	require.Error(t, x.Verify())
	for k := range uint64(maxBuffer) {
		x.Put(k, k)
	}
	require.NotSame(t, l, x.leafOf(0))
	require.Error(t, x.Verify())
}

// TestSplittingKeepsFlips splits a leaf of which a value or a key has changed by itself, in each of its parts: Verify says so
// afterwards, as it did before.
func TestSplittingKeepsFlips(t *testing.T) {
	for at := 0; at < 120; at += 7 {
		x := loaded(t, 120)
		l := x.leafOf(0)
		l.values[at] ^= 1 << 20
		require.Error(t, x.Verify())
		for k := range uint64(maxBuffer) {
			x.Put(k*10+5, k)
		}
		require.Greater(t, x.Stats().Leaves, 1)
		require.Error(t, x.Verify(), "value %d", at)
	}
}

// TestMergingAgreesWithGo compares the loops of merging with those that the processor may have its own form of.
func TestMergingAgreesWithGo(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	fitted := 0
	for range Rounds(4000) {
		shift, start := random.IntN(64), random.Uint64()
		keys := make([]uint64, 1+random.IntN(maxCapacity))
		for i := range keys {
			keys[i] = start>>1 + random.Uint64()>>(1+shift)
		}
		slices.Sort(keys)
		keys = slices.Compact(keys)
		n := len(keys)
		half := keys[random.IntN(n):]
		require.Equal(t, goSumOver(half, keys[0], uint64(shift/8)), sumOver(half, keys[0], uint64(shift/8)))

		slope := halves(keys).mid()
		if random.IntN(3) == 0 {
			slope = random.Uint64() >> random.IntN(64)
		}
		if p, ok := paceOf(slope, keys[n-1]-keys[0]); ok {
			least, most := goSpread(keys, &p)
			gotLeast, gotMost := spread(keys, &p)
			require.Equal(t, []int64{least, most}, []int64{gotLeast, gotMost}, "%d keys, %+v", n, p)
		}

		m, passed := fit(keys, halves(keys), 1<<random.IntN(5))
		if passed == n {
			fitted++
		}
		require.Equal(t, goProven(&m, keys), proven(&m, keys), "%+v", m)
		if passed < n {
			m = plainModel(n)
		}
		var of [maxBuffer]uint64
		for i := range of {
			of[i] = beside(keys)[random.IntN(3*n)]
		}
		var at, want [maxBuffer]int
		wanted := random.IntN(maxBuffer + 1)
		goPlaces(&m, keys, &of, wanted, &want)
		places(&m, keys, &of, wanted, &at)
		require.Equal(t, want, at, "%+v", m)
		for i, k := range of[:wanted] {
			i, want := at[i], slices.IndexFunc(keys, func(key uint64) bool { return key >= k })
			require.True(t, i == want || want < 0 && i == n, "key %d is at %d of %d, not %d", k, i, n, want)
		}

		var order, wantOrder [maxBuffer]uint8
		goRanks(&of, &wantOrder)
		ranks(&of, &order)
		require.Equal(t, wantOrder, order)
	}
	require.Greater(t, fitted, Rounds(1000))
	places(&model{}, nil, new([maxBuffer]uint64), maxBuffer, new([maxBuffer]int))
}
