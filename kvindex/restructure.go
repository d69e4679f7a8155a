package kvindex

import (
	"slices"
	"sync/atomic"
)

// change is what the pure functions of the tree give to be published: one store that shows all new nodes, and the nodes
// that stop being part of the tree with it.
type change[V any] struct {
	slot    *atomic.Pointer[inner[V]] // a child slot, or the root
	parent  step[V]                   // where that slot is; no node for the root
	node    *inner[V]
	retired []*inner[V] // locked since before their children were read
}

// publish executes a change. Whoever replaces a leaf holds its parent's lock and looks whether the parent is retired, so
// nobody replaces a leaf through a node that is no longer part of the tree.
func (c *change[V]) publish() {
	c.slot.Store(c.node)
	for _, n := range c.retired {
		n.retired = true
		n.mu.Unlock()
	}
}

// restructure replaces a leaf that does not give exactly one leaf again: it splits, or a neighbour takes its keys. The
// leaf's buffer is sealed and m is what it holds, so the work stays right while other goroutines get ahead; whoever
// finds the leaf gone has nothing to do.
func (x *Index[V]) restructure(k uint64, l *leaf[V], m merged[V]) {
	x.structure.Lock()
	defer x.structure.Unlock()
	root := x.root.Load()
	if root == nil {
		return
	}
	var path []step[V]
	if p := locate(root, k, &path); p.leaf != l {
		return
	}
	at := path[len(path)-1]
	at.node.mu.Lock() // held until the change is public, so that nobody tries to patch below in the meantime
	defer at.node.mu.Unlock()
	if at.leaf() != l {
		return
	}
	s := x.patcher().spliceLeaves(path, l, m)
	if alone := len(m.keys) == 0 && at.node.children() == 1; len(s.entries) == 1 && s.replaced == 1 && !alone {
		at.node.segs[at.seg].leaves[at.slot].set(s.entries[0].leaf)
		x.counters.patches.Add(1)
		return
	}
	nodes := s.into(at.node, x.config)
	at.node.retired = true
	c := climb(&x.root, path, nodes, x.config)
	c.publish()
	x.counters.count(s.replaced, len(s.entries))
}

// patcher is what the two forms of the index do differently when leaves are replaced.
type patcher[V any] struct {
	config   Config
	sealed   func(l *leaf[V], into *writes[V]) // ends writing to a leaf
	preserve func(version uint64, leaves []*leaf[V], olds ...old[V])
}

func (x *Index[V]) patcher() patcher[V] { return patcher[V]{x.config, x.sealed, x.preserve} }

// spliceLeaves makes the leaves that replace l, together with the neighbours that can share a leaf with it where it has
// become sparse. The path leads to l.
func (x patcher[V]) spliceLeaves(path []step[V], l *leaf[V], m merged[V]) splice[V] {
	t := x.config.leafTrainer()
	above, at := len(path)-1, path[len(path)-1]
	node := boundsOf(path[:above])
	s := splice[V]{from: at, replaced: 1, grew: m.grew}
	s.olds = []old[V]{{l, at.within(node)}}
	for end := at; shrunk(l, m.keys, t) && len(m.keys) < t.retrainBound(); {
		next, right := end.next()
		if !right {
			var left bool
			if next, left = s.from.previous(); !left {
				break
			}
		}
		n := next.leaf()
		if len(m.keys) > 0 && len(n.keys)+len(m.keys) > t.capacity/2 {
			break
		}
		m = x.joined(m, n, right)
		m.pieces = t.retrain(m.keys, l.model.eps == 0, inside)
		s.replaced++
		if right {
			end = next
			s.olds = append(s.olds, old[V]{n, next.within(node)})
		} else {
			s.from = next
			s.olds = slices.Insert(s.olds, 0, old[V]{n, next.within(node)})
		}
	}
	pivot := s.from.pivot()
	if len(m.keys) > 0 { // the tree's first leaf takes keys below its pivot
		pivot = min(pivot, m.keys[0])
	}
	s.entries = m.leaves(pivot)
	leaves := make([]*leaf[V], len(s.entries))
	for i, e := range s.entries {
		leaves[i] = e.leaf
	}
	x.preserve(m.version, leaves, s.olds...)
	return s
}

// shrunk tells whether a leaf lost so many keys that a neighbour may take the others.
func shrunk[V any](l *leaf[V], keys []uint64, t trainer) bool {
	return len(keys) == 0 || len(keys) < len(l.keys) && len(keys) < t.retrainBound()
}

// joined seals a neighbour and puts its keys after or before those of m.
func (x patcher[V]) joined(m merged[V], neighbour *leaf[V], right bool) merged[V] {
	var ws writes[V]
	x.sealed(neighbour, &ws)
	n := neighbour.merge(&ws)
	m.sum += n.sum
	m.version = max(n.version, m.version)
	m.pieces, m.grew = nil, inside
	if right {
		m.keys, m.values = slices.Concat(m.keys, n.keys), slices.Concat(m.values, n.values)
	} else {
		m.keys, m.values = slices.Concat(n.keys, m.keys), slices.Concat(n.values, m.values)
	}
	return m
}

