package kvindex

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// flip is one change of a node's field, and how to take it back.
type flip struct {
	what string
	do   func()
	undo func()
}

// flipWord makes a flip of some bits of a field.
func flipWord[T uint8 | uint16 | uint64 | int](what string, field *T, bits T) flip {
	change := func() { *field ^= bits }
	return flip{fmt.Sprintf("%s ^ %#x", what, bits), change, change}
}

// flips are changes of every field of a tree's nodes.
func flips(n *inner[uint64], random *rand.Rand) (all []flip) {
	word := func(what string, field *uint64) {
		for _, bit := range []int{0, 8 * random.IntN(8), random.IntN(64)} {
			all = append(all, flipWord(what, field, 1<<bit))
		}
	}
	line := func(what string, m *model) {
		word(what+" origin", &m.origin)
		word(what+" slope", &m.slope)
		bit := 1 << random.IntN(15)
		all = append(all, flipWord(what+" limit", &m.limit, uint16(bit)),
			flipWord(what+" width", &m.width, uint16(bit)), flipWord(what+" ε", &m.eps, uint16(bit)))
	}
	other := unsafe.Pointer(new(leaf[uint64]))
	pointer := func(what string, field *unsafe.Pointer) {
		for _, to := range []unsafe.Pointer{nil, other} {
			was := *field
			all = append(all, flip{what, func() { *field = to }, func() { *field = was }})
		}
	}
	for i := range n.firsts {
		word("first", &n.firsts[i])
	}
	all = append(all, flipWord("count", &n.count, 1), flipWord("count", &n.count, 2))
	for i := range n.count {
		s := &n.segs[i]
		line("segment", &s.model)
		for j := range s.pivots {
			word("pivot", &s.pivots[j])
		}
		for j := range s.nodes {
			child := s.nodes[j].Load()
			all = append(all, flip{"child", func() { s.nodes[j].Store(n) }, func() { s.nodes[j].Store(child) }})
			all = append(all, flips(child, random)...)
		}
		for j := len(s.pivots); j < len(s.window); j += 1 + random.IntN(9) {
			word("window", &s.window[j])
		}
		for j := range s.leaves {
			at := &s.leaves[j]
			l := at.load()
			pointer("leaf", &at.leaf)
			pointer("shown", &at.shown)
			pointer("keys", &at.keys)
			pointer("values", &at.values)
			pointer("buffer", &at.buffer)
			word("slot's origin", &at.origin)
			word("slot's slope", &at.slope)
			word("slot's shape", &at.shape)
			line("leaf", &l.model)
			word("since", &l.since)
			for i := range l.keys {
				word("key", &l.keys[i])
				word("value", &l.values[i])
			}
			all = append(all, bufferFlips(l, random)...)
		}
	}
	return all
}

func bufferFlips(l *leaf[uint64], random *rand.Rand) (all []flip) {
	b := l.buf.Load()
	if b == nil {
		return nil
	}
	for i := range maxBuffer {
		all = append(all, flipWord("buffered key", &b.keys[i], 1<<random.IntN(64)),
			flipWord("buffered value", &b.values[i], 1<<random.IntN(64)), flipWord("tag", &b.tags[i], 1<<random.IntN(8)),
			flipWord("delta", &b.deltas[i], 1<<random.IntN(8)))
		kind := b.load().kind(i)
		if kind != slotPut && kind != slotDel {
			continue
		}
		for what, other := range map[string]uint64{"state": kind ^ slotDead, "unfinished": slotFree} {
			change := func() { b.word.Store(b.word.Load() ^ (kind^other)<<(slotBits*i)) }
			all = append(all, flip{what, change, change})
		}
	}
	return append(all, flipWord("born", &b.born, 1<<random.IntN(64)))
}

// answers are all that the flip test asks: they must be reached without a crash, or Verify has to report the flip.
func (x *Index[V]) answers(most uint64) (text string, crashed bool) {
	defer func() {
		if recover() != nil {
			crashed = true
		}
	}()
	for k := range most {
		v, ok := x.Get(k)
		floor, _, _ := x.Floor(k)
		text += fmt.Sprint(v, ok, floor, " ")
	}
	n := 0
	for k := range x.All() {
		text += fmt.Sprint(k, " ")
		if n++; n > 2*int(most) {
			break
		}
	}
	return text, false
}

// TestVerifyFindsEveryFlip changes each field of each node in turn: what changes an answer is reported. One change cannot
// be: that of a buffered write into one that is not finished.
func TestVerifyFindsEveryFlip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	most := uint64(100)
	if *Soak > 0 {
		most = 300
	}
	x, err := New[uint64](Config{LeafEpsilon: 1, InnerEpsilon: 1, LeafCapacity: 8, NodeSegments: 2, BufferCapacity: 3})
	require.NoError(t, err)
	for range most {
		k := random.Uint64N(most)
		x.Put(k, k)
		if random.IntN(4) == 0 {
			x.Delete(random.Uint64N(most))
		}
	}
	require.NoError(t, x.Verify())
	want, _ := x.answers(most)
	reported := map[string]int{}
	for _, f := range flips(x.root.Load(), random) {
		f.do()
		if x.Verify() != nil {
			reported[f.what]++
		} else if got, crashed := x.answers(most); crashed || got != want {
			require.True(t, f.what == "unfinished" && !crashed, "%s changes an answer and is not reported", f.what)
		}
		f.undo()
	}
	require.NoError(t, x.Verify())
	require.Greater(t, len(reported), 100)
}

// TestVerifyOfReplacedNodes has a walk that comes to a node which has been replaced, by one that shares its slots and is just
// changing one of them: that is no fault.
func TestVerifyOfReplacedNodes(t *testing.T) {
	x, err := New[uint64](Config{LeafEpsilon: 1, InnerEpsilon: 1, LeafCapacity: 4, NodeSegments: 7, BufferCapacity: 1})
	require.NoError(t, err)
	for k := range uint64(20) {
		x.Put(k*1000, k)
	}
	was := x.root.Load()
	shared := was.segs[0].leaves
	for k := uint64(19_001); x.root.Load() == was; k++ { // splits in the last segment replace the node
		x.Put(k, k)
	}
	now := x.root.Load()
	require.True(t, was.retired && &now.segs[0].leaves[0] == &shared[0], "a segment is shared")
	now.mu.Lock()
	v := verifier[uint64]{config: x.config, version: x.version.Load}
	shown := shared[0].shown
	shared[0].shown = nil
	_, err = v.inner(was, whole, "root")
	shared[0].shown = shown
	now.mu.Unlock()
	require.NoError(t, err)
	require.NoError(t, x.Verify())
}
