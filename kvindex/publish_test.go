package kvindex

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a reader of the model reads of a leaf with one key: both ends, the key, the value and the check.
var watched = [...]int{0, lineWords, 2 * lineWords, 3 * lineWords, 4*lineWords - 1}

type seen [len(watched)]uint64

// event is a store of the owner, of a word that is watched.
type event struct {
	word  int
	value uint64
}

// oneKeyLeaf is a block as an arena writes it. UIDs are in the header's generation alone, so that five words tell blocks apart.
func oneKeyLeaf(generation uint32) []uint64 {
	n := blockWords(kindLeaf, 1)
	words := make([]uint64, n)
	h := newHead(kindLeaf, 1, n, generation)
	words[0], words[n-1] = uint64(h), h.generation()
	words[lineWords], words[2*lineWords] = 10+h.generation(), 20+h.generation()
	words[n-lineWords] = blockCheck(words)
	return words
}

// lifeOfAPlace is what is at a place of an arena at first, and all stores of the owner there while the block is freed and others
// are put there: a leaf, and leaves again.
func lifeOfAPlace() (first []uint64, events []event) {
	place := oneKeyLeaf(1)
	first = append(first, place...)
	store := func(at *uint64, w uint64) {
		*at = w
		for i := range watched {
			if at == &place[watched[i]] {
				events = append(events, event{i, w})
			}
		}
	}
	arena := append(make([]uint64, minArena), place...)
	place = arena[minArena:]
	for generation := uint32(2); generation <= 3; generation++ {
		store(&place[0], 0) // as reclaim does
		store(&place[len(place)-1], 0)
		p := Plan{Copies: []Copy{{8 * minArena, oneKeyLeaf(generation)}}}
		p.stores(arena, store)
	}
	return first, events
}

// readings calls look with all that a reader can get which reads in this order, each word at any moment of the place's life.
func readings(order []int, look func(got []uint64)) {
	first, events := lifeOfAPlace()
	var words seen
	for i, at := range watched {
		words[i] = first[at]
	}
	got := make([]uint64, len(order))
	var read func(n, done int, words seen)
	read = func(n, done int, words seen) {
		if n == len(order) {
			look(got)
			return
		}
		for {
			got[n] = words[order[n]]
			read(n+1, done, words)
			if done == len(events) {
				return
			}
			words[events[done].word] = events[done].value
			done++
		}
	}
	read(0, 0, words)
}

// orders calls use with every order of the words in between a first and a last part.
func orders(first, between, last []int, use func(order []int)) {
	if len(between) == 0 {
		use(append(append([]int{}, first...), last...))
		return
	}
	for i, w := range between {
		rest := append(append([]int{}, between[:i]...), between[i+1:]...)
		orders(append(append([]int{}, first...), w), rest, last, use)
	}
}

// TestReadersOfReusedPlaces is a model of an owner, whose stores are those of Plan.Execute, and a reader of one block, with all
// interleavings of their words. It has what a reader must do to get one block and no mixture.
func TestReadersOfReusedPlaces(t *testing.T) {
	whole := map[seen]bool{}
	for generation := uint32(1); generation <= 3; generation++ {
		var s seen
		for i, at := range watched {
			s[i] = oneKeyLeaf(generation)[at]
		}
		s[4] = 0 // the header has it too
		whole[s] = true
	}
	ends := func(s seen) bool { return head(s[0]).possible() && head(s[0]).generation() == s[4] }
	checked := func(s seen) bool {
		words := make([]uint64, blockWords(kindLeaf, 1))
		for i, at := range watched {
			words[at] = s[i]
		}
		return head(s[0]).possible() && s[3] == blockCheck(words)
	}
	torn := func(first, between, last []int, believed func(got []uint64, s seen) bool) (torn, proven int) {
		orders(first, between, last, func(order []int) {
			readings(order, func(got []uint64) {
				var s seen
				for i, w := range order {
					s[w] = got[i]
				}
				if !believed(got, s) {
					return
				}
				s[4] = 0
				if proven++; !whole[s] {
					torn++
				}
			})
		})
		return torn, proven
	}
	all := []int{0, 1, 2, 3, 4}

	n, proven := torn(all, nil, nil, func(_ []uint64, s seen) bool { return ends(s) })
	require.Zero(t, n, "of %d copies that were read upwards and have the same generation at both ends", proven)
	require.NotZero(t, proven)

	n, _ = torn(nil, all, nil, func(_ []uint64, s seen) bool { return ends(s) })
	require.NotZero(t, n, "generations at both ends prove nothing about words that were read in any order")

	n, proven = torn(nil, all, nil, func(_ []uint64, s seen) bool { return checked(s) })
	require.Zero(t, n, "of %d copies that were read in any order and have the right check", proven)
	require.NotZero(t, proven)

	n, proven = torn([]int{0}, all[1:], []int{0}, func(got []uint64, s seen) bool {
		return head(s[0]).possible() && got[0] == got[len(got)-1]
	})
	require.Zero(t, n, "of %d copies with the same header before and after", proven)
	require.NotZero(t, proven)
}

