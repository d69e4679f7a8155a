package kvindex

import "sync/atomic"

// leaf holds the keys from its routing key up to the next leaf's. The arrays never change: writes go to the buffer, and a
// leaf whose buffer is full is replaced.
type leaf[V any] struct {
	content[V]
	buf   atomic.Pointer[buffer[V]] // nil until the first write
	since uint64                    // no write in the arrays has a later version; older snapshots see another leaf
	at    uint64                    // offset in an arena; 0 outside one
	sum   uint64                    // contentSum of the arrays, for Verify
}

// content is a leaf's arrays, and the line over the keys.
type content[V any] struct {
	model  model
	keys   []uint64
	values []V
}

// newLeaf makes a leaf of one piece, on the given arrays.
func newLeaf[V any](keys []uint64, values []V, m model) *leaf[V] {
	return &leaf[V]{content: content[V]{m, keys, values}, sum: contentSum(keys, values)}
}

// written is a leaf together with its buffer, in whole cache lines where values are words: a leaf that replaces one whose
// buffer was full will be written to again.
type written[V any] struct {
	buffer buffer[V]
	leaf   leaf[V]
	_      [40]byte
}

// newWritten is newLeaf with a known sum, and a buffer of the clock's version; without a clock there is none.
func newWritten[V any](keys []uint64, values []V, m model, sum uint64, clock *atomic.Uint64) *leaf[V] {
	if clock == nil {
		return &leaf[V]{content: content[V]{m, keys, values}, sum: sum}
	}
	w := &written[V]{leaf: leaf[V]{content: content[V]{m, keys, values}, sum: sum}}
	w.buffer.born = clock.Load()
	w.leaf.buf.Store(&w.buffer)
	return &w.leaf
}

// find returns the position of the last key <= k, and whether it is k.
func (c *content[V]) find(k uint64) (i int, exact bool) {
	i = c.model.start(k)
	if c.model.width == leaf18 {
		i += predecessor18((*[leaf18]uint64)(c.keys[i:]), k)
	} else {
		i = predecessor(c.keys, i, int(c.model.width), k)
	}
	return i, i < len(c.keys) && c.keys[i] == k
}

// lowerBound returns the position of the first key >= k.
func (c *content[V]) lowerBound(k uint64) int {
	i, _ := c.find(k)
	if i < len(c.keys) && c.keys[i] < k {
		i++
	}
	return i
}

// search returns the value in the arrays.
func (c *content[V]) search(k uint64) (value V, ok bool) {
	if i, exact := c.find(k); exact {
		return c.values[i], true
	}
	return value, false
}

// get looks in a leaf's buffer, then in its arrays.
func (s *slot[V]) get(k uint64) (value V, ok bool) {
	_, c, b := s.read()
	if b != nil {
		switch slot, kind := b.latest(b.load(), k, maxBuffer); kind {
		case slotPut:
			return b.values[slot], true
		case slotDel:
			return value, false
		}
	}
	return c.search(k)
}
