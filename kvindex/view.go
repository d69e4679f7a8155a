package kvindex

import (
	"iter"
	"math"
)

// view is the map as of a version. The live index is the view of the latest one; for older ones, leaves that have been
// replaced since are kept with the snapshots.
type view[V any] struct {
	index   *Index[V]
	version uint64
}

// locate finds the leaf of k as of the version, and its range.
func (w view[V]) locate(k uint64) position[V] {
	p := locate(w.index.tree(), k, nil)
	if p.leaf.since > w.version {
		return w.index.snapshots.find(k, w.version)
	}
	return p
}

// get returns the value of k as of the version.
func (w view[V]) get(k uint64) (value V, ok bool) {
	l := w.locate(k).leaf
	b := l.buf.Load()
	if s, n := b.until(w.version); n > 0 {
		switch slot, kind := b.newest(s, k, n, w.version); kind {
		case slotPut:
			return b.values[slot], true
		case slotDel:
			return value, false
		}
	}
	return l.search(k)
}

// until returns how many slots of a leaf's buffer, which may be nil, a version has to look at. For an older version than
// the latest, slots must not change any more: those still being filled are killed, and their writers come back with a newer
// version.
func (b *buffer[V]) until(version uint64) (s slots, n int) {
	if b == nil {
		return 0, 0
	}
	s = b.load()
	n = s.taken()
	if version != latest {
		s = b.settle(n)
	}
	return s, n
}

// end is the last key of the range, or hi.
func (p *position[V]) end(hi uint64) uint64 {
	if p.last {
		return hi
	}
	return min(p.upper-1, hi)
}

// behind returns the key after the leaf's last one, or lo if that is larger; 0 after the largest key of all.
func (l *leaf[V]) behind(lo uint64) uint64 {
	if n := len(l.keys); n > 0 {
		if l.keys[n-1] == math.MaxUint64 {
			return 0
		}
		lo = max(lo, l.keys[n-1]+1)
	}
	b := l.buf.Load()
	s, n := b.until(latest)
	for i := range n {
		if kind := s.kind(i); kind != slotFree && kind != slotDead && b.keys[i] >= lo {
			lo = b.keys[i] + 1
		}
		if lo == 0 {
			return 0
		}
	}
	return lo
}

// descend yields them in falling order.
func (w view[V]) descend(lo, hi uint64, yield func(uint64, V) bool) {
	for lo <= hi {
		p := w.locate(hi)
		end := lo
		if !p.first && p.lower > lo {
			end = p.lower
		}
		if !p.leaf.descend(w.version, end, hi, yield) || end == lo {
			return
		}
		hi = p.lower - 1
	}
}

// descend yields the leaf's pairs within [lo, hi] in falling order; false when yield ended it.
func (l *leaf[V]) descend(version, lo, hi uint64, yield func(uint64, V) bool) bool {
	i, _ := l.find(hi)
	if i < len(l.keys) && l.keys[i] > hi || i >= len(l.keys) {
		i--
	}
	b := l.buf.Load()
	if s, n := b.until(version); n > 0 {
		d := b.collect(s, n, version, bounds{lo, hi})
		for at := d.n - 1; at >= 0; at-- {
			slot := d.slots[at]
			k := b.keys[slot]
			for ; i >= 0 && l.keys[i] > k; i-- {
				if !yield(l.keys[i], l.values[i]) {
					return false
				}
			}
			if i >= 0 && l.keys[i] == k {
				i--
			}
			if s.kind(int(slot)) == slotPut && !yield(k, b.values[slot]) {
				return false
			}
		}
	}
	for ; i >= 0 && l.keys[i] >= lo; i-- {
		if !yield(l.keys[i], l.values[i]) {
			return false
		}
	}
	return true
}

// ceil returns the first pair at or above k.
func (w view[V]) ceil(k uint64) (key uint64, value V, ok bool) {
	if c := (cursor[V]{view: w, from: k, to: math.MaxUint64}); c.more() {
		return c.keys[0], c.values[0], true
	}
	return key, value, false
}

// floor returns the last pair at or below k.
func (w view[V]) floor(k uint64) (key uint64, value V, ok bool) {
	w.descend(0, k, func(k uint64, v V) bool {
		key, value, ok = k, v, true
		return false
	})
	return key, value, ok
}

// Backward yields every pair in falling order of keys.
func (x *Index[V]) Backward() iter.Seq2[uint64, V] {
	return func(yield func(uint64, V) bool) { view[V]{x, latest}.descend(0, math.MaxUint64, yield) }
}

// Floor returns the pair with the greatest key at or below k.
func (x *Index[V]) Floor(k uint64) (key uint64, value V, ok bool) { return view[V]{x, latest}.floor(k) }

// Ceil returns the pair with the least key at or above k.
func (x *Index[V]) Ceil(k uint64) (key uint64, value V, ok bool) { return view[V]{x, latest}.ceil(k) }

// Min returns the pair with the least key.
func (x *Index[V]) Min() (key uint64, value V, ok bool) { return x.Ceil(0) }

// Max returns the pair with the greatest key.
func (x *Index[V]) Max() (key uint64, value V, ok bool) { return x.Floor(math.MaxUint64) }
