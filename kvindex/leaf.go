package kvindex

import "sync/atomic"

// leaf holds the keys from its routing key up to the next leaf's. The arrays never change: writes go to the buffer, and a
// leaf whose buffer is full is replaced. The first 64 bytes are what a lookup needs to find a key's position.
type leaf[V any] struct {
	model model
	keys  []uint64
	buf   atomic.Pointer[buffer[V]] // nil until the first write

	values []V
	since  uint64      // no write in the arrays has a later version
	before *history[V] // what snapshots older than since see; nil when there was none
	at     uint64      // offset in an arena; 0 outside one
	sum    uint64      // of the keys and values, for Verify
	_      [8]byte     // up to the size class of 128 bytes, whose objects start on a cache line
}

// newLeaf makes a leaf of one piece, on the given arrays.
func newLeaf[V any](keys []uint64, values []V, m model) *leaf[V] {
	return &leaf[V]{model: m, keys: keys, values: values, sum: contentSum(keys, values)}
}

// written is a leaf together with its buffer. A leaf that replaces one whose buffer was full will be written to again; with
// the buffer in the lines behind it, a write waits for both at once.
type written[V any] struct {
	leaf   leaf[V]
	buffer buffer[V]
	_      [16]byte // up to a size class of whole cache lines, where values are words
}

// newWritten is newLeaf with a buffer of the clock's version; without a clock there is none.
func newWritten[V any](keys []uint64, values []V, m model, clock *atomic.Uint64) *leaf[V] {
	if clock == nil {
		return newLeaf(keys, values, m)
	}
	w := &written[V]{leaf: leaf[V]{model: m, keys: keys, values: values, sum: contentSum(keys, values)}}
	w.buffer.born = clock.Load()
	w.leaf.buf.Store(&w.buffer)
	return &w.leaf
}

// find returns the position of the last key <= k, and whether it is k.
func (l *leaf[V]) find(k uint64) (i int, exact bool) {
	i = l.model.start(k)
	if l.model.width == leaf18 {
		i += predecessor18((*[leaf18]uint64)(l.keys[i:]), k)
	} else {
		i = predecessor(l.keys, i, int(l.model.width), k)
	}
	return i, i < len(l.keys) && l.keys[i] == k
}

// lowerBound returns the position of the first key >= k.
func (l *leaf[V]) lowerBound(k uint64) int {
	i, _ := l.find(k)
	if i < len(l.keys) && l.keys[i] < k {
		i++
	}
	return i
}

// getBuffered looks in the leaf's buffer, then in its arrays.
func (l *leaf[V]) getBuffered(b *buffer[V], k uint64) (value V, ok bool) {
	prefetchBuffer(b)
	s := b.load()
	switch slot, kind := b.latest(s, k, s.taken()); kind {
	case slotPut:
		return b.values[slot], true
	case slotDel:
		return value, false
	}
	return l.search(k)
}

// search returns the value in the arrays.
func (l *leaf[V]) search(k uint64) (value V, ok bool) {
	i := l.model.start(k)
	if l.model.width == leaf18 {
		i += search18((*[leaf18]uint64)(l.keys[i:]), k, &l.values[i+valueAhead])
	} else {
		i = predecessor(l.keys, i, int(l.model.width), k)
	}
	if i < len(l.keys) && l.keys[i] == k {
		return l.values[i], true
	}
	return value, false
}

// valueAhead is where in a window of 2*8+2 keys the likeliest values begin.
const valueAhead = 6

// history is what leaves replaced, kept while a snapshot may look at it.
type history[V any] struct {
	until  uint64                    // snapshots from this version on have no use for it
	leaves atomic.Pointer[[]*old[V]] // in order of keys; nil once dropped
}

// old is a replaced leaf with the first key that was routed to it.
type old[V any] struct {
	from uint64
	leaf *leaf[V]
}
