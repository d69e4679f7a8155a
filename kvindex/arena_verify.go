package kvindex

import (
	"fmt"
	"math"
	"sync/atomic"
)

// OpenArena takes over an arena that another process, or an earlier run, left in words: for example a mapped file. It
// reads and checks all of it, and writes nothing. What waited for readers then is free now. The memory may hold anything: what
// is not an arena in every respect that a lookup or a write relies on is an error. From then on nobody else may write to it.
func OpenArena(words []uint64) (*Arena, error) {
	if len(words) < minArena || words[0] != arenaMagic {
		return nil, fmt.Errorf("kvindex: open arena: %d bytes do not begin with an arena", 8*len(words))
	}
	size := words[superSize]
	if size > uint64(8*len(words)) || size < 8*minArena || size%8 != 0 {
		return nil, fmt.Errorf("kvindex: open arena: it was made for %d bytes, the memory has %d, at least %d are needed", size, 8*len(words),
			8*minArena)
	}
	cfg, err := unpackConfig(words[superConfig])
	if err != nil {
		return nil, err
	}
	words = words[:size/8]
	last, err := spareOf(len(words), cfg)
	if err != nil {
		return nil, fmt.Errorf("kvindex: open arena: it was made for %w", err)
	}
	a := &Arena{words: words, config: cfg, spare: last, lastUID: words[superUID]}
	d := newDecoder(a)
	root, err := d.whole()
	if err != nil {
		return nil, err
	}
	a.memory = d.claimed.extents(int(last.place.Offset / 8))
	a.freed = a.stale()
	a.root.Store(root)
	a.spare.taken, a.spare.key = d.claimed.has(int(last.place.Offset/lineBytes)), d.inSpare
	return a, nil
}

// stale are the lines of free memory that may be the first of a block: what was retired and not cleared when the arena's last
// owner ended. Readers that it did not know may be on the way through such blocks.
func (a *Arena) stale() (lines []Range) {
	for _, f := range a.memory.free {
		for at := f.from; at < f.from+f.words; at += lineWords {
			if head(a.words[at]).possible() {
				lines = append(lines, Range{8 * uint64(at), lineBytes})
			}
		}
	}
	return lines
}

// Verify reads the whole arena and checks it as Index.Verify does, and beside that every block's header, generation,
// UID and check, that no two blocks overlap, that all memory is accounted for, and every buffered write's check. It
// reports the first thing that is wrong. Writers wait for it.
func (a *Arena) Verify() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reclaim()
	w := a.words
	if w[0] != arenaMagic || w[superSize] != uint64(8*len(w)) || w[superConfig] != packConfig(a.config) ||
		w[superUID] != a.lastUID {
		return mismatch("superblock", "%#x", w[:lineWords])
	}
	d := newDecoder(a)
	if _, err := d.whole(); err != nil {
		return err
	}
	if live, found := 8*a.memory.used-a.epochs.waiting(), 8*d.claimed.used; found != live {
		return mismatch("memory", "blocks of %d bytes are reachable, %d are in use", found, live)
	}
	return nil
}

// decoder builds the description of an arena's tree from its memory alone, which may hold anything. No line of it is taken
// for a part of two blocks, so it is done in time.
type decoder struct {
	words   []uint64
	config  Config
	last    uint64
	uids    map[uint64]bool
	claimed lines
	spare   Range
	inSpare uint64 // a key of the leaf in the spare place
}

func newDecoder(a *Arena) *decoder {
	return &decoder{words: a.words, config: a.config, last: a.lastUID, uids: map[uint64]bool{}, claimed: newLines(len(a.words)),
		spare: a.spare.place}
}

// whole decodes from the root and verifies what came out.
func (d *decoder) whole() (*inner[uint64], error) {
	if d.words[5]|d.words[6]|d.words[7] != 0 {
		return nil, mismatch("superblock", "%#x", d.words[:lineWords])
	}
	root, err := d.inner(atomic.LoadUint64(&d.words[superRoot]), "root")
	if err != nil {
		return nil, err
	}
	v := verifier[uint64]{config: d.config, room: d.config.BufferCapacity, version: func() uint64 { return 0 }}
	v.visit = func(l *leaf[uint64], b bounds) {
		if l.at == d.spare.Offset {
			d.inSpare = b.least
		}
	}
	_, err = v.inner(root, whole, "root")
	return root, err
}

