package kvindex_test

import (
	"cmp"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/kvindex"
)

// TestTiesOfOnePrefix has many keys with one prefix, put and deleted in random order: an operation compares, and a put copies,
// about as much as the logarithm of their number.
func TestTiesOfOnePrefix(t *testing.T) {
	random := newRandom(t)
	compared := 0
	x, err := kvindex.NewTied[string, int](kvindex.StringKey, func(a, b string) int {
		compared++
		return cmp.Compare(a, b)
	}, kvindex.Config{})
	require.NoError(t, err)
	n := kvindex.Rounds(3000)
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("https://example.org/%08d", i)
	}
	most := 12 * bits.Len(uint(n)) // compares: about four a level of a treap of n/20 runs, and five in the run
	bounded := func(what, k string, operation func()) {
		compared = 0
		operation()
		if compared > most {
			require.LessOrEqual(t, compared, most, "compares of %s %s among %d keys", what, k, n)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, i := range random.Perm(n) {
		bounded("put", keys[i], func() { x.Put(keys[i], i) })
	}
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/uint64(n), uint64(6000), "bytes a put")
	require.NoError(t, x.Verify())
	require.Equal(t, n, x.Len())
	i := 0
	for k, v := range x.All() {
		require.True(t, k == keys[i] && v == i)
		i++
	}
	for range 50 {
		lo, hi := random.IntN(n), random.IntN(n)
		var got []string
		bounded("the begin of a range from", keys[lo], func() {
			for range x.Range(keys[lo], keys[hi]) {
				break
			}
		})
		for k := range x.Range(keys[lo], keys[hi]) {
			got = append(got, k)
		}
		require.True(t, slices.Equal(keys[lo:max(lo, hi+1)], got))
	}
	for at, i := range random.Perm(n) {
		bounded("get", keys[i], func() {
			v, ok := x.Get(keys[i])
			require.True(t, ok && v == i)
		})
		bounded("delete", keys[i], func() {
			v, ok := x.Delete(keys[i])
			require.True(t, ok && v == i)
		})
		_, ok := x.Get(keys[i])
		require.False(t, ok)
		if at%(n/8) == 0 {
			require.NoError(t, x.Verify())
			require.Equal(t, n-at-1, x.Len())
		}
	}
	require.Zero(t, x.Len())
	_, ok := x.Delete(keys[0])
	require.False(t, ok)
}
