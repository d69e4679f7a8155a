package kvindex

import (
	"iter"
	"math"
	"slices"
)

// runs are a leaf's pairs within [lo, hi] as of a version, in rising order, as stretches of the leaf's arrays and single
// writes of its buffer, nothing of which changes.
type runs[V any] struct {
	keys   []uint64 // the present run
	values []V

	rest       []uint64 // of the leaf's arrays
	restValues []V

	buffer *buffer[V] // nil where it has nothing
	of     uint64     // the version
	state  slots
	taken  int
	lo, hi uint64 // what is left of the range
	sorted delta  // the buffer's writes among the next of the leaf's keys
	at     int    // the next of them
	near   int    // how many of the leaf's keys they are among
	last   bool   // they are the buffer's last
}

// stretch is how many of a leaf's keys are merged with the buffer at a time: a scan that ends early does not sort all of it.
const stretch = 16

// begin starts with a leaf's arrays from lo on, and its buffer.
func (r *runs[V]) begin(keys []uint64, values []V, b *buffer[V], version, lo, hi uint64) {
	r.rest, r.restValues = keys, values
	r.buffer = nil
	if b != nil {
		if state, taken := b.until(version); taken > 0 {
			r.buffer, r.of, r.state, r.taken, r.lo, r.hi = b, version, state, taken, lo, hi
			r.gather()
			return
		}
	}
	r.rest = keys[:upperBound(keys, hi)]
}

// upperBound returns the position of the first key above k. It looks from the front on, at twice the distance each time, for
// the last keys of a leaf are mostly in no cache and a scan may end before them.
func upperBound(keys []uint64, k uint64) int {
	if k == math.MaxUint64 {
		return len(keys)
	}
	low, high := 0, 8
	for high < len(keys) && keys[high] <= k {
		low, high = high, 2*high
	}
	i, exact := slices.BinarySearch(keys[low:min(high, len(keys))], k)
	if exact {
		i++
	}
	return low + i
}

// next goes on to the next run; false at the leaf's end.
func (r *runs[V]) next() bool {
	if r.buffer == nil {
		return r.take(len(r.rest))
	}
	for {
		switch {
		case r.at < r.sorted.n:
			slot := r.sorted.slots[r.at]
			k := r.buffer.keys[slot]
			i := 0
			for i < r.near && r.rest[i] < k {
				i++
			}
			if r.take(i) {
				return true
			}
			if r.near > 0 && r.rest[0] == k {
				r.skip(1)
			}
			r.at++
			if r.state.kind(int(slot)) == slotPut {
				r.keys, r.values = r.buffer.keys[slot:slot+1], r.buffer.values[slot:slot+1]
				return true
			}
		case r.take(r.near):
			return true
		case r.last:
			return false
		default:
			r.gather()
		}
	}
}

// take makes the run of the next n of the leaf's keys.
func (r *runs[V]) take(n int) bool {
	r.keys, r.values = r.rest[:n], r.restValues[:n]
	r.skip(n)
	return n > 0
}

func (r *runs[V]) skip(n int) {
	r.rest, r.restValues = r.rest[n:], r.restValues[n:]
	r.near -= n
}

// gather collects the buffer's writes among the next of the leaf's keys.
func (r *runs[V]) gather() {
	r.near = min(stretch, len(r.rest))
	r.last = r.near == len(r.rest) || r.rest[r.near] > r.hi
	part := bounds{r.lo, r.hi}
	if !r.last {
		r.lo = r.rest[r.near]
		part.most = r.lo - 1
	} else if r.near > 0 && r.rest[r.near-1] > r.hi {
		r.near = upperBound(r.rest[:r.near], r.hi)
	}
	r.sorted, r.at = r.buffer.collect(r.state, r.taken, r.of, part), 0
}

// cursor is a scan in rising order. It is not made in the head of a loop, where each round would have a copy of it.
type cursor[V any] struct {
	view[V]
	from, to uint64 // what was left of the range when the present leaf was entered
	runs[V]
	leaf  *leaf[V]
	upper uint64 // where the leaf's range ends, unless final is set; not known where the version is the latest
	final bool
}

// more goes on to the next run of pairs, keys and values; false at the end.
func (c *cursor[V]) more() bool {
	for c.leaf == nil || !c.next() {
		if c.leaf != nil && !c.leave() || c.from > c.to {
			return false
		}
		c.enter()
	}
	return true
}

// enter goes on with the next leaf.
func (c *cursor[V]) enter() {
	if c.version == latest {
		// A short scan ends in its first leaf, which seek finds; the leaf's range is needed only to go on.
		l, keys, values, b := c.index.tree().seek(c.from)
		c.leaf = l
		c.begin(keys, values, b, latest, c.from, c.to)
		return
	}
	p := c.locate(c.from)
	c.leaf, c.upper, c.final = p.leaf, p.upper, p.last
	i := p.leaf.lowerBound(c.from)
	c.begin(p.leaf.keys[i:], p.leaf.values[i:], p.leaf.buf.Load(), c.version, c.from, p.end(c.to))
}

// leave goes behind the present leaf; false where nothing comes.
func (c *cursor[V]) leave() bool {
	if c.version == latest {
		p := c.locate(c.from)
		if p.leaf != c.leaf { // replaced meanwhile: go on behind what has been yielded
			c.from = c.leaf.behind(c.from)
			return c.from != 0
		}
		c.upper, c.final = p.upper, p.last
	}
	if c.final || c.upper > c.to {
		return false
	}
	c.from = c.upper
	return true
}

// All yields every pair in rising order of keys. It panics after Close, as all that follow.
func (x *Index[V]) All() iter.Seq2[uint64, V] { return x.Range(0, math.MaxUint64) }

// From yields the pairs with keys at or above lo in rising order.
func (x *Index[V]) From(lo uint64) iter.Seq2[uint64, V] { return x.Range(lo, math.MaxUint64) }

// Range yields the pairs with lo <= key <= hi in rising order. Both ends belong to it, so that every key can be named.
func (x *Index[V]) Range(lo, hi uint64) iter.Seq2[uint64, V] {
	return func(yield func(uint64, V) bool) { // short enough for the compiler to put it, and the loop's body, into the caller
		c := cursor[V]{view: view[V]{x, latest}, from: lo, to: hi}
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
