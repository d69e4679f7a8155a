package kvindex

import (
	"slices"
	"sync/atomic"
)

// splice replaces neighbouring children of a node by others.
type splice[V any] struct {
	from     step[V] // the first child replaced
	replaced int     // so many from there, which may reach into the next segments
	entries  []entry[V]
	grew     edge     // of the leaf that splits
	olds     []old[V] // replaced leaves, in order
}

// into makes the nodes that replace n: the segments that the splice touches are cut anew, together with a neighbour
// where so few children are left that one segment holds both.
func (s splice[V]) into(n *inner[V], cfg Config) []*inner[V] {
	t := cfg.innerTrainer()
	first, last, from := s.from.seg, s.from.seg, s.from.slot
	total := len(n.segs[first].pivots)
	for from+s.replaced > total {
		last++
		total += len(n.segs[last].pivots)
	}
	grew := inside
	if s.grew == back && from+s.replaced == total || s.grew == front && from == 0 {
		grew = s.grew
	}
	if total += len(s.entries) - s.replaced; len(s.entries) < s.replaced && total < t.retrainBound() {
		switch {
		case last+1 < n.count && total+len(n.segs[last+1].pivots) <= t.capacity/2:
			last++
		case first > 0 && total+len(n.segs[first-1].pivots) <= t.capacity/2:
			first--
			from += len(n.segs[first].pivots)
		}
	}
	c := gather(n.segs[first:last+1], from, s.replaced, s.entries)
	segs := c.segments(t.retrain(c.pivots, n.segs[first].model.eps == 0, grew))
	return groupSegments(slices.Concat(n.segs[:first], segs, n.segs[last+1:n.count]), cfg)
}

// children are neighbouring children with their routing keys.
type children[V any] struct {
	pivots []uint64
	leaves []slot[V] // one of the two is nil
	nodes  []*inner[V]
}

// gather returns the children of neighbouring segments as they are now, of which so many from one on are replaced. The
// caller has the lock of the segments' node. Slots are copied whole: of a segment's hundred, a split changes few.
func gather[V any](segs []segment[V], from, replaced int, by []entry[V]) (c children[V]) {
	total := len(by) - replaced
	for i := range segs {
		total += len(segs[i].pivots)
	}
	c.pivots = make([]uint64, 0, total)
	if segs[0].leaves != nil {
		c.leaves = make([]slot[V], 0, total)
	} else {
		c.nodes = make([]*inner[V], 0, total)
	}
	add := func(s *segment[V], from, to int) {
		c.pivots = append(c.pivots, s.pivots[from:to]...)
		if s.leaves != nil {
			c.leaves = append(c.leaves, s.leaves[from:to]...)
			return
		}
		for i := from; i < to; i++ {
			c.nodes = append(c.nodes, s.nodes[i].Load())
		}
	}
	for i := range segs {
		n := len(segs[i].pivots)
		add(&segs[i], 0, min(max(from, 0), n))
		if 0 <= from && from < n {
			c.take(by)
		}
		add(&segs[i], min(max(from+replaced, 0), n), n)
		from -= n
	}
	return c
}

// take adds new children.
func (c *children[V]) take(entries []entry[V]) {
	for _, e := range entries {
		c.pivots = append(c.pivots, e.pivot)
		if c.leaves != nil {
			c.leaves = append(c.leaves, newSlot(e.leaf))
		} else {
			c.nodes = append(c.nodes, e.node)
		}
	}
}

// segments makes the segments that pieces cut.
func (c children[V]) segments(pieces []piece) []segment[V] {
	segs := make([]segment[V], len(pieces))
	from := 0
	for i, p := range pieces {
		s, to := &segs[i], from+p.n
		s.router = newRouter(c.pivots[from:to], p.model)
		switch {
		case c.nodes != nil:
			s.nodes = make([]atomic.Pointer[inner[V]], p.n)
			for j, n := range c.nodes[from:to] {
				s.nodes[j].Store(n)
			}
		case len(pieces) == 1:
			s.leaves = c.leaves
		default: // not a part of one array, which would keep what the others led to
			s.leaves = clone(c.leaves[from:to])
		}
		from = to
	}
	return segs
}
