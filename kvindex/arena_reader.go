package kvindex

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync/atomic"
)

// Memory is where a lookup reads an arena: the process's own memory, or another one's through a network card. Offsets
// are in bytes from the arena's start and aligned to what is read.
type Memory interface {
	Load64(offset uint64) (uint64, error)                  // Load64 reads 8 bytes at once, newest value
	LoadLine(offset uint64, line *[lineWords]uint64) error // LoadLine reads 64 bytes, each 8 at once, in any order
}

// ErrMoved is wrapped by the errors of a lookup that met a block which was freed or written over while it was being
// read. It is the normal price of reading memory whose owner does not know about the reader: start over, but not for ever,
// since memory that is no arena's looks the same.
var ErrMoved = errors.New("kvindex: block was replaced while it was read")

// Lookup searches an arena through a Memory. What it reads of a block counts only if the block's header, with its
// generation, was there before, and the header and the slot that led to it are the same afterwards: the owner writes a header
// after the rest of its block, clears it before it writes there again, and frees a block after those that refer to it. So
// memory that is reused meanwhile gives ErrMoved and never a wrong answer.
// Whatever the memory holds, a lookup ends after at most 2048 reads, and each of them is of an offset that Memory checks.
func Lookup(m Memory, k uint64) (value uint64, ok bool, err error) {
	w := walker{memory: m, check: true}
	p, err := w.descend(k)
	if err != nil {
		return 0, false, err
	}
	return w.get(&p.leaf, k)
}

// walker goes down an arena.
type walker struct {
	memory Memory
	check  bool // nothing keeps blocks from being reused
}

// arenaBlock is a block's first line, and where it stands.
type arenaBlock struct {
	at   uint64
	head head
	line [lineWords]uint64
}

// place is an arena leaf and its range.
type place struct {
	leaf  arenaBlock
	upper uint64 // the first key of the next leaf's range, unless last is set
	last  bool
}

// open reads the first line of the block that a slot led to: the header, which is written last, and then, as a line's words may
// be read in any order, the line.
func (w walker) open(slot, at uint64, kinds ...int) (b arenaBlock, err error) {
	b.at = at
	header := uint64(0)
	if w.check {
		if header, err = w.memory.Load64(at); err != nil {
			return b, err
		}
	}
	if err = w.memory.LoadLine(at, &b.line); err != nil {
		return b, err
	}
	b.head = head(b.line[0])
	if w.check && b.line[0] != header {
		return b, fmt.Errorf("%w: offset %d", ErrMoved, at)
	}
	if !slices.Contains(kinds, b.head.kind()) || !b.head.possible() {
		return b, fmt.Errorf("%w: offset %d has kind %d, count %d", ErrMoved, at, b.head.kind(), b.head.count())
	}
	return b, w.still(slot, at)
}

// still tells whether a word that was read before is still there.
func (w walker) still(at, value uint64) error {
	if !w.check {
		return nil
	}
	now, err := w.memory.Load64(at)
	if err == nil && now != value {
		err = fmt.Errorf("%w: offset %d", ErrMoved, at)
	}
	return err
}

// descend finds the leaf of k.
func (w walker) descend(k uint64) (p place, err error) {
	p.last = true
	slot := uint64(8 * superRoot)
	at, err := w.memory.Load64(slot)
	if err != nil {
		return p, err
	}
	var above arenaBlock // the segment that slot is in
	for range maxDepth {
		b, err := w.open(slot, at, kindInner, kindLeaf)
		if err == nil && above.at != 0 {
			err = w.still(above.at, above.line[0])
		}
		if err != nil {
			return p, err
		}
		if b.head.kind() == kindLeaf {
			p.leaf = b
			return p, nil
		}
		if above, slot, at, err = w.child(&b, k, &p); err != nil {
			return p, err
		}
	}
	return p, fmt.Errorf("kvindex: look up: offset %d is below more than %d nodes: the memory is not what an arena wrote", at, maxDepth)
}

