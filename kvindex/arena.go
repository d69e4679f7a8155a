package kvindex

import (
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
)

// Arena is the index in memory that the caller supplies: uint64 keys to uint64 values, at offsets instead of pointers, so
// that a network card, a device or another process can search it. Readers take no lock; writers take turns. Beside the
// memory, the heap holds only what describes it, about 190 bytes a leaf: the arrays of keys and values are the arena's.
//
// All changes are published as Plans: blocks are written where nothing refers to them, and one 8-byte store shows them.
type Arena struct {
	words []uint64

	mu      sync.Mutex
	config  Config
	root    atomic.Pointer[inner[uint64]] // describes the tree in words
	memory  extents
	spare   spare
	freed   []Range // released since the last plan, which the next one clears
	lastUID uint64
	epochs  epochs
	follow  func(Plan) // see Follow
}

// minArena is the least memory, in words, that an empty arena needs beside its spare place.
const minArena = 8 * lineWords

// NewArena makes an empty arena in words, which the caller lends until it drops the arena: mapped or registered memory
// must stay mapped that long, and be aligned to 64 bytes if lines are to be read whole.
func NewArena(words []uint64, cfg Config) (*Arena, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	last, err := spareOf(len(words), cfg)
	if err != nil {
		return nil, fmt.Errorf("kvindex: new arena: %w", err)
	}
	a := &Arena{words: words, config: cfg, spare: last}
	a.memory.free = []extent{{lineWords, int(last.place.Offset/8) - lineWords}}
	clear(words[:lineWords])
	words[superSize], words[superConfig] = uint64(8*len(words)), packConfig(cfg)
	p := newPlanner(a)
	root := buildTree[uint64](nil, cfg.leafTrainer(), cfg)
	offset, err := p.inner(root)
	if err != nil {
		return nil, err
	}
	a.show(p, root, offset, step[uint64]{})
	words[0] = arenaMagic
	return a, nil
}

// LoadArena makes an arena of pairs whose keys rise, as BulkLoad makes an Index.
func LoadArena(words []uint64, pairs iter.Seq2[uint64, uint64], cfg Config) (*Arena, error) {
	x, err := BulkLoad(pairs, cfg)
	if err != nil {
		return nil, err
	}
	a, err := NewArena(words, cfg)
	if err != nil {
		return nil, err
	}
	before, root := a.root.Load(), x.root.Load()
	p := newPlanner(a)
	p.room = 0
	offset, err := p.inner(root)
	if err != nil {
		p.undo()
		return nil, err
	}
	p.retireLeaf(before.segs[0].leaves[0].load())
	p.retireInner(before)
	a.show(p, root, offset, step[uint64]{})
	return a, nil
}

// show publishes a node in a slot: the root's where parent names no node.
func (a *Arena) show(p *planner, n *inner[uint64], offset uint64, parent step[uint64]) {
	slot, host := uint64(8*superRoot), &a.root
	if parent.node != nil {
		seg := &parent.node.segs[parent.seg]
		slot, host = childSlot(seg.at, len(seg.pivots), parent.slot), &seg.nodes[parent.slot]
	}
	p.plan.Connects = append(p.plan.Connects, Connect{slot, offset})
	p.done = append(p.done, func() { host.Store(n) })
	a.execute(p)
}

// execute carries out a plan, and takes note of it.
func (a *Arena) execute(p *planner) {
	p.plan.UID = a.lastUID
	p.plan.Cleared, a.freed = a.freed, nil
	p.plan.Execute(a.words)
	if a.follow != nil {
		a.follow(p.plan)
	}
	for _, learn := range p.done {
		learn()
	}
	a.replaced(p.plan.Retired)
	a.epochs.retire(p.plan.Retired)
	a.reclaim()
}

// reclaim frees what no reader looks at any more.
func (a *Arena) reclaim() {
	a.free()
	if a.spare.free {
		a.goHome()
	}
}

// free is reclaim while a plan is being made, which may be one for the leaf in the spare place. The next plan clears what it
// frees, before anything is written there.
func (a *Arena) free() {
	a.epochs.reclaim(func(r Range) {
		a.freed = append(a.freed, r)
		if a.spare.release(r) {
			a.memory.used -= r.Bytes / 8
			return
		}
		a.memory.release(int(r.Offset/8), r.Bytes/8)
	})
}

