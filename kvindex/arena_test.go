package kvindex_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/kvindex"
)

func newArena(t testing.TB, words int, cfg kvindex.Config) *kvindex.Arena {
	a, err := kvindex.NewArena(make([]uint64, words), cfg)
	require.NoError(t, err)
	return a
}

// requireArena compares all that a reader and a Lookup say with the reference.
func (m *reference) requireArena(t testing.TB, a *kvindex.Arena, random *rand.Rand) {
	t.Helper()
	r := a.Reader()
	defer r.Close()
	keys, values := collect(r.All())
	require.True(t, slices.Equal(m.keys, keys), "%d keys, want %d", len(keys), len(m.keys))
	for i, k := range keys {
		require.Equal(t, m.values[k], values[i])
	}
	for range 100 {
		k := m.near(random)
		want, exists := m.values[k]
		v, ok, err := r.Get(k)
		require.NoError(t, err)
		require.Equal(t, exists, ok, "key %d", k)
		require.Equal(t, want, v)
		v, ok, err = kvindex.Lookup(a.Memory(), k)
		require.NoError(t, err)
		require.Equal(t, exists, ok, "key %d", k)
		require.Equal(t, want, v)
	}
}

func TestArenaAgainstASortedSlice(t *testing.T) {
	random := newRandom(t)
	for name, cfg := range shapes {
		t.Run(name, func(t *testing.T) {
			a := newArena(t, 1<<18, cfg)
			baseline, waiting := a.InUse()
			require.Zero(t, waiting)
			m := newReference()
			for range 2 {
				for phase, deletions := range []int{10, 45, 10, 90} {
					for range 500 {
						k, v := m.near(random), random.Uint64()
						if random.IntN(100) < deletions {
							want, exists := m.remove(k)
							old, ok, err := a.Delete(k)
							require.NoError(t, err)
							require.Equal(t, exists, ok, "delete %d", k)
							require.Equal(t, want, old)
							continue
						}
						want, exists := m.put(k, v)
						old, ok, err := a.Put(k, v)
						require.NoError(t, err)
						require.Equal(t, exists, ok, "put %d", k)
						require.Equal(t, want, old)
					}
					require.NoError(t, a.Verify(), "phase %d", phase)
					m.requireArena(t, a, random)
				}
				for _, k := range slices.Clone(m.keys) {
					m.remove(k)
					_, ok, err := a.Delete(k)
					require.NoError(t, err)
					require.True(t, ok)
				}
				require.NoError(t, a.Flush())
				require.NoError(t, a.Verify())
				live, waiting := a.InUse()
				require.Equal(t, baseline, live, "bytes in use after everything was deleted")
				require.Zero(t, waiting)
			}
		})
	}
}

func TestLoadAndOpenArena(t *testing.T) {
	random := newRandom(t)
	keys := clusters(random, 5000)
	words := make([]uint64, 1<<16)
	a, err := kvindex.LoadArena(words, pairs(keys, inverse), kvindex.Config{})
	require.NoError(t, err)
	m := newReference()
	for _, k := range keys {
		m.put(k, ^k)
	}
	m.requireArena(t, a, random)
	for range 2000 {
		k, v := m.near(random), random.Uint64()
		m.put(k, v)
		_, _, err := a.Put(k, v)
		require.NoError(t, err)
	}
	require.NoError(t, a.Verify())
	b, err := kvindex.OpenArena(slices.Clone(words))
	require.NoError(t, err)
	require.NoError(t, b.Verify())
	m.requireArena(t, b, random)
	for range 2000 {
		k := m.near(random)
		_, exists := m.remove(k)
		_, ok, err := b.Delete(k)
		require.NoError(t, err)
		require.Equal(t, exists, ok)
	}
	require.NoError(t, b.Verify())
	m.requireArena(t, b, random)
	for _, bad := range [][]uint64{nil, make([]uint64, 10), make([]uint64, 1<<10), words[:1<<10]} {
		_, err := kvindex.OpenArena(bad)
		require.Error(t, err)
	}
}