// child finds the way down from an inner node: the segment, the slot in it, and where that leads.
func (w walker) child(b *arenaBlock, k uint64, p *place) (seg arenaBlock, slot, at uint64, err error) {
	count := b.head.count()
	s := 0
	for s+1 < count && b.line[2+s] <= k {
		s++
	}
	if s+1 < count {
		p.upper, p.last = b.line[2+s], false
	}
	var line [lineWords]uint64
	reference := b.at + uint64(1+s)*lineBytes
	if err = w.memory.LoadLine(reference, &line); err == nil {
		err = w.still(b.at, b.line[0])
	}
	if err != nil {
		return seg, 0, 0, err
	}
	if seg, err = w.open(reference+4*8, line[4], kindSegment); err != nil {
		return seg, 0, 0, err
	}
	if err = w.still(b.at, b.line[0]); err != nil {
		return seg, 0, 0, err
	}
	m := modelOf(line[0], line[1], line[2])
	n := seg.head.count()
	i, _, err := w.search(&m, seg.at+lineBytes, n, k)
	if err != nil {
		return seg, 0, 0, err
	}
	if i+1 < n {
		if p.upper, err = w.memory.Load64(seg.at + lineBytes + 8*uint64(i+1)); err != nil {
			return seg, 0, 0, err
		}
		p.last = false
	}
	slot = childSlot(seg.at, n, i)
	if at, err = w.memory.Load64(slot); err == nil {
		err = w.still(seg.at, seg.line[0]) // before the offset is followed
	}
	return seg, slot, at, err
}

// search finds the last of n keys at an offset that is <= k, or the window's first, and which key it is.
func (w walker) search(m *model, at uint64, n int, k uint64) (i int, key uint64, err error) {
	if !m.fits(n) {
		return 0, 0, fmt.Errorf("%w: offset %d", ErrMoved, at)
	}
	lo := m.start(k)
	var line [lineWords]uint64
	for j := lo; j < lo+int(m.width); j++ {
		if j == lo || j%lineWords == 0 {
			if err = w.memory.LoadLine(at+uint64(j/lineWords)*lineBytes, &line); err != nil {
				return 0, 0, err
			}
		}
		if j > lo && line[j%lineWords] > k {
			break
		}
		i, key = j, line[j%lineWords]
	}
	return i, key, nil
}

// get searches a leaf: its buffer, then its arrays.
func (w walker) get(b *arenaBlock, k uint64) (value uint64, ok bool, err error) {
	s, buf, err := w.buffer(b)
	if err != nil {
		return 0, false, err
	}
	switch slot, kind := buf.newest(s, k, s.taken(), latest); kind {
	case slotPut:
		return buf.values[slot], true, nil
	case slotDel:
		return 0, false, nil
	}
	m := modelOf(b.line[2], b.line[3], b.line[4])
	n := b.head.count()
	i, key, err := w.search(&m, b.at+lineBytes, n, k)
	if err == nil && n > 0 && key == k {
		ok = true
		value, err = w.memory.Load64(b.at + lineBytes + 8*uint64(roundWords(n)+i))
	}
	if err == nil {
		err = w.still(b.at, b.line[0])
	}
	if err != nil {
		return 0, false, err
	}
	return value, ok, nil
}

// buffer copies the committed slots of a leaf's buffer.
func (w walker) buffer(b *arenaBlock) (s slots, buf *buffer[uint64], err error) {
	buf = new(buffer[uint64])
	at, err := w.memory.Load64(b.at + 8*leafBuffer)
	if err == nil {
		err = w.still(b.at, b.line[0])
	}
	if err != nil || at == 0 {
		return 0, buf, err
	}
	block, err := w.open(b.at+8*leafBuffer, at, kindBuffer)
	if err != nil {
		return 0, buf, err
	}
	state, err := w.memory.Load64(at + 8*bufferState) // before the slots: what it calls committed is there
	if err != nil {
		return 0, buf, err
	}
	s = slots(state)
	for i := range s.taken() {
		if s.kind(i) == slotFree {
			continue
		}
		for _, part := range []struct {
			word int
			into *uint64
		}{{bufferKeys, &buf.keys[i]}, {bufferValues, &buf.values[i]}} {
			if *part.into, err = w.memory.Load64(block.at + 8*uint64(part.word+i)); err != nil {
				return 0, buf, err
			}
		}
	}
	return s, buf, w.still(b.at, b.line[0])
}

// words is the process's own memory. Loads are plain: what they read was written before the store that led to it.
type words []uint64

// Load64 reads atomically, as slots and states change.
func (m words) Load64(offset uint64) (uint64, error) {
	if offset%8 != 0 || offset/8 >= uint64(len(m)) {
		return 0, fmt.Errorf("kvindex: read 8 bytes at offset %d: the arena has %d bytes", offset, 8*len(m))
	}
	return atomic.LoadUint64(&m[offset/8]), nil
}

