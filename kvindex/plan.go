package kvindex

import (
	"fmt"
	"math"
	"sync/atomic"
)

// Plan is a change of an arena's tree as a list of records. A plan does not change any more once it is made.
//
// An executor makes every store of 8 bytes at once, and each visible before the next (a release):
//
//  1. both ends of every Cleared range become 0: its first word, then its last. These are blocks that earlier plans have
//     retired, and that no reader of the owner's can be looking at any more. Other memory that follows the arena has readers
//     that the owner does not know. They may still be on the way through such a block, to a block of a Copy's place before:
//     the header that is gone tells them so.
//  2. all Copies, in any order. Within a Copy the order matters, since a Lookup may still be reading a block that was there
//     before. First goes, in every line of the range, a first word that may be a block's header and a last word that may be
//     its generation: both become 0. Then come the words from the last to the first: the block's generation at its end, its
//     body, and its header last.
//  3. the UID. Memory whose owner is killed before a Connect then has blocks that nothing leads to, and no UID that was not
//     given.
//  4. the Connects, in order.
//
// After that no new reader reaches the Retired ranges. A later plan clears them before any plan writes there. A Lookup needs
// no more than this order: it reads a block's header before and after whatever it believes of the block.
type Plan struct {
	Cleared  []Range
	Copies   []Copy
	Connects []Connect
	Retired  []Range
	UID      uint64 // the last one given, for the superblock; only OpenArena looks at it
}

// Execute carries out a plan in memory of this process, which words are: the arena's own, or memory that follows it.
func (p *Plan) Execute(words []uint64) { p.stores(words, atomic.StoreUint64) }

// stores are what Execute stores, in order.
func (p *Plan) stores(words []uint64, store func(at *uint64, w uint64)) {
	for _, r := range p.Cleared {
		block := words[r.Offset/8:][:r.Bytes/8]
		store(&block[0], 0)
		store(&block[len(block)-1], 0)
	}
	for _, c := range p.Copies {
		place := words[c.Offset/8:][:len(c.Words)]
		for line := 0; line < len(place); line += lineWords {
			clearEnds(&place[line], &place[line+lineWords-1], store)
		}
		for i := len(place) - 1; i >= 0; i-- {
			store(&place[i], c.Words[i])
		}
	}
	store(&words[superUID], p.UID)
	for _, c := range p.Connects {
		store(&words[c.Slot/8], c.Offset)
	}
}

// clearEnds makes 0 of a line's first word where it may be the header of a block, and of its last one where it may be a
// generation.
func clearEnds(first, last *uint64, store func(at *uint64, w uint64)) {
	if head(atomic.LoadUint64(first)).possible() {
		store(first, 0)
	}
	if w := atomic.LoadUint64(last); w != 0 && w <= math.MaxUint32 {
		store(last, 0)
	}
}

// Follow calls each with every plan from now on, so that memory elsewhere, such as an accelerator's, can follow the tree:
// after the plan was executed here and before any memory that it retires is used again. Other writers wait meanwhile, and
// each must not write to the arena. Writes to a buffer are not plans: its block comes empty, and whoever serves the other
// memory writes there. nil ends it.
func (a *Arena) Follow(each func(Plan)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.follow = each
}

// Copy puts a block, which is whole lines, where nothing reachable refers to yet. Plan has the order of its stores.
type Copy struct {
	Offset uint64 // bytes from the start of the arena
	Words  []uint64
}

// Connect stores the offset of a block in a slot: a child slot, or the superblock's root.
type Connect struct {
	Slot, Offset uint64 // bytes from the start of the arena
}

// Range is a block's place.
type Range struct {
	Offset uint64 // bytes from the start of the arena
	Bytes  int
}

// planner turns new nodes of the tree into records. It allocates their memory; undo gives it back.
type planner struct {
	arena *Arena
	plan  Plan
	taken []Range
	uid   uint64          // the last one given before
	room  int             // keys that a leaf's place has room for beyond its own
	given Range           // where a leaf goes; no bytes: where memory is free
	kept  map[uint64]bool // segments that new inner nodes refer to
	done  []func()        // what the nodes learn when the plan is executed
}

func newPlanner(a *Arena) *planner {
	return &planner{arena: a, uid: a.lastUID, room: a.config.BufferCapacity, kept: map[uint64]bool{}}
}

// block allocates a block and fills its first and last words.
func (p *planner) block(kind, count int) (offset uint64, words []uint64, err error) {
	n := blockWords(kind, count)
	if kind == kindLeaf {
		n = blockWords(kind, count+p.room)
	}
	if p.arena.lastUID == math.MaxUint64 {
		return 0, nil, fmt.Errorf("kvindex: write to arena: all %d UIDs are used up: load its pairs into a new arena", p.arena.lastUID)
	}
	if offset, n, err = p.allocate(n); err != nil {
		return 0, nil, err
	}
	p.arena.lastUID++
	h := newHead(kind, count, n, uint32(p.arena.lastUID))
	words = make([]uint64, n)
	words[0], words[wordUID], words[n-1] = uint64(h), p.arena.lastUID, h.generation()
	return offset, words, nil
}