// fill puts random keys, and writes again to those that are there, until the arena is full.
func (m *reference) fill(t testing.TB, a *kvindex.Arena, random *rand.Rand) {
	for n := 0; ; n++ {
		k := random.Uint64()
		if n%5 == 4 {
			k = m.keys[random.IntN(len(m.keys))]
		}
		if _, _, err := a.Put(k, ^k); err != nil {
			require.ErrorIs(t, err, kvindex.ErrFull)
			require.NotContains(t, m.values, k, "a key that is there can be written to")
			break
		}
		m.put(k, ^k)
	}
	require.NoError(t, a.Verify())
	m.requireArena(t, a, random)
}

// TestFullArena runs out of memory: the put that does not fit changes nothing, and everything else goes on working until the
// arena is empty. Then there is as much room as at first.
func TestFullArena(t *testing.T) {
	random := newRandom(t)
	for name, cfg := range shapes {
		a := newArena(t, 1<<13, cfg)
		baseline, _ := a.InUse()
		m := newReference()
		for round := range 3 {
			m.fill(t, a, random)
			require.Greater(t, len(m.keys), 80, name)
			if round == 1 {
				require.NoError(t, a.Flush())
				require.NoError(t, a.Verify())
			}
			for i, at := range random.Perm(len(m.keys)) {
				k := slices.Clone(m.keys)[at%len(m.keys)]
				if i%4 == 0 {
					_, _, err := a.Put(k, uint64(i))
					require.NoError(t, err, "%s: a key that is there, %d keys", name, len(m.keys))
					m.put(k, uint64(i))
					continue
				}
				_, ok, err := a.Delete(k)
				require.NoError(t, err, "%s: delete with %d keys left", name, len(m.keys))
				require.True(t, ok)
				m.remove(k)
				if i%100 == 0 {
					require.NoError(t, a.Verify())
				}
			}
			m.requireArena(t, a, random)
		}
		m.empty(t, a, name)
		live, waiting := a.InUse()
		require.Zero(t, waiting)
		require.Equal(t, baseline, live, name)
	}
	_, err := kvindex.NewArena(make([]uint64, 10), small)
	require.Error(t, err)
}

// empty deletes every key, of which none may be refused.
func (m *reference) empty(t *testing.T, a *kvindex.Arena, name string) {
	t.Helper()
	for _, k := range slices.Clone(m.keys) {
		_, _, err := a.Delete(k)
		require.NoError(t, err, name)
		m.remove(k)
	}
	require.NoError(t, a.Flush())
	require.NoError(t, a.Verify())
}

// TestFullArenaBesideAStuckReader has a reader that does not leave: deletes may then find no memory, which changes nothing, and
// work again when it has left.
func TestFullArenaBesideAStuckReader(t *testing.T) {
	random := newRandom(t)
	refused := 0 // of some shapes now and then none
	for name, cfg := range shapes {
		a := newArena(t, 1<<12, cfg)
		m := newReference()
		m.fill(t, a, random)
		reader := a.Reader()
		for range 3 {
			kvindex.Enter(reader)
			for _, k := range slices.Clone(m.keys)[:len(m.keys)/4] {
				_, ok, err := a.Delete(k)
				if err == nil {
					require.True(t, ok)
					m.remove(k)
					continue
				}
				require.ErrorIs(t, err, kvindex.ErrFull)
				refused++
				require.NoError(t, a.Verify())
			}
			m.requireArena(t, a, random)
			kvindex.Leave(reader)
			require.NoError(t, a.Verify())
			m.fill(t, a, random)
		}
		m.empty(t, a, name)
	}
	require.NotZero(t, refused)
}

