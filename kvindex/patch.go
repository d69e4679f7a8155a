package kvindex

import "sync/atomic"

// writes are the last write to each key of a buffer, in order of keys.
type writes[V any] struct {
	n       int
	version uint64 // of the newest
	keys    [maxBuffer]uint64
	values  [maxBuffer]V
	deleted [maxBuffer]bool
}

// add puts the writes of a buffer in order.
func (ws *writes[V]) add(b *buffer[V], s slots, d *delta) {
	for i, slot := range d.slots[:d.n] {
		ws.keys[i], ws.values[i], ws.deleted[i] = b.keys[slot], b.values[slot], s.kind(int(slot)) == slotDel
	}
	ws.n, ws.version = d.n, d.version
}

// sealed ends the writing to a leaf and gives its buffer's effect. The caller has the lock of the leaf's node.
func (x *Index[V]) sealed(l *leaf[V], into *writes[V]) {
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
	into.add(b, s, &d)
}

// edge is an end of a node at which nearly all of its new keys are.
type edge uint8

const (
	inside edge = iota // new keys are anywhere
	front
	back
)

// edgeOf tells where new keys are, of which so many are below all others, and so many above.
func edgeOf(fresh, below, above int) edge {
	switch most := fresh - fresh/4; {
	case fresh == 0:
		return inside
	case above >= most:
		return back
	case below >= most:
		return front
	}
	return inside
}

// merge applies writes to a leaf's arrays. Where the keys stay as they are, the result shares the leaf's array of them. The sum
// is the leaf's, changed by what is written, so that what went wrong in an array before is still seen afterwards.
func (l *leaf[V]) merge(ws *writes[V]) merged[V] {
	m := merged[V]{sum: l.sum, version: ws.version}
	var at [maxBuffer]int
	places(&l.model, l.keys, &ws.keys, ws.n, &at)
	var g gaps
	same := true
	fresh, below, above := 0, 0, 0
	for i, k := range ws.keys[:ws.n] {
		put, out := 1, 0
		if at[i] < len(l.keys) && l.keys[at[i]] == k {
			m.sum -= pairSum(k, &l.values[at[i]])
			out = 1
		}
		if ws.deleted[i] {
			put = 0
		} else {
			m.sum += pairSum(k, &ws.values[i])
		}
		g.add(at[i], put, out)
		same = same && put == out
		if put > out {
			fresh++
			below += 1 - atLeast(uint64(at[i]), 1)
			above += atLeast(uint64(at[i]), uint64(len(l.keys)))
		}
	}
	if same {
		m.keys, m.values = l.keys, l.updated(ws, &at)
		return m
	}
	g.add(len(l.keys), 0, 0)
	m.keys, m.values, m.grew = make([]uint64, g.to), make([]V, g.to), edgeOf(fresh, below, above)
	weave(m.keys, l.keys, &ws.keys, &g)
	weave(m.values, l.values, &ws.values, &g)
	return m
}

// updated is a copy of the values with writes to keys that are there.
func (l *leaf[V]) updated(ws *writes[V], at *[maxBuffer]int) []V {
	values := clone(l.values)
	for i := range ws.n {
		if !ws.deleted[i] {
			values[at[i]] = ws.values[i]
		}
	}
	return values
}

// merged is a leaf's arrays with its buffer's writes in them, and how they are cut into leaves.
type merged[V any] struct {
	keys    []uint64
	values  []V
	sum     uint64 // contentSum of them
	pieces  []piece
	grew    edge
	version uint64         // of the newest write
	clock   *atomic.Uint64 // where leaves get buffers at once: what gives the version
}

// leaves makes the leaves. The first takes the place of what was there, so its routing key is given. Where keys come at one end,
// only the leaf there gets a buffer at once.
func (m merged[V]) leaves(pivot uint64) []entry[V] {
	if len(m.pieces) == 1 {
		return []entry[V]{{pivot: pivot, leaf: newWritten(m.keys, m.values, m.pieces[0].model, m.sum, m.clock)}}
	}
	entries := make([]entry[V], 0, len(m.pieces))
	from, left := 0, m.sum
	for i, p := range m.pieces {
		to := from + p.n
		if from > 0 {
			pivot = m.keys[from]
		}
		keys, values := clone(m.keys[from:to]), clone(m.values[from:to])
		sum := left // the last one has what is left of the whole's, so what went wrong in any of them is still seen
		if i+1 < len(m.pieces) {
			sum = contentSum(keys, values)
		}
		left -= sum
		clock := m.clock
		if m.grew == back && i+1 < len(m.pieces) || m.grew == front && i > 0 {
			clock = nil
		}
		l := newWritten(keys, values, p.model, sum, clock)
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
	var ws writes[V]
	x.sealed(l, &ws)
	m := l.merge(&ws)
	m.clock = clock
	t := x.config.leafTrainer()
	same := len(m.keys) > 0 && len(l.keys) > 0 && &m.keys[0] == &l.keys[0]
	if same {
		m.pieces = []piece{{len(m.keys), l.model}}
	} else {
		m.pieces = t.retrain(m.keys, l.model.eps == 0, m.grew)
	}
	if len(m.pieces) > 1 || shrunk(l, m.keys, t) {
		n.mu.Unlock()
		x.restructure(k, l, m)
		return
	}
	next := newWritten(m.keys, m.values, m.pieces[0].model, m.sum, clock)
	next.since = max(m.version, l.since)
	if x.snapshots.oldest.Load() < next.since {
		x.snapshots.keep(next.since, []old[V]{{l, locate(root, k, nil).bounds()}})
	}
	seg.leaves[i].set(next)
	n.mu.Unlock()
	x.counters.patches.Add(1)
}