// LoadLine reads each word atomically: a leaf's first line has the offset of its buffer, which changes.
func (m words) LoadLine(offset uint64, line *[lineWords]uint64) error {
	if offset%lineBytes != 0 || offset/8+lineWords > uint64(len(m)) {
		return fmt.Errorf("kvindex: read the line at offset %d: the arena has %d bytes", offset, 8*len(m))
	}
	for i := range line {
		line[i] = atomic.LoadUint64(&m[offset/8+uint64(i)])
	}
	return nil
}

// Memory returns the arena's own memory, for Lookup. Unlike a Reader it keeps nothing from being reused.
func (a *Arena) Memory() Memory { return words(a.words) }

// Reader reads an arena in this process. One goroutine at a time may use it; make one for each.
type Reader struct {
	arena *Arena
	epoch *epoch
	walk  walker
}

// Reader registers a reader. What it may be looking at is not reused; between its calls it holds nothing up.
func (a *Arena) Reader() *Reader {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := new(epoch)
	a.epochs.readers = append(a.epochs.readers, e)
	return &Reader{arena: a, epoch: e, walk: walker{memory: words(a.words)}}
}

// Close unregisters the reader. It gives no error and may be called again.
func (r *Reader) Close() error {
	r.arena.mu.Lock()
	defer r.arena.mu.Unlock()
	r.arena.epochs.readers = slices.DeleteFunc(r.arena.epochs.readers, func(e *epoch) bool { return e == r.epoch })
	return nil
}

// Get returns the value of k and whether k is there. An error says that the memory is not what the arena wrote.
func (r *Reader) Get(k uint64) (value uint64, ok bool, err error) {
	r.epoch.enter()
	defer r.epoch.leave()
	p, err := r.walk.descend(k)
	if err != nil {
		return 0, false, err
	}
	return r.walk.get(&p.leaf, k)
}

// Range yields the pairs with lo <= key <= hi in rising order, each leaf as of one moment during the scan. It ends early
// where the memory is not what the arena wrote: Verify says what is wrong.
func (r *Reader) Range(lo, hi uint64) iter.Seq2[uint64, uint64] {
	return func(yield func(uint64, uint64) bool) {
		for lo <= hi {
			l, p, err := r.copyLeaf(lo)
			if err != nil {
				return
			}
			end := hi
			if !p.last && p.upper <= hi {
				end = p.upper - 1
			}
			var pairs runs[uint64]
			i := l.lowerBound(lo)
			for pairs.begin(l.keys[i:], l.values[i:], l.buf.Load(), latest, lo, end); pairs.next(); {
				for i, k := range pairs.keys {
					if !yield(k, pairs.values[i]) {
						return
					}
				}
			}
			if end == hi || p.upper <= lo { // the latter in no arena's memory: go round in no circle
				return
			}
			lo = p.upper
		}
	}
}

// All yields every pair in rising order of keys, as Range does.
func (r *Reader) All() iter.Seq2[uint64, uint64] { return r.Range(0, math.MaxUint64) }

// copyLeaf takes a leaf out of the arena, so that no memory is held up while its pairs are used.
func (r *Reader) copyLeaf(k uint64) (*leaf[uint64], place, error) {
	r.epoch.enter()
	defer r.epoch.leave()
	p, err := r.walk.descend(k)
	if err != nil {
		return nil, p, err
	}
	b := &p.leaf
	n := b.head.count()
	m := modelOf(b.line[2], b.line[3], b.line[4])
	if !m.fits(n) {
		return nil, p, fmt.Errorf("kvindex: read the leaf at offset %d: its line is not over its %d keys: the memory is not what an arena wrote", b.at, n)
	}
	both := make([]uint64, 0, 2*roundWords(n))
	for at := b.at + lineBytes; len(both) < cap(both); at += lineBytes {
		var line [lineWords]uint64
		if err := r.walk.memory.LoadLine(at, &line); err != nil {
			return nil, p, err
		}
		both = append(both, line[:]...)
	}
	l := newLeaf(both[:n], both[roundWords(n):][:n], m)
	s, buf, err := r.walk.buffer(b)
	buf.word.Store(uint64(s))
	l.buf.Store(buf)
	return l, p, err
}
