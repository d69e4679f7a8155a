package kvindex

import (
	"math/rand/v2"
	"slices"
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
		for k := range uint64(1024) { // so that leaves have room for new keys
			_, _, err := a.Put(k*1000, 1000)
			require.NoError(t, err)
		}
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

// before is memory with something to do before a word is read for the first time.
type before struct {
	words
	offset uint64
	do     func()
}

func (m *before) Load64(offset uint64) (uint64, error) {
	if offset == m.offset && m.do != nil {
		do := m.do
		m.do = nil
		do()
	}
	return m.words.Load64(offset)
}

// TestFollowersLearnWhatIsFree has a lookup in memory that follows an arena. It is on the way from a segment to a leaf when both
// are replaced. Another leaf is in the leaf's place then, and nothing in the segment's: but the plan before has cleared that.
func TestFollowersLearnWhatIsFree(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2)) // which meets it soon
	met := 0
	for met < 1 {
		a, err := NewArena(make([]uint64, 1<<13), Config{LeafEpsilon: 1, InnerEpsilon: 1, LeafCapacity: 4, NodeSegments: 2, BufferCapacity: 3})
		require.NoError(t, err)
		follower := append(words{}, a.words...)
		a.Follow(func(p Plan) { p.Execute(follower) })
		for k := range uint64(60) {
			_, _, err := a.Put(k, k+1000)
			require.NoError(t, err)
		}
		require.NoError(t, a.Flush())
		seg, _, i := bottom(a.root.Load(), 30)
		leaf := seg.leaves[i].load().at
		uid := a.words[seg.at/8+wordUID]
		slot := childSlot(seg.at, len(seg.pivots), i) / 8
		reused := func() bool { // the leaf's place, and not the segment's, whose slot still leads there
			if a.words[slot] != leaf || a.words[seg.at/8+wordUID] != uid || head(a.words[leaf/8]).kind() != kindLeaf {
				return false
			}
			free := slices.ContainsFunc(a.memory.free, func(f extent) bool { return int(seg.at/8) >= f.from && int(seg.at/8) < f.from+f.words })
			return free && slices.Contains(leaves(a.root.Load()), leaf) &&
				locate(a.root.Load(), 30, nil).leaf.at != leaf
		}
		v, ok, err := Lookup(&before{follower, leaf, func() {
			for range 300 {
				if k := random.Uint64N(60); k == 30 {
					continue
				} else if random.IntN(2) == 0 {
					_, _, err = a.Delete(k)
				} else {
					_, _, err = a.Put(k, k+2000)
				}
				require.NoError(t, err)
				if reused() {
					met++
					return
				}
			}
		}}, 30)
		if err != nil {
			require.ErrorIs(t, err, ErrMoved)
			continue
		}
		require.True(t, ok && v == 1030, "%d, %v", v, ok)
	}
}

// TestOpenedArenaClearsWhatWasRetired has blocks that waited for a reader when their owner ended. Whoever opens the arena clears
// them before it writes anywhere.
func TestOpenedArenaClearsWhatWasRetired(t *testing.T) {
	w, _ := hostileArena(t)
	old, err := OpenArena(w)
	require.NoError(t, err)
	old.Reader().epoch.enter() // and does not leave
	for k := range uint64(20) {
		_, _, err := old.Put(k, k)
		require.NoError(t, err)
	}
	a, err := OpenArena(w)
	require.NoError(t, err)
	require.NotEmpty(t, a.stale())
	a.Follow(func(p Plan) {
		require.NotEmpty(t, p.Cleared)
		a.follow = nil
	})
	for k := uint64(200); a.follow != nil; k++ {
		_, _, err := a.Put(k, k)
		require.NoError(t, err)
	}
	a.freed = nil
	require.Empty(t, a.stale())
	require.NoError(t, a.Verify())
}

// leaves are the places of all leaves below a node.
func leaves(n *inner[uint64]) (at []uint64) {
	n.walkSlots(func(s, _ *slot[uint64]) { at = append(at, s.load().at) })
	return at
}

// TestKilledWhileWriting has an owner that ends before each store of a plan, and before each store of a buffered write: what is
// left opens, and has what was acknowledged. So it is when the arena is full.
func TestKilledWhileWriting(t *testing.T) {
	for _, cfg := range []Config{{LeafEpsilon: 1, InnerEpsilon: 1, LeafCapacity: 4, NodeSegments: 2, BufferCapacity: 3}, {}} {
		a, err := NewArena(make([]uint64, 3<<8), cfg)
		require.NoError(t, err)
		before := append([]uint64{}, a.words...)
		var plans []Plan
		a.Follow(func(p Plan) { plans = append(plans, p) })
		opens, moved := 0, 0
		replay := func(what string, k uint64) {
			for _, p := range plans {
				p.stores(before, func(at *uint64, w uint64) {
					opened, err := OpenArena(append([]uint64{}, before...))
					require.NoError(t, err, "%s %d", what, k)
					require.NoError(t, opened.Verify())
					if opens++; opened.spare.taken {
						moved++
						_, _, err = opened.Delete(opened.spare.key)
						require.NoError(t, err)
						require.NoError(t, opened.vacate())
						require.NoError(t, opened.Verify())
					}
					*at = w
				})
			}
			plans = plans[:0]
			for i := range before { // what was written to buffers
				atomic.StoreUint64(&before[i], a.words[i])
			}
		}
		n := uint64(0)
		for ; err == nil; n++ {
			_, _, err = a.Put(n*7919%1009, n)
			replay("put", n)
		}
		require.ErrorIs(t, err, ErrFull)
		for k := range n {
			_, _, err := a.Delete(k * 7919 % 1009)
			require.NoError(t, err)
			replay("delete", k)
		}
		require.NotZero(t, opens)
		require.NotZero(t, moved)
	}
}