// block checks everything about a block that does not depend on its kind, and returns its words.
func (d *decoder) block(at uint64, kind int, where string) ([]uint64, error) {
	if at%lineBytes != 0 || at < lineBytes || at/8+2*lineWords > uint64(len(d.words)) {
		return nil, mismatch(where, "offset %d, outside an arena of %d bytes or not on a line", at, 8*len(d.words))
	}
	h := head(atomic.LoadUint64(&d.words[at/8]))
	n := h.words()
	if h.kind() != kind || !h.possible() || at/8+uint64(n) > uint64(len(d.words)) {
		return nil, mismatch(where, "header %#x, not of a block of kind %d", uint64(h), kind)
	}
	w := d.words[at/8:][:n]
	if end := at + uint64(8*n); end > d.spare.Offset && (at != d.spare.Offset || kind != kindLeaf || n > d.spare.Bytes/8) {
		return nil, mismatch(where, "block at %d, in the spare place", at)
	}
	uid := w[wordUID]
	if uid == 0 || uid > d.last || d.uids[uid] || h.generation() != uid&math.MaxUint32 || w[n-1] != h.generation() {
		return nil, mismatch(where, "UID %d of %d, generations %d and %d", uid, d.last, h.generation(), w[n-1])
	}
	d.uids[uid] = true
	check := uint64(0)
	if kind != kindBuffer {
		check = blockCheck(w)
	}
	if w[n-lineWords] != check {
		return nil, mismatch(where, "check %#x, want %#x", w[n-lineWords], check)
	}
	for _, zero := range w[n-lineWords+1 : n-1] {
		if zero != 0 {
			return nil, mismatch(where, "last line is not zero")
		}
	}
	if !d.claimed.take(int(at/8), n) {
		return nil, mismatch(where, "block at %d overlaps another", at)
	}
	return w, nil
}

func (d *decoder) inner(at uint64, where string) (*inner[uint64], error) {
	if err := deep(where); err != nil {
		return nil, err
	}
	w, err := d.block(at, kindInner, where)
	if err != nil {
		return nil, err
	}
	segs := make([]segment[uint64], head(w[0]).count())
	for i := range segs {
		line := w[(1+i)*lineWords:]
		if err := d.segment(&segs[i], line[4], fmt.Sprintf("%s/%d", where, i)); err != nil {
			return nil, err
		}
		segs[i].model = modelOf(line[0], line[1], line[2])
	}
	n := newInner(segs)
	n.at = at
	for i, first := range n.firsts[:maxSegments-1] {
		if w[2+i] != first {
			return nil, mismatch(where, "first key of segment %d is %d, its first pivot %d", i+1, w[2+i], first)
		}
	}
	return n, nil
}

func (d *decoder) segment(s *segment[uint64], at uint64, where string) error {
	w, err := d.block(at, kindSegment, where)
	if err != nil {
		return err
	}
	n := head(w[0]).count()
	entries := make([]entry[uint64], n)
	for i := range entries {
		child := atomic.LoadUint64(&w[lineWords+roundWords(n)+i])
		below := fmt.Sprintf("%s/%d", where, i)
		entries[i].pivot = w[lineWords+i]
		if child/8 < uint64(len(d.words)) && head(atomic.LoadUint64(&d.words[child/8])).kind() == kindInner {
			entries[i].node, err = d.inner(child, below)
		} else {
			entries[i].leaf, err = d.leaf(child, below)
		}
		if err == nil && (entries[i].leaf == nil) != (entries[0].leaf == nil) {
			err = mismatch(below, "leaves and inner nodes in one segment")
		}
		if err != nil {
			return err
		}
	}
	for i := lineWords + roundWords(n) + n; i < lineWords+2*roundWords(n); i++ {
		if w[i] != 0 {
			return mismatch(where, "a child slot beyond the last is not zero")
		}
	}
	*s = makeSegment(entries, model{})
	s.at = at
	return nil
}

func (d *decoder) leaf(at uint64, where string) (*leaf[uint64], error) {
	w, err := d.block(at, kindLeaf, where)
	if err != nil {
		return nil, err
	}
	n := head(w[0]).count()
	keys := w[lineWords:]
	l := newLeaf(keys[:n:n], keys[roundWords(n):][:n:n], modelOf(w[2], w[3], w[4]))
	l.at = at
	return l, d.buffer(l, atomic.LoadUint64(&w[leafBuffer]), where+"/buffer")
}

// buffer checks a leaf's buffer, and that its keys belong to the leaf by giving them to the verifier.
func (d *decoder) buffer(l *leaf[uint64], at uint64, where string) error {
	if at == 0 {
		return nil
	}
	w, err := d.block(at, kindBuffer, where)
	if err != nil {
		return err
	}
	state := atomic.LoadUint64(&w[bufferState])
	s := slots(state)
	if state>>reservedShift > uint64(d.config.BufferCapacity) || w[3]|w[4]|w[5]|w[6]|w[7] != 0 {
		return mismatch(where, "state %#x, capacity %d", state, d.config.BufferCapacity)
	}
	b := new(buffer[uint64])
	b.word.Store(state)
	for i := range maxBuffer {
		k, v, kind := w[bufferKeys+i], w[bufferValues+i], s.kind(i)
		switch {
		case i >= s.taken() && kind == slotFree: // what an owner that was killed left there means nothing
		case i >= s.taken():
			return mismatch(where, "slot %d has state %d and was not reserved", i, kind)
		case i < s.taken() && (kind != slotPut && kind != slotDel || w[bufferChecks+i] != slotCheck(k, v, kind)):
			return mismatch(where, "slot %d: state %d, check %#x", i, kind, w[bufferChecks+i])
		}
		b.fill(i, k, v, kind, 0)
	}
	l.buf.Store(b)
	return nil
}
