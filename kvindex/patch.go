package kvindex

// write is one key's last write of a buffer.
type write[V any] struct {
	key     uint64
	deleted bool
	value   V
}

// writes returns a sealed buffer's effect in order of keys, in the caller's array.
func (b *buffer[V]) writes(into *[maxBuffer]write[V]) (ws []write[V], version uint64) {
	d := b.collect(maxBuffer, latest)
	for i, slot := range d.slots[:d.n] {
		into[i] = write[V]{b.keys[slot], b.deleted(slot), b.values[slot]}
	}
	return into[:d.n], d.version
}

// merge applies writes to a leaf's arrays. Where the keys stay as they are, the result shares the leaf's array of them.
func (l *leaf[V]) merge(writes []write[V]) (keys []uint64, values []V) {
	added, removed := 0, 0
	for _, w := range writes {
		_, exists := l.find(w.key)
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
	keys = make([]uint64, 0, len(l.keys)+added-removed)
	values = make([]V, 0, cap(keys))
	from := 0
	for _, w := range writes {
		to := l.lowerBound(w.key)
		keys, values = append(keys, l.keys[from:to]...), append(values, l.values[from:to]...)
		if !w.deleted {
			keys, values = append(keys, w.key), append(values, w.value)
		}
		from = to
		if to < len(l.keys) && l.keys[to] == w.key {
			from++
		}
	}
	return append(keys, l.keys[from:]...), append(values, l.values[from:]...)
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

// recutLeaves makes leaves of merged arrays; the first takes the place of what was there, so its routing key is given.
func recutLeaves[V any](pivot uint64, keys []uint64, values []V, t trainer) []entry[V] {
	pieces := t.retrain(keys)
	if len(pieces) == 1 {
		return []entry[V]{{pivot: pivot, leaf: newLeaf(keys, values, pieces[0].model)}}
	}
	entries := make([]entry[V], 0, len(pieces))
	for _, p := range pieces {
		if len(entries) > 0 {
			pivot = keys[0]
		}
		l := newLeaf(clone(keys[:p.n]), clone(values[:p.n]), p.model)
		entries = append(entries, entry[V]{pivot: pivot, leaf: l})
		keys, values = keys[p.n:], values[p.n:]
	}
	return entries
}

// patch replaces a leaf whose buffer is full by leaves that hold the buffer's writes. It returns when that is done, by
// the caller or by another goroutine.
func (x *Index[V]) patch(k uint64, l *leaf[V]) {
	n, slot := x.bottom(k)
	n.mu.Lock()
	if n.retired || slot.Load() != l {
		n.mu.Unlock()
		return
	}
	b := l.buffer()
	b.seal()
	var room [maxBuffer]write[V]
	writes, version := b.writes(&room)
	keys, values := l.merge(writes)
	if next := x.replacement(l, keys, values); next != nil {
		x.preserve(version, []*leaf[V]{next}, &old[V]{0, l})
		slot.Store(next)
		n.mu.Unlock()
		x.counters.patches.Add(1)
		return
	}
	n.mu.Unlock()
	x.restructure(k, l, merged[V]{keys, values, version})
}

// replacement makes the one leaf that takes the place of l, or returns nil where the neighbours or the parent have to
// change too: the keys need several leaves, or so many were deleted that a neighbour should take them.
func (x *Index[V]) replacement(l *leaf[V], keys []uint64, values []V) *leaf[V] {
	t := x.config.trainer(x.config.LeafEpsilon)
	if shrunk(l, keys, t) {
		return nil
	}
	if len(keys) > 0 && len(l.keys) > 0 && &keys[0] == &l.keys[0] {
		return newLeaf(keys, values, l.model)
	}
	if pieces := t.retrain(keys); len(pieces) == 1 {
		return newLeaf(keys, values, pieces[0].model)
	}
	return nil
}

// merged is a leaf's arrays with its buffer's writes in them.
type merged[V any] struct {
	keys    []uint64
	values  []V
	version uint64 // of the newest write
}
