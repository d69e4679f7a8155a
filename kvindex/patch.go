package kvindex

import "sync/atomic"

// write is one key's last write of a buffer.
type write[V any] struct {
	key     uint64
	deleted bool
	value   V
}

// sealed ends the writing to a leaf and returns its buffer's effect in order of keys, in the caller's array. The caller has
// the lock of the leaf's node.
func (x *Index[V]) sealed(l *leaf[V], into *[maxBuffer]write[V]) (ws []write[V], version uint64) {
	b := l.buf.Load()
	if b == nil { // to stop writers who have seen the leaf and not yet given it one
		b = &buffer[V]{born: x.version.Load()}
		l.buf.Store(b)
	}
	s := b.seal()
	var d delta
	if s.committed() == lower {
		d = b.sorted()
	} else {
		d = b.collect(s, maxBuffer, latest, whole)
	}
	for i, slot := range d.slots[:d.n] {
		into[i] = write[V]{b.keys[slot], s.kind(int(slot)) == slotDel, b.values[slot]}
	}
	return into[:d.n], d.version
}

// merge applies writes to a leaf's arrays. Where the keys stay as they are, the result shares the leaf's array of them.
func (l *leaf[V]) merge(writes []write[V]) (keys []uint64, values []V) {
	var at [maxBuffer]int
	added, removed := 0, 0
	for i, w := range writes {
		at[i] = l.lowerBound(w.key)
		exists := at[i] < len(l.keys) && l.keys[at[i]] == w.key
		switch {
		case exists && w.deleted:
			removed++
		case !exists && !w.deleted:
			added++
		}
	}
	if added+removed == 0 {
		return l.keys, l.updated(writes)
	}
	keys = make([]uint64, len(l.keys)+added-removed)
	values = make([]V, len(keys))
	from, to := 0, 0
	for i, w := range writes {
		for ; from < at[i]; from++ { // a few at a time: to call copy takes longer
			keys[to], values[to] = l.keys[from], l.values[from]
			to++
		}
		if !w.deleted {
			keys[to], values[to] = w.key, w.value
			to++
		}
		if from < len(l.keys) && l.keys[from] == w.key {
			from++
		}
	}
	copy(keys[to:], l.keys[from:])
	copy(values[to:], l.values[from:])
	return keys, values
}

// updated is a copy of the values with writes to keys that are there.
func (l *leaf[V]) updated(writes []write[V]) []V {
	values := clone(l.values)
	for _, w := range writes {
		if i, exists := l.find(w.key); exists {
			values[i] = w.value
		}
	}
	return values
}

// merged is a leaf's arrays with its buffer's writes in them, and how they are cut into leaves.
type merged[V any] struct {
	keys    []uint64
	values  []V
	pieces  []piece
	version uint64         // of the newest write
	clock   *atomic.Uint64 // where leaves get buffers at once: what gives the version
}

// leaves makes the leaves. The first takes the place of what was there, so its routing key is given.
func (m merged[V]) leaves(pivot uint64) []entry[V] {
	if len(m.pieces) == 1 {
		return []entry[V]{{pivot: pivot, leaf: newWritten(m.keys, m.values, m.pieces[0].model, m.clock)}}
	}
	entries := make([]entry[V], 0, len(m.pieces))
	from := 0
	for _, p := range m.pieces {
		to := from + p.n
		if from > 0 {
			pivot = m.keys[from]
		}
		l := newWritten(clone(m.keys[from:to]), clone(m.values[from:to]), p.model, m.clock)
		entries = append(entries, entry[V]{pivot: pivot, leaf: l})
		from = to
	}
	return entries
}

// patch replaces a leaf whose buffer is full by leaves that hold the buffer's writes. It returns when that is done, by
// the caller or by another goroutine. With a clock they are expected to be written to.
func (x *Index[V]) patch(k uint64, l *leaf[V], clock *atomic.Uint64) {
	root := x.root.Load()
	if root == nil {
		return // closed meanwhile
	}
	l.fetch() // all of the arrays will be copied
	seg, n, i := bottom(root, k)
	n.mu.Lock()
	if n.retired || seg.leaves[i].load() != l {
		n.mu.Unlock()
		return
	}
	var room [maxBuffer]write[V]
	writes, version := x.sealed(l, &room)
	m := merged[V]{version: version, clock: clock}
	m.keys, m.values = l.merge(writes)
	t := x.config.leafTrainer()
	same := len(m.keys) > 0 && len(l.keys) > 0 && &m.keys[0] == &l.keys[0]
	if same {
		m.pieces = []piece{{len(m.keys), l.model}}
	} else {
		m.pieces = t.retrain(m.keys, l.model.eps == 0)
	}
	if len(m.pieces) > 1 || shrunk(l, m.keys, t) {
		n.mu.Unlock()
		x.restructure(k, l, m)
		return
	}
	next := newWritten(m.keys, m.values, m.pieces[0].model, clock)
	x.preserve(version, []*leaf[V]{next}, &old[V]{0, l})
	seg.leaves[i].set(next)
	n.mu.Unlock()
	x.counters.patches.Add(1)
}
