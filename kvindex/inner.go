package kvindex

import (
	"math"
	"sync"
	"sync/atomic"
)

// inner is a node of up to seven segments. All of it but the child slots is immutable.
type inner[V any] struct {
	firsts [maxSegments - 1]uint64 // first pivots of segments 1 to 6; MaxUint64 where there is none
	count  int
	at     uint64 // offset in an arena; 0 outside one
	segs   [maxSegments]segment[V]

	mu      sync.Mutex // held while a leaf below is replaced; only in nodes above leaves
	retired bool       // guarded by mu: the node is no longer part of the tree
}

// segment is a run of children with the routing key (pivot) of each, and a line over the pivots. Nodes that follow each
// other share the segments that did not change, slots included, so a store through either is seen through both.
type segment[V any] struct {
	model  model
	pivots []uint64
	leaves []atomic.Pointer[leaf[V]] // one of the two is nil
	nodes  []atomic.Pointer[inner[V]]
	at     uint64 // offset in an arena; 0 outside one
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

// route returns the segment and the child that k belongs to. Keys below the first pivot belong to the first child.
func (n *inner[V]) route(k uint64) (*segment[V], int) {
	seg := &n.segs[n.segmentOf(k)]
	return seg, predecessor(seg.pivots, seg.model.start(k), int(seg.model.width), k)
}

// segmentOf compares with all first keys, without branches.
func (n *inner[V]) segmentOf(k uint64) int {
	f := &n.firsts
	above := below(k, f[0]) + below(k, f[1]) + below(k, f[2]) + below(k, f[3]) + below(k, f[4]) + below(k, f[5])
	return min(maxSegments-1-above, n.count-1)
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
		i := predecessor(seg.pivots, seg.model.start(k), int(seg.model.width), k)
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
			p.leaf = seg.leaves[i].Load()
			return p
		}
		n = seg.nodes[i].Load()
	}
}

// bottom descends to the node above the leaf of k.
func bottom[V any](n *inner[V], k uint64) (*inner[V], *atomic.Pointer[leaf[V]]) {
	for {
		seg, i := n.route(k)
		if seg.leaves != nil {
			return n, &seg.leaves[i]
		}
		n = seg.nodes[i].Load()
	}
}