// boundsOf is the range of what a path leads to.
func boundsOf[V any](path []step[V]) bounds {
	b := whole
	for _, s := range path {
		b = s.within(b)
	}
	return b
}

// within is the range of a step's child, in the range of its node. A node's first child takes whatever the node's parent sends.
func (s step[V]) within(node bounds) bounds {
	b := node
	if _, found := s.previous(); found {
		b.least = s.pivot()
	}
	if next, found := s.next(); found {
		b.most = next.pivot() - 1
	}
	return b
}

// pivot is the routing key of a step's child.
func (s step[V]) pivot() uint64 { return s.node.segs[s.seg].pivots[s.slot] }

// leaf is a step's child where it is a leaf.
func (s step[V]) leaf() *leaf[V] { return s.node.segs[s.seg].leaves[s.slot].load() }

// inner is a step's child where it is an inner node.
func (s step[V]) inner() *inner[V] { return s.node.segs[s.seg].nodes[s.slot].Load() }

// next is the child after this one in the same node.
func (s step[V]) next() (step[V], bool) {
	switch {
	case s.slot+1 < len(s.node.segs[s.seg].pivots):
		return step[V]{s.node, s.seg, s.slot + 1}, true
	case s.seg+1 < s.node.count:
		return step[V]{s.node, s.seg + 1, 0}, true
	}
	return s, false
}

// previous is the child before this one in the same node.
func (s step[V]) previous() (step[V], bool) {
	switch {
	case s.slot > 0:
		return step[V]{s.node, s.seg, s.slot - 1}, true
	case s.seg > 0:
		return step[V]{s.node, s.seg - 1, len(s.node.segs[s.seg-1].pivots) - 1}, true
	}
	return s, false
}

// climb carries the replacement of a path's last node up to where one store publishes it. The caller retires that node.
func climb[V any](root *atomic.Pointer[inner[V]], path []step[V], nodes []*inner[V], cfg Config) change[V] {
	var retired []*inner[V]
	for level := len(path) - 1; level > 0; level-- {
		up := path[level-1]
		s := splice[V]{from: up, replaced: 1}
		if len(nodes) == 1 {
			next, right := up.next()
			beside := right
			if !right {
				next, beside = up.previous()
			}
			if beside && !sparse(nodes[0], path[level].node, next.inner(), cfg) {
				return change[V]{&up.node.segs[up.seg].nodes[up.slot], up, nodes[0], retired}
			}
			if beside { // otherwise the node above has a single child, and is the one to join another
				n := next.inner()
				n.mu.Lock()
				retired = append(retired, n)
				nodes = joinNodes(nodes[0], n, right, cfg)
				s.replaced = 2
			}
			if beside && !right {
				s.from = next
			}
		}
		s.entries = nodeEntries(nodes)
		s.entries[0].pivot = min(s.entries[0].pivot, s.from.pivot())
		up.node.mu.Lock()
		retired = append(retired, up.node)
		nodes = s.into(up.node, cfg)
	}
	top, dropped := crown(nodes, cfg)
	return change[V]{root, step[V]{}, top, append(retired, dropped...)}
}

// sparse tells whether a node has lost so many children that it should join a neighbour. One that is down to a single
// child always does, and the two share their segments evenly if one node does not hold them.
func sparse[V any](n, was, neighbour *inner[V], cfg Config) bool {
	few := n.children()
	if few == 1 {
		return true
	}
	return few < was.children() && few < cfg.LeafCapacity/4 && n.count+neighbour.count <= cfg.NodeSegments
}

// joinNodes makes the nodes that hold the segments of two neighbours. The two segments where they meet are cut anew, so
// that a single child does not stay a segment of its own.
func joinNodes[V any](n, neighbour *inner[V], right bool, cfg Config) []*inner[V] {
	if !right {
		n, neighbour = neighbour, n
	}
	meeting := gather([]segment[V]{n.segs[n.count-1], neighbour.segs[0]}, 0, 0, nil)
	pieces := cfg.innerTrainer().retrain(meeting.pivots, false, inside)
	segs := slices.Concat(n.segs[:n.count-1], meeting.segments(pieces), neighbour.segs[1:neighbour.count])
	return groupSegments(segs, cfg)
}

// crown makes the root: above several nodes a new level, and for a single child no level at all. It also returns the
// nodes that drop out for that, locked.
func crown[V any](nodes []*inner[V], cfg Config) (root *inner[V], dropped []*inner[V]) {
	if len(nodes) > 1 {
		return buildNodes(nodeEntries(nodes), cfg), nil
	}
	root = nodes[0]
	for root.segs[0].nodes != nil && root.children() == 1 {
		root.mu.Lock()
		dropped = append(dropped, root)
		root = root.segs[0].nodes[0].Load()
	}
	return root, dropped
}