// allocate finds the place of a block. A leaf that is given one has at most that.
func (p *planner) allocate(n int) (offset uint64, words int, err error) {
	memory := &p.arena.memory
	if p.given.Bytes > 0 {
		n = min(n, p.given.Bytes/8)
		memory.used += n
		return p.given.Offset, n, nil
	}
	from, ok := memory.allocate(n)
	if !ok {
		p.arena.free()
		from, ok = memory.allocate(n)
	}
	if !ok {
		return 0, 0, fmt.Errorf("%w: it needs %d bytes in one piece; of %d bytes %d are in use: give it more memory", ErrFull, 8*n,
			8*len(p.arena.words), 8*memory.used)
	}
	offset = uint64(from) * 8
	p.taken = append(p.taken, Range{offset, 8 * n})
	return offset, n, nil
}

// finish adds the check and records the copy.
func (p *planner) finish(offset uint64, words []uint64) {
	words[len(words)-lineWords] = blockCheck(words)
	p.plan.Copies = append(p.plan.Copies, Copy{offset, words})
}

// undo gives back what was allocated.
func (p *planner) undo() {
	p.arena.lastUID = p.uid
	for _, r := range p.taken {
		p.arena.memory.release(int(r.Offset/8), r.Bytes/8)
	}
}

// leaf records a new leaf.
func (p *planner) leaf(l *leaf[uint64]) (uint64, error) {
	if l.at != 0 {
		return l.at, nil
	}
	n := len(l.keys)
	offset, words, err := p.block(kindLeaf, n)
	if err != nil {
		return 0, err
	}
	putModel(words[2:], &l.model)
	copy(words[lineWords:], l.keys)
	copy(words[lineWords+roundWords(n):], l.values)
	p.finish(offset, words)
	p.done = append(p.done, func() { p.arena.adopt(l, offset) })
	return offset, nil
}

func putModel(words []uint64, m *model) {
	words[0], words[1], words[2] = m.origin, m.slope, m.shape()
}

// segment records a new segment and all that is new below it.
func (p *planner) segment(s *segment[uint64]) (uint64, error) {
	if s.at != 0 {
		return s.at, nil
	}
	n := len(s.pivots)
	children := make([]uint64, n)
	for i := range children {
		var err error
		if s.leaves != nil {
			children[i], err = p.leaf(s.leaves[i].load())
		} else {
			children[i], err = p.inner(s.nodes[i].Load())
		}
		if err != nil {
			return 0, err
		}
	}
	offset, words, err := p.block(kindSegment, n)
	if err != nil {
		return 0, err
	}
	copy(words[lineWords:], s.pivots)
	copy(words[lineWords+roundWords(n):], children)
	p.finish(offset, words)
	p.done = append(p.done, func() {
		s.at = offset
		for i := range s.leaves { // whose arrays are now in the arena
			s.leaves[i].set(s.leaves[i].load())
		}
	})
	return offset, nil
}

// inner records a new inner node and all that is new below it.
func (p *planner) inner(n *inner[uint64]) (uint64, error) {
	if n.at != 0 {
		return n.at, nil
	}
	var segments [maxSegments]uint64
	for i := range n.count {
		var err error
		if segments[i], err = p.segment(&n.segs[i]); err != nil {
			return 0, err
		}
		p.kept[segments[i]] = true
	}
	offset, words, err := p.block(kindInner, n.count)
	if err != nil {
		return 0, err
	}
	copy(words[2:lineWords], n.firsts[:])
	for i := range n.count {
		line := words[(1+i)*lineWords:]
		putModel(line, &n.segs[i].model)
		line[4] = segments[i]
	}
	p.finish(offset, words)
	p.done = append(p.done, func() { n.at = offset })
	return offset, nil
}

// retireLeaf records that a leaf and its buffer go.
func (p *planner) retireLeaf(l *leaf[uint64]) {
	p.retire(l.at)
	if b := p.arena.load(l.at + 8*leafBuffer); b != 0 {
		p.retire(b)
	}
}

// retireInner records that an inner node goes, with the segments that no new node took over.
func (p *planner) retireInner(n *inner[uint64]) {
	if n.at == 0 {
		return // made and dropped within this change
	}
	p.retire(n.at)
	for i := range n.count {
		if at := n.segs[i].at; !p.kept[at] {
			p.kept[at] = true // two retired nodes may share it
			p.retire(at)
		}
	}
}

func (p *planner) retire(offset uint64) {
	p.plan.Retired = append(p.plan.Retired, Range{offset, 8 * head(p.arena.load(offset)).words()})
}
