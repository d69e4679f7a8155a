package kvindex

import (
	"math"
	"sync"
	"sync/atomic"
)

// inner is a node of up to seven segments. All of it but the child slots is immutable.
type inner[V any] struct {
	firsts [maxSegments]uint64 // first pivots of segments 1 to 6, then MaxUint64, as where there is no segment
	count  int
	segs   [maxSegments]segment[V]
	at     uint64 // offset in an arena; 0 outside one

	mu      sync.Mutex // held while a leaf below is replaced; only in nodes above leaves
	retired bool       // guarded by mu: the node is no longer part of the tree
}

// segment is a run of children with the routing key (pivot) of each, and a line over the pivots. Nodes that follow each
// other share the segments that did not change, slots included, so a store through either is seen through both.
type segment[V any] struct {
	router
	leaves []slot[V] // one of the two is nil
	nodes  []atomic.Pointer[inner[V]]
	at     uint64 // offset in an arena; 0 outside one
}

// router finds children. Its array is longer than any segment and goes on with the largest key, so that a window of ten
// needs no check of its bounds, wherever it begins and however short the segment is.
type router struct {
	model  model
	window *[maxCapacity + inner10]uint64
	pivots []uint64 // the used part of window
}

func newRouter(pivots []uint64, m model) router {
	r := router{model: m, window: new([maxCapacity + inner10]uint64)}
	n := copy(r.window[:], pivots)
	for i := n; i < len(r.window); i++ {
		r.window[i] = math.MaxUint64
	}
	r.pivots = r.window[:n:n]
	return r
}

// child returns the position of the child that k belongs to. Keys below the first pivot belong to the first child.
func (r *router) child(k uint64) int {
	i := r.model.start(k)
	if r.model.width > inner10 {
		return predecessor(r.pivots, i, int(r.model.width), k)
	}
	w := r.window
	i &= maxCapacity - 1 // which it is: this is for the compiler
	i += 3 * (atLeast(k, w[i+3]) + atLeast(k, w[i+6]))
	i += atLeast(k, w[i+1]) + atLeast(k, w[i+2])
	i += atLeast(k, w[i+1])
	return min(i, len(r.pivots)-1)
}

// newInner makes a node of 1 to maxSegments segments.
func newInner[V any](segs []segment[V]) *inner[V] {
	n := &inner[V]{count: len(segs)}
	for i := range n.firsts {
		n.firsts[i] = math.MaxUint64
	}
	copy(n.segs[:], segs)
	for i := 1; i < len(segs); i++ {
		n.firsts[i-1] = segs[i].pivots[0]
	}
	return n
}

// route returns the segment and the child that k belongs to.
func (n *inner[V]) route(k uint64) (*segment[V], int) {
	seg := &n.segs[n.segmentOf(k)]
	return seg, seg.child(k)
}

// segmentOf is a binary search without branches.
func (n *inner[V]) segmentOf(k uint64) int {
	s := 4 * atLeast(k, n.firsts[3])
	s += 2 * atLeast(k, n.firsts[s+1])
	s += atLeast(k, n.firsts[s])
	return min(s, n.count-1)
}

// children returns the number of children.
func (n *inner[V]) children() (count int) {
	for i := range n.count {
		count += len(n.segs[i].pivots)
	}
	return count
}

// position is where a key belongs, with the limits of the leaf's range.
type position[V any] struct {
	leaf  *leaf[V]
	lower uint64 // the first key of the range, unless first is set
	first bool   // no leaf comes before
	upper uint64 // the first key of the next leaf's range, unless last is set
	last  bool   // no leaf comes after
}

// bounds are the least and the greatest key of the range.
func (p position[V]) bounds() bounds {
	b := whole
	if !p.first {
		b.least = p.lower
	}
	if !p.last {
		b.most = p.upper - 1
	}
	return b
}

// step is one node on the way down.
type step[V any] struct {
	node      *inner[V]
	seg, slot int
}

// locate descends to the leaf of k. path, when not nil, receives the way.
func locate[V any](n *inner[V], k uint64, path *[]step[V]) position[V] {
	p := position[V]{first: true, last: true}
	for {
		s := n.segmentOf(k)
		seg := &n.segs[s]
		i := seg.child(k)
		if path != nil {
			*path = append(*path, step[V]{n, s, i})
		}
		switch {
		case i+1 < len(seg.pivots):
			p.upper, p.last = seg.pivots[i+1], false
		case s+1 < n.count:
			p.upper, p.last = n.firsts[s], false
		}
		if s > 0 || i > 0 { // a node's first child takes whatever the node's parent sends
			p.lower, p.first = seg.pivots[i], false
		}
		if seg.leaves != nil {
			p.leaf = seg.leaves[i].load()
			return p
		}
		n = seg.nodes[i].Load()
	}
}

// bottom descends to the node above the leaf of k, and to the leaf's segment and slot.
func bottom[V any](n *inner[V], k uint64) (*segment[V], *inner[V], int) {
	for {
		seg, i := n.route(k)
		if seg.leaves != nil {
			return seg, n, i
		}
		n = seg.nodes[i].Load()
	}
}