func (a *Arena) load(offset uint64) uint64    { return atomic.LoadUint64(&a.words[offset/8]) }
func (a *Arena) store(offset, value uint64)   { atomic.StoreUint64(&a.words[offset/8], value) }
func (a *Arena) block(offset uint64) []uint64 { return a.words[offset/8:] }

// adopt makes a leaf's arrays those of its block.
func (a *Arena) adopt(l *leaf[uint64], offset uint64) {
	n := len(l.keys)
	keys := a.block(offset)[lineWords:]
	l.at, l.keys, l.values = offset, keys[:n:n], keys[roundWords(n):][:n:n]
}

// Put sets the value of k and returns the value it had, if any. An error wraps ErrFull, and nothing has changed. A key that is
// there can always be written to, as Delete says.
func (a *Arena) Put(k, v uint64) (old uint64, replaced bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old, replaced = a.value(locate(a.root.Load(), k, nil).leaf, k)
	if err = a.write(k, v, slotPut, !replaced); err != nil {
		return 0, false, err
	}
	return old, replaced, nil
}

// Delete removes k and returns the value it had, if any. A full arena has room for it. While a Reader is stuck within a lookup,
// memory that was retired since is held up, and deletes may run out of it too: the error wraps ErrFull, nothing has changed, and
// the delete works once that lookup is over.
func (a *Arena) Delete(k uint64) (old uint64, deleted bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old, deleted = a.value(locate(a.root.Load(), k, nil).leaf, k)
	if !deleted {
		return 0, false, nil
	}
	if err = a.write(k, 0, slotDel, false); err != nil {
		return 0, false, err
	}
	return old, true, nil
}

// write appends to the buffer of the leaf of k, or to the leaf itself where memory holds no more. grows tells that k is new.
func (a *Arena) write(k, v, kind uint64, grows bool) error {
	b, err := a.open(k, grows)
	if isFull(err) {
		return a.squeeze(k, v, kind, err)
	}
	if err == nil {
		a.append(b, k, v, kind)
	}
	return err
}

// open returns the buffer of the leaf of k, which has a free slot, after making room for it.
func (a *Arena) open(k uint64, grows bool) (uint64, error) {
	l := locate(a.root.Load(), k, nil).leaf
	if !a.takes(l, grows) {
		if err := a.patch(k); err != nil {
			return 0, err
		}
		l = locate(a.root.Load(), k, nil).leaf
	}
	return a.buffer(l)
}

// append writes to a buffer.
func (a *Arena) append(b, k, v, kind uint64) {
	// One store reserves the slot and commits it: an owner that is killed leaves no slot that is reserved and not written.
	state := a.load(b + 8*bufferState)
	slot := slots(state).taken()
	at := b + 8*uint64(slot)
	a.store(at+8*bufferKeys, k)
	a.store(at+8*bufferValues, v)
	a.store(at+8*bufferChecks, slotCheck(k, v, kind))
	a.store(b+8*bufferState, state+oneReserved|kind<<(slotBits*uint(slot)))
}

// buffer returns the offset of a leaf's buffer, made on the first write.
func (a *Arena) buffer(l *leaf[uint64]) (uint64, error) {
	if b := a.load(l.at + 8*leafBuffer); b != 0 {
		return b, nil
	}
	p := newPlanner(a)
	offset, words, err := p.block(kindBuffer, 0)
	if err != nil {
		return 0, err
	}
	p.plan.Copies = []Copy{{offset, words}}
	p.plan.Connects = []Connect{{l.at + 8*leafBuffer, offset}}
	a.execute(p)
	return offset, nil
}

// written copies a leaf's buffer to the form that is merged.
func (a *Arena) written(l *leaf[uint64], b *buffer[uint64]) (s slots) {
	if at := a.load(l.at + 8*leafBuffer); at != 0 {
		words := a.block(at)
		s = slots(atomic.LoadUint64(&words[bufferState]))
		copy(b.keys[:s.taken()], words[bufferKeys:])
		copy(b.values[:s.taken()], words[bufferValues:])
	}
	return s
}

