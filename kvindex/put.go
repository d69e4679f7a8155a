package kvindex

// Put sets the value of k and returns the value it had, if any. It panics after Close.
func (x *Index[V]) Put(k uint64, v V) (old V, replaced bool) { return x.putting(k, v, slotPut) }

// Delete removes k and returns the value it had, if any. It panics after Close.
func (x *Index[V]) Delete(k uint64) (old V, deleted bool) {
	if _, ok := x.Get(k); !ok {
		return old, false // a marker for a key that is not there would only fill the buffer
	}
	return x.putting(k, old, slotDel)
}

// putting writes, and tells what was there before.
func (x *Index[V]) putting(k uint64, v V, kind uint64) (old V, existed bool) {
	var t target
	for {
		l, b := x.tree().aim(k, true, &t)
		slot, ok := x.append(l, b, k, v, kind)
		if !ok {
			continue
		}
		// What the key was before, in the order of slots. Writes in lower slots that have not committed are made to start
		// over, so that they come after.
		switch at, was := b.latest(b.settle(slot), k, slot); {
		case was == slotPut:
			old, existed = b.values[at], true
		case was == slotFree:
			old, existed = hitOf[V](&t, k)
		}
		x.full(k, l, slot)
		return old, existed
	}
}

// PutBlind sets the value of k without looking what it was, which saves a search. It panics after Close.
func (x *Index[V]) PutBlind(k uint64, v V) {
	var t target
	for {
		l, b := x.tree().aim(k, false, &t)
		if slot, ok := x.append(l, b, k, v, slotPut); ok {
			x.full(k, l, slot)
			return
		}
	}
}

// append writes to a leaf's buffer. From the commit on, every reader sees the write. false means that the write was not
// made: the caller looks for the leaf again, which mostly is another one.
func (x *Index[V]) append(l *leaf[V], b *buffer[V], k uint64, v V, kind uint64) (slot int, ok bool) {
	if b == nil {
		x.attach(k, l)
		return 0, false
	}
	slot, ok = b.reserve(x.config.BufferCapacity)
	// The version is read after the slot is reserved, so that a snapshot that finds the slot unreserved knows that
	// whatever comes to it will be newer than the snapshot.
	if !ok || !b.fill(slot, k, v, kind, x.version.Load()) {
		x.counters.stalls.Add(1)
		x.patch(k, l, &x.version)
		return 0, false
	}
	return slot, b.commit(slot, kind)
}

// full replaces a leaf after a write to its buffer's last slot.
func (x *Index[V]) full(k uint64, l *leaf[V], slot int) {
	if slot == x.config.BufferCapacity-1 {
		x.patch(k, l, &x.version)
	}
}

// attach gives a leaf its buffer, before its first write. It does nothing where the leaf has one or is replaced.
func (x *Index[V]) attach(k uint64, l *leaf[V]) {
	root := x.root.Load()
	if root == nil {
		return // closed meanwhile: the caller will notice
	}
	seg, n, i := bottom(root, k)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.retired && seg.leaves[i].load() == l && l.buf.Load() == nil {
		seg.leaves[i].attach(&buffer[V]{born: x.version.Load()})
	}
}
