package kvindex_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/kvindex"
)

// register is one key's state: absent is 0.
type register = uint64

// operation is a call on one key with what came back. Its interval is in ticks of a clock that all goroutines share.
type operation struct {
	kind       byte // 'g'et, 'p'ut, 'b'lind put, 'd'elete
	value      register
	got        register // Get's result, or the value replaced or deleted
	begin, end uint64
}

// step returns the state after an operation, and whether the result fits the state before.
func (o operation) step(state register) (register, bool) {
	switch o.kind {
	case 'g':
		return state, o.got == state
	case 'b':
		return o.value, true
	case 'p':
		return o.value, o.got == state
	}
	return 0, o.got == state
}

// linearizable tells whether one key's history has an order that keeps every operation within its interval and explains
// every result (Wing and Gong's search, with the visited states remembered).
func linearizable(initial register, history []operation) bool {
	type visit struct {
		done  uint64
		state register
	}
	seen := map[visit]bool{}
	var search func(done uint64, state register) bool
	search = func(done uint64, state register) bool {
		if done == 1<<len(history)-1 {
			return true
		}
		if seen[visit{done, state}] {
			return false
		}
		seen[visit{done, state}] = true
		firstEnd := ^uint64(0)
		for i, o := range history {
			if done>>i&1 == 0 {
				firstEnd = min(firstEnd, o.end)
			}
		}
		for i, o := range history {
			if done>>i&1 != 0 || o.begin > firstEnd {
				continue
			}
			if next, fits := o.step(state); fits && search(done|1<<i, next) {
				return true
			}
		}
		return false
	}
	return search(0, initial)
}

// TestLinearizabilityChecker gives the checker histories whose verdict is known.
func TestLinearizabilityChecker(t *testing.T) {
	for name, c := range map[string]struct {
		history []operation
		want    bool
	}{
		"empty":                    {nil, true},
		"read what is there":       {[]operation{{'g', 0, 9, 1, 2}}, true},
		"read nothing":             {[]operation{{'g', 0, 0, 1, 2}}, false},
		"put then get":             {[]operation{{'p', 5, 9, 1, 2}, {'g', 0, 5, 3, 4}}, true},
		"stale read":               {[]operation{{'p', 5, 9, 1, 2}, {'g', 0, 9, 3, 4}}, false},
		"read of a running put":    {[]operation{{'p', 5, 9, 1, 9}, {'g', 0, 5, 3, 4}}, true},
		"new, then old":            {[]operation{{'p', 5, 9, 1, 9}, {'g', 0, 5, 2, 3}, {'g', 0, 9, 4, 5}}, false},
		"read of the future":       {[]operation{{'g', 0, 5, 1, 2}, {'p', 5, 9, 3, 4}}, false},
		"wrong old value":          {[]operation{{'p', 5, 9, 1, 2}, {'p', 6, 9, 3, 4}}, false},
		"same old value twice":     {[]operation{{'p', 5, 9, 1, 9}, {'p', 6, 9, 1, 9}}, false},
		"two puts in either order": {[]operation{{'p', 5, 6, 1, 9}, {'p', 6, 9, 1, 9}}, true},
		"lost blind put":           {[]operation{{'b', 5, 0, 1, 2}, {'g', 0, 9, 3, 4}}, false},
		"deleted twice":            {[]operation{{'d', 0, 9, 1, 2}, {'d', 0, 9, 3, 4}}, false},
		"deleted and gone":         {[]operation{{'d', 0, 9, 1, 2}, {'g', 0, 0, 3, 4}}, true},
	} {
		require.Equal(t, c.want, linearizable(9, c.history), name)
	}
}

// TestLinearizable records short histories of a few keys that share leaves, with restructuring all the time.
func TestLinearizable(t *testing.T) {
	random := newRandom(t)
	const workers, each, keys = 4, 12, 4
	for name, cfg := range shapes {
		x, err := kvindex.New[uint64](cfg)
		require.NoError(t, err)
		var clock, values atomic.Uint64
		for round := range kvindex.Rounds(120) {
			var initial [keys]register
			for k := range initial {
				initial[k], _ = x.Get(uint64(k))
			}
			var histories [workers][keys][]operation
			var wg sync.WaitGroup
			for w := range workers {
				r := rand.New(rand.NewPCG(random.Uint64(), 0))
				wg.Go(func() {
					for range each {
						k := r.IntN(keys)
						o := perform(x, uint64(k), r, &clock, &values)
						histories[w][k] = append(histories[w][k], o)
						x.PutBlind(100+r.Uint64N(50), 1) // neighbours, so that leaves split
						x.Delete(100 + r.Uint64N(50))
					}
				})
			}
			wg.Wait()
			for k := range keys {
				var history []operation
				for w := range workers {
					history = append(history, histories[w][k]...)
				}
				slices.SortFunc(history, func(a, b operation) int { return int(a.begin) - int(b.begin) })
				require.True(t, linearizable(initial[k], history), "%s, round %d, key %d from %d: %+v", name, round, k,
					initial[k], history)
			}
		}
		require.NoError(t, x.Verify())
	}
}

// perform does one random operation and notes when it began and ended.
func perform(x *kvindex.Index[uint64], k uint64, r *rand.Rand, clock, values *atomic.Uint64) operation {
	o := operation{kind: "gpbd"[r.IntN(4)], value: values.Add(1), begin: clock.Add(1)}
	switch o.kind {
	case 'g':
		o.got, _ = x.Get(k)
	case 'p':
		o.got, _ = x.Put(k, o.value)
	case 'b':
		x.PutBlind(k, o.value)
	default:
		o.got, _ = x.Delete(k)
	}
	o.end = clock.Add(1)
	return o
}
