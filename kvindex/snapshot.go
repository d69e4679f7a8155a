package kvindex

import (
	"iter"
	"math"
	"sort"
	"sync"
)

// Snapshot is the map as it was at one moment: it holds every write that returned before Snapshot was called, none that
// began after it returned, and always the same of those between. Its methods may be called from any goroutine until
// Close; after that they panic.
type Snapshot[V any] struct {
	view view[V]

	once   sync.Once
	ranks  []rank // of each leaf, for Rank and At
	length int

	mu     sync.Mutex
	closed bool
}

// rank is how many keys come before a leaf.
type rank struct {
	from   uint64 // the first key of the leaf's range
	before int
}

// Snapshot opens a view of this moment, in constant time and without waiting for writers or making them wait. Each leaf
// that is replaced for the first time since then stays in memory for it until its Close, so the snapshots that are open take at
// most the memory of as many copies of the map, whatever is written meanwhile.
func (x *Index[V]) Snapshot() *Snapshot[V] {
	x.tree()
	return &Snapshot[V]{view: view[V]{x, x.snapshots.begin(&x.version)}}
}

// Close lets go of what is kept for the snapshot and for no other. It gives no error and may be called again.
func (s *Snapshot[V]) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.view.index.snapshots.end(s.view.version)
	}
	return nil
}

// open panics where the snapshot is closed: its contents are gone, and no result could say so.
func (s *Snapshot[V]) open() view[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		panic("kvindex: snapshot used after Close")
	}
	return s.view
}

// Get returns the value of k and whether k is there.
func (s *Snapshot[V]) Get(k uint64) (value V, ok bool) { return s.open().get(k) }

// All yields every pair in rising order of keys.
func (s *Snapshot[V]) All() iter.Seq2[uint64, V] { return s.Range(0, math.MaxUint64) }

// From yields the pairs with keys at or above lo in rising order.
func (s *Snapshot[V]) From(lo uint64) iter.Seq2[uint64, V] { return s.Range(lo, math.MaxUint64) }

// Range yields the pairs with lo <= key <= hi in rising order.
func (s *Snapshot[V]) Range(lo, hi uint64) iter.Seq2[uint64, V] {
	return func(yield func(uint64, V) bool) {
		c := cursor[V]{view: s.open(), from: lo, to: hi}
		for c.more() {
			keys, values := c.keys, c.values
			values = values[:len(keys)]
			for i, k := range keys {
				if !yield(k, values[i]) {
					return
				}
			}
		}
	}
}

// Backward yields every pair in falling order of keys.
func (s *Snapshot[V]) Backward() iter.Seq2[uint64, V] {
	return func(yield func(uint64, V) bool) { s.open().descend(0, math.MaxUint64, yield) }
}

// Floor returns the pair with the greatest key at or below k.
func (s *Snapshot[V]) Floor(k uint64) (key uint64, value V, ok bool) { return s.open().floor(k) }

// Ceil returns the pair with the least key at or above k.
func (s *Snapshot[V]) Ceil(k uint64) (key uint64, value V, ok bool) { return s.open().ceil(k) }

// Len returns the number of keys. The first call of Len, Rank or At on a snapshot walks its leaves; later ones do not.
func (s *Snapshot[V]) Len() int {
	s.rank()
	return s.length
}

// Rank returns the number of keys below k.
func (s *Snapshot[V]) Rank(k uint64) int {
	w := s.rank()
	i := max(sort.Search(len(s.ranks), func(i int) bool { return s.ranks[i].from > k })-1, 0)
	n := s.ranks[i].before
	if k > 0 {
		c := cursor[V]{view: w, from: s.ranks[i].from, to: k - 1}
		for c.more() {
			n += len(c.keys)
		}
	}
	return n
}

// At returns the pair with exactly i keys below it; ok is false where i is not within [0, Len).
func (s *Snapshot[V]) At(i int) (key uint64, value V, ok bool) {
	w := s.rank()
	if i < 0 || i >= s.length {
		return key, value, false
	}
	at := sort.Search(len(s.ranks), func(j int) bool { return s.ranks[j].before > i }) - 1
	i -= s.ranks[at].before
	c := cursor[V]{view: w, from: s.ranks[at].from, to: math.MaxUint64}
	for c.more() {
		if i < len(c.keys) {
			return c.keys[i], c.values[i], true
		}
		i -= len(c.keys)
	}
	return key, value, false
}

// rank counts the keys of each leaf, once.
func (s *Snapshot[V]) rank() view[V] {
	w := s.open()
	s.once.Do(func() {
		w.walk(func(l *leaf[V], lo, hi uint64) {
			s.ranks = append(s.ranks, rank{lo, s.length})
			s.length += l.count(w.version, lo, hi)
		})
	})
	return w
}

// walk visits every leaf with the range of keys that is its own.
func (w view[V]) walk(visit func(l *leaf[V], lo, hi uint64)) {
	for lo := uint64(0); ; {
		p := w.locate(lo)
		if p.last {
			visit(p.leaf, lo, math.MaxUint64)
			return
		}
		visit(p.leaf, lo, p.upper-1)
		lo = p.upper
	}
}

// count returns how many keys a leaf has within [lo, hi] as of a version.
func (l *leaf[V]) count(version, lo, hi uint64) int {
	i, n := l.lowerBound(lo), l.lowerBound(hi)
	if n < len(l.keys) && l.keys[n] == hi {
		n++
	}
	n -= i
	b := l.buf.Load()
	s, taken := b.until(version)
	if taken == 0 {
		return n
	}
	d := b.collect(s, taken, version, bounds{lo, hi})
	for _, slot := range d.slots[:d.n] {
		k := b.keys[slot]
		switch _, exists := l.find(k); {
		case exists && s.kind(int(slot)) == slotDel:
			n--
		case !exists && s.kind(int(slot)) == slotPut:
			n++
		}
	}
	return n
}

// Len returns the number of keys. It walks the leaves, 1 ms a million keys and twenty times that while all leaves have
// buffered writes: writes that do not look whether their key exists leave nothing to count by.
func (x *Index[V]) Len() (n int) {
	w := view[V]{x, latest}
	w.walk(func(l *leaf[V], lo, hi uint64) { n += l.count(latest, lo, hi) })
	return n
}