// TestArenaFindsEveryFlip flips bits of every word, one at a time: what changes an answer is reported.
func TestArenaFindsEveryFlip(t *testing.T) {
	random := newRandom(t)
	words := make([]uint64, 3<<9)
	a, err := kvindex.NewArena(words, small)
	require.NoError(t, err)
	m := newReference()
	for range 25 {
		k, v := random.Uint64N(100), random.Uint64()
		m.put(k, v)
		_, _, err := a.Put(k, v)
		require.NoError(t, err)
	}
	require.NoError(t, a.Flush())
	for range 8 { // some buffers hold writes
		k := m.keys[random.IntN(len(m.keys))]
		if random.IntN(2) == 0 {
			m.remove(k)
			_, _, err = a.Delete(k)
		} else {
			m.put(k, k)
			_, _, err = a.Put(k, k)
		}
		require.NoError(t, err)
	}
	require.NoError(t, a.Verify())
	reported := 0
	for i := range words {
		for range kvindex.Rounds(1) {
			bit := random.IntN(64)
			words[i] ^= 1 << bit
			if a.Verify() != nil {
				reported++
			} else {
				require.True(t, m.answers(a), "word %d, bit %d changes an answer and is not reported", i, bit)
			}
			words[i] ^= 1 << bit
		}
	}
	require.NoError(t, a.Verify())
	require.Greater(t, reported, 150)
}

// answers tells whether an arena gives every answer that the reference gives.
func (m *reference) answers(a *kvindex.Arena) bool {
	r := a.Reader()
	defer r.Close()
	for k := range uint64(100) {
		want, exists := m.values[k]
		if v, ok, err := r.Get(k); err != nil || ok != exists || v != want {
			return false
		}
	}
	keys, _ := collect(r.All())
	return slices.Equal(keys, m.keys)
}