// TestCopiesClearWhatWasThere has blocks of other sizes where a block is put: none of their ends stays while it is written.
func TestCopiesClearWhatWasThere(t *testing.T) {
	words := append(make([]uint64, minArena), append(oneKeyLeaf(1), oneKeyLeaf(2)...)...)
	n := blockWords(kindLeaf, 17)
	block := make([]uint64, n)
	block[0] = uint64(newHead(kindLeaf, 17, n, 3))
	var first []*uint64
	p := Plan{Copies: []Copy{{8 * minArena, block}}}
	p.stores(words, func(at *uint64, w uint64) {
		first = append(first, at)
		*at = w
	})
	place := words[minArena:]
	require.Equal(t, []*uint64{&place[0], &place[31], &place[32], &place[63]}, first[:4])
}

// unordered is memory whose lines come as a card may bring them: the first words later than the others.
type unordered struct {
	words
	line func(offset uint64, line *[lineWords]uint64)
}

func (m unordered) LoadLine(offset uint64, line *[lineWords]uint64) error {
	if err := m.words.LoadLine(offset, line); err != nil {
		return err
	}
	m.line(offset, line)
	return nil
}

// replaceInPlace writes to an arena until the leaf of key is a new one at the place where it was, and the old one's line would
// lead astray in the new one's keys. Each 16 writes take 8 keys from below and put 8 above.
func replaceInPlace(t *testing.T, a *Arena, key uint64) bool {
	l := locate(a.root.Load(), key, nil).leaf
	line, header := l.model, a.words[l.at/8]
	low, high := l.keys[0], l.keys[len(l.keys)-1]-500
	for i := 0; low < key && high > key; i++ {
		var err error
		if i%2 == 0 {
			_, _, err = a.Delete(low)
			low += 1000
		} else {
			_, _, err = a.Put(high, 2000)
			high -= 1000
		}
		require.NoError(t, err)
		now := locate(a.root.Load(), key, nil).leaf
		if now.at != l.at || a.words[l.at/8] == header || !line.fits(len(now.keys)) {
			continue
		}
		if now.keys[predecessor(now.keys, line.start(key), int(line.width), key)] != key {
			return true
		}
	}
	return false
}

// TestLookupOfATornLine looks for a key whose leaf is replaced while the leaf's line is read, and replaced again at the same
// place: the line has words of both, and the slot leads there before and after.
func TestLookupOfATornLine(t *testing.T) {
	torn := 0
	for seed := range uint64(60) {
		a, err := LoadArena(make([]uint64, 1<<15), func(yield func(k, v uint64) bool) {
			for k := range uint64(1024) {
				if !yield(k*1000, 1000) {
					return
				}
			}
		}, Config{})
		require.NoError(t, err)
		for k := range 17 + seed { // so that places are free in front
			_, _, err := a.Put(k*1000, 1000)
			require.NoError(t, err)
		}
		key := 430_000 + seed%20*1000
		at, tried := locate(a.root.Load(), key, nil).leaf.at, false
		v, ok, err := Lookup(unordered{a.words, func(offset uint64, line *[lineWords]uint64) {
			if offset == at && !tried {
				tried = true
				if replaceInPlace(t, a, key) {
					torn++
					line[0], line[1] = a.words[at/8], a.words[at/8+1]
				}
			}
		}}, key)
		if err != nil {
			require.ErrorIs(t, err, ErrMoved)
			continue
		}
		require.True(t, ok && v == 1000, "seed %d: %d, %v", seed, v, ok)
	}
	require.NotZero(t, torn)
}

// TestKilledWhileWriting has an owner that ends before each store of a plan, and before each store of a buffered write: what is
// left opens, and has what was acknowledged.
func TestKilledWhileWriting(t *testing.T) {
	for _, cfg := range []Config{{LeafEpsilon: 1, InnerEpsilon: 1, LeafCapacity: 4, NodeSegments: 2, BufferCapacity: 3}, {}} {
		a, err := NewArena(make([]uint64, 1<<12), cfg)
		require.NoError(t, err)
		before := append([]uint64{}, a.words...)
		var plans []Plan
		a.Follow(func(p Plan) { plans = append(plans, p) })
		opens := 0
		for k := range uint64(35) {
			plans = plans[:0]
			_, _, err := a.Put(k*7%35, k)
			require.NoError(t, err)
			for _, p := range plans {
				p.stores(before, func(at *uint64, w uint64) {
					opened, err := OpenArena(append([]uint64{}, before...))
					require.NoError(t, err, "put %d", k)
					require.NoError(t, opened.Verify())
					opens++
					*at = w
				})
			}
			for i := range before { // what was written to buffers
				atomic.StoreUint64(&before[i], a.words[i])
			}
		}
		require.NotZero(t, opens)
	}
}
