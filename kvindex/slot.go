package kvindex

import (
	"sync/atomic"
	"unsafe"
)

// slot refers to a leaf, and repeats what a lookup needs of it: one cache line beside the pivots instead of two more of
// the leaf. leaf is the truth. The words behind it change with it, but not at once: they are those of shown, which is nil
// while they change, so who finds the same shown before and after them has what belongs together, and anybody else asks
// the leaf. All changes are made under the lock of the node, and with atomic stores once the slot can be seen.
type slot[V any] struct {
	leaf   unsafe.Pointer // *leaf[V]
	shown  unsafe.Pointer // *leaf[V]
	keys   unsafe.Pointer // the leaf's first key; nil where it has none
	values unsafe.Pointer // its first value
	buffer unsafe.Pointer // *buffer[V]
	origin uint64         // of its model, as what follows
	slope  uint64
	shape  uint64
}

// newSlot makes the slot of a leaf.
func newSlot[V any](l *leaf[V]) slot[V] {
	s := slot[V]{leaf: unsafe.Pointer(l), shown: unsafe.Pointer(l), buffer: unsafe.Pointer(l.buf.Load()),
		origin: l.model.origin, slope: l.model.slope, shape: l.model.shape()}
	if len(l.keys) > 0 {
		s.keys, s.values = unsafe.Pointer(&l.keys[0]), unsafe.Pointer(&l.values[0])
	}
	return s
}

// set puts a leaf in the place of another. Nothing can be written to the old one any more.
func (s *slot[V]) set(l *leaf[V]) {
	n := newSlot(l)
	atomic.StorePointer(&s.shown, nil)
	atomic.StorePointer(&s.leaf, n.leaf) // from here on readers see it
	atomic.StorePointer(&s.keys, n.keys)
	atomic.StorePointer(&s.values, n.values)
	atomic.StorePointer(&s.buffer, n.buffer)
	atomic.StoreUint64(&s.origin, n.origin)
	atomic.StoreUint64(&s.slope, n.slope)
	atomic.StoreUint64(&s.shape, n.shape)
	atomic.StorePointer(&s.shown, n.leaf)
}

// attach gives the leaf a buffer.
func (s *slot[V]) attach(b *buffer[V]) {
	for _, store := range s.attaching(b) {
		store()
	}
}

// attaching returns the stores of attach, in order. The slot withdraws what it shows first: until it shows the leaf again,
// everybody asks the leaf, which has the buffer before anybody can write to it. So no reader, whether it comes by the slot or
// by the leaf, misses a write that has been acknowledged.
func (s *slot[V]) attaching(b *buffer[V]) [4]func() {
	l := s.load()
	return [...]func(){
		func() { atomic.StorePointer(&s.shown, nil) },
		func() { l.buf.Store(b) },
		func() { atomic.StorePointer(&s.buffer, unsafe.Pointer(b)) },
		func() { atomic.StorePointer(&s.shown, unsafe.Pointer(l)) },
	}
}

// load returns the leaf.
func (s *slot[V]) load() *leaf[V] { return (*leaf[V])(atomic.LoadPointer(&s.leaf)) }

// read returns the leaf with its contents and its buffer, mostly without looking at it.
func (s *slot[V]) read() (l *leaf[V], c content[V], b *buffer[V]) {
	shown := atomic.LoadPointer(&s.shown)
	keys, values := atomic.LoadPointer(&s.keys), atomic.LoadPointer(&s.values)
	b = (*buffer[V])(atomic.LoadPointer(&s.buffer))
	m := modelOf(atomic.LoadUint64(&s.origin), atomic.LoadUint64(&s.slope), atomic.LoadUint64(&s.shape))
	if shown == nil || atomic.LoadPointer(&s.shown) != shown {
		l = s.load()
		return l, l.content, l.buf.Load()
	}
	n := int(m.limit) + int(m.width)
	return (*leaf[V])(shown), content[V]{m, unsafe.Slice((*uint64)(keys), n), unsafe.Slice((*V)(values), n)}, b
}

// repeats tells whether the slot repeats its leaf. The caller has the node's lock.
func (s *slot[V]) repeats() bool {
	want := newSlot(s.load())
	if b := (*buffer[V])(want.buffer); s.buffer == nil && b != nil && b.load() == unused {
		want.buffer = nil // it only keeps writers out until the leaf is replaced
	}
	return *s == want
}

// find looks up k below a node: a pointer to its value, or nil. Where that takes more than a look at one leaf's arrays, it
// gives the leaf's slot instead.
func (n *inner[V]) find(k uint64) (value *V, s *slot[V]) {
	at, slow := find(unsafe.Pointer(n), k, unsafe.Sizeof(*value))
	return (*V)(at), (*slot[V])(slow)
}

// descend returns the slot of the leaf of k.
func (n *inner[V]) descend(k uint64) *slot[V] { return (*slot[V])(descend(unsafe.Pointer(n), k)) }

// ahead asks for the memory that search will need, and does not wait for it.
func (s *slot[V]) ahead(k uint64) { ahead(unsafe.Pointer(s), k) }

// seek finds the leaf of k, its arrays from the first key on that is not below k, and its buffer. It asks for some more of
// the arrays, for a scan.
func (n *inner[V]) seek(k uint64) (l *leaf[V], keys []uint64, values []V, b *buffer[V]) {
	var p spot
	var value V
	if at := seek(unsafe.Pointer(n), k, unsafe.Sizeof(value), &p); at != nil {
		goSpot(at, k, &p)
	}
	keys, values = unsafe.Slice((*uint64)(p.keys), p.n)[p.i:], unsafe.Slice((*V)(p.values), p.n)[p.i:]
	return (*leaf[V])(p.leaf), keys, values, (*buffer[V])(p.buffer)
}

// aim finds what a write of k needs. It asks for the memory that will be written, and that of a search for k if one comes.
func (n *inner[V]) aim(k uint64, search bool, t *target) (l *leaf[V], b *buffer[V]) {
	if at := aim(unsafe.Pointer(n), k, search, t); at != nil {
		goTarget(at, k, t)
	}
	return (*leaf[V])(t.leaf), (*buffer[V])(t.buffer)
}

// hitOf looks for k in the arrays of its target.
func hitOf[V any](t *target, k uint64) (value V, ok bool) {
	if t.n == 0 {
		return value, false
	}
	i := uintptr(hit(t, k))
	if *(*uint64)(unsafe.Add(t.keys, 8*i)) != k {
		return value, false
	}
	return *(*V)(unsafe.Add(t.values, i*unsafe.Sizeof(value))), true
}

// search is the part of inner.find that comes after descend. It does not wait for the value.
func (s *slot[V]) search(k uint64) (value *V, slow bool) {
	at, slot := search(unsafe.Pointer(s), k, unsafe.Sizeof(*value))
	return (*V)(at), slot != nil
}

// matches returns which slots have the key k: the lower bit of each one's state, of those of them in among.
func (b *buffer[V]) matches(k uint64, among uint32) uint32 {
	return matches(unsafe.Pointer(b), k, among)
}

// fetch asks for the arrays.
func (c *content[V]) fetch() {
	if n := uintptr(len(c.keys)); n > 0 {
		fetch(unsafe.Pointer(&c.keys[0]), 8*n)
		fetch(unsafe.Pointer(&c.values[0]), n*unsafe.Sizeof(c.values[0]))
	}
}