// TestArenaReadersBesideAWriter reads through epochs, and without any protection, while blocks are replaced and reused.
func TestArenaReadersBesideAWriter(t *testing.T) {
	a := newArena(t, 1<<21, small)
	random := newRandom(t)
	for k := range uint64(300) {
		_, _, err := a.Put(k*10, k*10)
		require.NoError(t, err)
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	check := func(k, v uint64, ok bool) {
		if ok && v%1_000_000 != k || !ok && k%10 == 0 {
			t.Errorf("key %d: %d, %v", k, v, ok)
		}
	}
	for range 2 {
		r := rand.New(rand.NewPCG(random.Uint64(), 0))
		reader := a.Reader()
		wg.Go(func() {
			for !done.Load() {
				k := r.Uint64N(3000)
				v, ok, err := reader.Get(k)
				if err != nil {
					t.Error(err)
				}
				check(k, v, ok)
				before := uint64(0)
				for k, v := range reader.Range(k, k+200) {
					check(k, v, true)
					if k < before {
						t.Errorf("key %d after %d", k, before)
					}
					before = k
				}
				v, ok, err = kvindex.Lookup(a.Memory(), k)
				if err == nil {
					check(k, v, ok)
				} else if !errors.Is(err, kvindex.ErrMoved) {
					t.Error(err)
				}
			}
		})
	}
	for range kvindex.Rounds(3000) {
		k := random.Uint64N(3000)
		var err error
		if k%10 != 0 && random.IntN(2) == 0 {
			_, _, err = a.Delete(k)
		} else {
			_, _, err = a.Put(k, k+1_000_000*random.Uint64N(1000))
		}
		require.NoError(t, err)
	}
	done.Store(true)
	wg.Wait()
	require.NoError(t, a.Verify())
}

// TestEpochs holds memory for a reader that is stuck, and for none that is idle.
func TestEpochs(t *testing.T) {
	a := newArena(t, 1<<16, small)
	for k := range uint64(200) {
		_, _, err := a.Put(k, k)
		require.NoError(t, err)
	}
	idle, stuck := a.Reader(), a.Reader()
	_, _, err := idle.Get(1)
	require.NoError(t, err)
	kvindex.Enter(stuck)
	_, before := a.InUse()
	require.Zero(t, before, "retired before the reader started")
	for k := range uint64(200) {
		_, _, err := a.Put(k, k+1)
		require.NoError(t, err)
	}
	_, waiting := a.InUse()
	require.NotZero(t, waiting)
	kvindex.Leave(stuck)
	kvindex.Enter(stuck) // again, but what was retired before does not matter to it
	_, waiting = a.InUse()
	require.Zero(t, waiting)
	require.NoError(t, stuck.Close())
	require.NoError(t, idle.Close())
	require.NoError(t, a.Verify())
}

// meddler is a memory whose owner does something between two reads.
type meddler struct {
	kvindex.Memory
	wait int
	do   func()
}

func (m *meddler) tick() {
	if m.wait--; m.wait == -1 {
		m.do()
	}
}

func (m *meddler) Load64(offset uint64) (uint64, error) {
	m.tick()
	return m.Memory.Load64(offset)
}

func (m *meddler) LoadLine(offset uint64, line *[8]uint64) error {
	m.tick()
	return m.Memory.LoadLine(offset, line)
}

// TestLookupNoticesReuse changes and reuses memory before each read of a lookup in turn: the answer is right, or none. So it is
// in memory that follows the arena, where nobody but the plans says what is free.
func TestLookupNoticesReuse(t *testing.T) {
	random := newRandom(t)
	for _, follows := range []bool{false, true} {
		moved := 0
		for wait, finished := 0, false; !finished; wait++ {
			finished = true
			for range kvindex.Rounds(1) {
				memory := make([]uint64, 1<<13)
				a, err := kvindex.NewArena(memory, small)
				require.NoError(t, err)
				if follows {
					memory = slices.Clone(memory)
					a.Follow(func(p kvindex.Plan) { p.Execute(memory) })
				}
				for k := range uint64(60) {
					_, _, err := a.Put(k, k+1000)
					require.NoError(t, err)
				}
				require.NoError(t, a.Flush())
				m := &meddler{kvindex.Words(memory), wait, func() {
					finished = false
					for range 5 + random.IntN(200) {
						k, err := random.Uint64N(60), error(nil)
						if k == 30 {
							continue
						}
						if random.IntN(2) == 0 {
							_, _, err = a.Delete(k)
						} else {
							_, _, err = a.Put(k, k+2000)
						}
						require.NoError(t, err)
					}
				}}
				v, ok, err := kvindex.Lookup(m, 30)
				if err != nil {
					require.ErrorIs(t, err, kvindex.ErrMoved)
					moved++
					continue
				}
				require.True(t, ok && v == 1030, "before read %d: %d, %v; follows: %v", wait, v, ok, follows)
			}
		}
		require.NotZero(t, moved)
	}
}

// TestPlansAreAllOfTheTree executes every plan in a second memory as well: once no buffer holds a write, it is the same
// arena.
func TestPlansAreAllOfTheTree(t *testing.T) {
	random := newRandom(t)
	words := make([]uint64, 1<<18)
	a, err := kvindex.NewArena(words, small)
	require.NoError(t, err)
	replica := slices.Clone(words)
	plans := 0
	a.Follow(func(p kvindex.Plan) {
		plans++
		p.Execute(replica)
	})
	m := newReference()
	for _, deletions := range []int{20, 70, 20} {
		for range 1000 {
			k, v := m.near(random), random.Uint64()
			if random.IntN(100) < deletions {
				m.remove(k)
				_, _, err = a.Delete(k)
			} else {
				m.put(k, v)
				_, _, err = a.Put(k, v)
			}
			require.NoError(t, err)
		}
		require.NoError(t, a.Flush())
		b, err := kvindex.OpenArena(slices.Clone(replica))
		require.NoError(t, err)
		m.requireArena(t, b, random)
	}
	require.Greater(t, plans, 500)
	a.Follow(nil)
	seen := plans
	for k := range uint64(20) {
		_, _, err := a.Put(k, k)
		require.NoError(t, err)
	}
	require.Equal(t, seen, plans)
}
