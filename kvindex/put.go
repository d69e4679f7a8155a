package kvindex

// Put sets the value of k and returns the value it had, if any. It panics after Close.
func (x *Index[V]) Put(k uint64, v V) (old V, replaced bool) {
	l, b, slot := x.append(k, v, slotPut, true)
	old, replaced = l.valueBefore(b, slot)
	if slot == x.config.BufferCapacity-1 {
		x.patch(k, l, &x.version)
	}
	return old, replaced
}

// PutBlind sets the value of k without looking what it was, which saves a search. It panics after Close.
func (x *Index[V]) PutBlind(k uint64, v V) {
	if l, _, slot := x.append(k, v, slotPut, false); slot == x.config.BufferCapacity-1 {
		x.patch(k, l, &x.version)
	}
}

// Delete removes k and returns the value it had, if any. It panics after Close.
func (x *Index[V]) Delete(k uint64) (old V, deleted bool) {
	if _, ok := x.Get(k); !ok {
		return old, false // a marker for a key that is not there would only fill the buffer
	}
	var none V
	l, b, slot := x.append(k, none, slotDel, true)
	old, deleted = l.valueBefore(b, slot)
	if slot == x.config.BufferCapacity-1 {
		x.patch(k, l, &x.version)
	}
	return old, deleted
}

// append writes to the buffer of the leaf of k. From the commit on, every reader sees the write. look tells that the
// caller will search the leaf afterwards.
func (x *Index[V]) append(k uint64, v V, kind uint64, look bool) (*leaf[V], *buffer[V], int) {
	for {
		var l *leaf[V]
		if look {
			l = x.leafAhead(k)
		} else {
			l = x.leafOf(k)
		}
		prefetchWritten(l)
		b := x.buffer(l)
		slot, ok := b.reserve(x.config.BufferCapacity)
		// The version is read after the slot is reserved, so that a snapshot that finds the slot unreserved knows that
		// whatever comes to it will be newer than the snapshot.
		if !ok || !b.fill(slot, k, v, kind, x.version.Load()) {
			x.counters.stalls.Add(1)
			x.patch(k, l, &x.version)
			continue
		}
		if b.commit(slot, kind) {
			return l, b, slot
		}
	}
}

// buffer returns the leaf's buffer, made on the first write.
func (x *Index[V]) buffer(l *leaf[V]) *buffer[V] {
	if b := l.buf.Load(); b != nil {
		return b
	}
	l.buf.CompareAndSwap(nil, &buffer[V]{born: x.version.Load()})
	return l.buf.Load()
}

// valueBefore returns what the key of a committed slot was before it, in the order of slots. Writes in lower slots that
// have not committed are made to start over, so that they come after.
func (l *leaf[V]) valueBefore(b *buffer[V], slot int) (value V, ok bool) {
	switch at, kind := b.latest(b.settle(slot), b.keys[slot], slot); kind {
	case slotPut:
		return b.values[at], true
	case slotDel:
		return value, false
	}
	return l.search(b.keys[slot])
}