// value is a locked lookup in one leaf.
func (a *Arena) value(l *leaf[uint64], k uint64) (uint64, bool) {
	var b buffer[uint64]
	s := a.written(l, &b)
	switch slot, kind := b.newest(s, k, s.taken(), latest); kind {
	case slotPut:
		return b.values[slot], true
	case slotDel:
		return 0, false
	}
	return l.search(k)
}

// sealed is a leaf's buffer in order of keys. No writer can come between, so there is nothing to seal.
func (a *Arena) sealed(l *leaf[uint64], into *writes[uint64]) {
	var b buffer[uint64]
	s := a.written(l, &b)
	d := b.collect(s, s.taken(), latest, whole)
	into.add(&b, s, &d)
}

// patch replaces the leaf of k by leaves with its buffer's writes in them.
func (a *Arena) patch(k uint64) error {
	var path []step[uint64]
	l := locate(a.root.Load(), k, &path).leaf
	var ws writes[uint64]
	a.sealed(l, &ws)
	t := a.config.leafTrainer()
	m := l.merge(&ws)
	m.pieces = t.retrain(m.keys, l.model.eps == 0, m.grew)
	at := path[len(path)-1]
	work := patcher[uint64]{a.config, a.sealed, func(uint64, []*leaf[uint64], ...old[uint64]) {}}
	s := work.spliceLeaves(path, l, m)
	p := newPlanner(a)
	if alone := len(m.keys) == 0 && at.node.children() == 1; len(s.entries) == 1 && s.replaced == 1 && !alone {
		next := s.entries[0].leaf
		offset, err := p.leaf(next)
		if err != nil {
			return err
		}
		a.replaceLeaf(p, at, l, next, offset)
		return nil
	}
	c := climb(&a.root, path, s.into(at.node, a.config), a.config)
	defer func() {
		for _, n := range c.retired { // climb locks them for those who share a tree
			n.mu.Unlock()
		}
	}()
	offset, err := p.inner(c.node)
	if err != nil {
		p.undo()
		return err
	}
	for _, o := range s.olds {
		p.retireLeaf(o.leaf)
	}
	for _, n := range append(c.retired, at.node) {
		p.retireInner(n)
	}
	a.show(p, c.node, offset, c.parent)
	return nil
}

// replaceLeaf puts one leaf, which the plan has a copy of at an offset, in the place of another.
func (a *Arena) replaceLeaf(p *planner, at step[uint64], l, next *leaf[uint64], offset uint64) {
	seg := &at.node.segs[at.seg]
	p.plan.Connects = []Connect{{childSlot(seg.at, len(seg.pivots), at.slot), offset}}
	p.retireLeaf(l)
	p.done = append(p.done, func() { seg.leaves[at.slot].set(next) })
	a.execute(p)
}

// Flush merges every buffer into its leaf, and frees what no reader looks at any more. Empty leaves are merged into others as far
// as memory allows. An error wraps ErrFull, as that of Delete; what was merged before it stays.
func (a *Arena) Flush() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	idle := 0
	for lo := uint64(0); ; {
		p := locate(a.root.Load(), lo, nil)
		if a.dirty(p) {
			if err := a.patch(lo); isFull(err) {
				err = a.flushInPlace(lo, err)
				if err != nil {
					return err
				}
			} else if err != nil {
				return err
			}
			before := p
			p = locate(a.root.Load(), lo, nil)
			idle++
			if p.last != before.last || p.upper > before.upper {
				idle = 0
			}
			if a.dirty(p) && idle < 2 { // as in Index.Flush
				continue
			}
		}
		if p.last {
			a.reclaim()
			return nil
		}
		lo, idle = p.upper, 0
	}
}

func (a *Arena) dirty(p position[uint64]) bool {
	return a.load(p.leaf.at+8*leafBuffer) != 0 || len(p.leaf.keys) == 0 && !(p.first && p.last)
}

// InUse returns the bytes of the arena that hold the tree, and those that wait for readers to finish.
func (a *Arena) InUse() (live, waiting int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reclaim()
	waiting = a.epochs.waiting()
	return 8*a.memory.used - waiting, waiting
}
