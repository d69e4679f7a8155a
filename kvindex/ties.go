package kvindex

import (
	"math/rand/v2"
	"slices"
)

// tie is one pair of those whose keys share a prefix.
type tie[K, V any] struct {
	key   K
	value V
}

// ties are the pairs whose keys share a prefix, in order of keys. Nothing of them ever changes: a write makes new ones, which
// share with the old ones what stays, so readers need no lock.
//
// A few are one run. More are a treap: a tree in order of keys from left to right and of random ranks from the top down, which
// makes it about as deep as a balanced one (R. Seidel and C. R. Aragon, "Randomized search trees", Algorithmica 16, 1996). Each
// node holds a run, so a write copies some twenty pairs and one node a level.
type ties[K, V any] struct {
	run  []tie[K, V] // all pairs where there is no tree
	tree *branch[K, V]
}

// branch is a treap.
type branch[K, V any] struct {
	run         []tie[K, V] // rising, at least one
	rank        uint64      // no node below has a greater one
	left, right *branch[K, V]
}

// maxRun is the most pairs of a run. A longer one is halved.
const maxRun = 32

// order is the order of keys.
type order[K any] func(a, b K) int

// searchRun finds where a key stands in a run, or would stand.
func searchRun[K, V any](run []tie[K, V], k K, compare order[K]) (int, bool) {
	return slices.BinarySearchFunc(run, k, func(e tie[K, V], k K) int { return compare(e.key, k) })
}

// side tells whether a key is below a branch's run, above it, or within.
func (n *branch[K, V]) side(k K, compare order[K]) int {
	if compare(k, n.run[0].key) < 0 {
		return -1
	}
	return max(compare(k, n.run[len(n.run)-1].key), 0)
}

// get returns the value of a key.
func (t ties[K, V]) get(k K, compare order[K]) (value V, ok bool) {
	run := t.run
	for n := t.tree; n != nil; {
		switch side := n.side(k, compare); {
		case side < 0:
			n = n.left
		case side > 0:
			n = n.right
		default:
			run, n = n.run, nil
		}
	}
	if i, ok := searchRun(run, k, compare); ok {
		return run[i].value, true
	}
	return value, false
}

// with returns the pairs with one more or changed, and the value that the key had.
func (t ties[K, V]) with(k K, v V, compare order[K]) (next ties[K, V], old V, replaced bool) {
	if t.tree != nil {
		t.tree, old, replaced = t.tree.with(k, v, compare)
		return t, old, replaced
	}
	t.run, old, replaced = runWith(t.run, k, v, compare)
	if len(t.run) > maxRun {
		root := &branch[K, V]{run: t.run, rank: rand.Uint64()}
		t = ties[K, V]{tree: root.halved()}
	}
	return t, old, replaced
}

// runWith is a copy of a run with one pair more or changed.
func runWith[K, V any](run []tie[K, V], k K, v V, compare order[K]) (next []tie[K, V], old V, replaced bool) {
	i, replaced := searchRun(run, k, compare)
	next = make([]tie[K, V], 0, len(run)+1)
	next = append(append(next, run[:i]...), tie[K, V]{k, v})
	if replaced {
		old = run[i].value
		i++
	}
	return append(next, run[i:]...), old, replaced
}

// with is a copy of the way down to the run that changes.
func (n *branch[K, V]) with(k K, v V, compare order[K]) (next *branch[K, V], old V, replaced bool) {
	c := *n
	switch side := n.side(k, compare); {
	case side < 0 && n.left != nil:
		c.left, old, replaced = n.left.with(k, v, compare)
	case side > 0 && n.right != nil:
		c.right, old, replaced = n.right.with(k, v, compare)
	default:
		if c.run, old, replaced = runWith(n.run, k, v, compare); len(c.run) > maxRun {
			return c.halved(), old, replaced
		}
	}
	return c.raised(), old, replaced
}

// halved gives the upper half of the run of a new branch to one more.
func (n *branch[K, V]) halved() *branch[K, V] {
	half := len(n.run) / 2
	upper := &branch[K, V]{run: slices.Clone(n.run[half:]), rank: rand.Uint64()}
	n.run = slices.Clone(n.run[:half])
	n.right = n.right.behind(upper)
	return n.raised()
}

// behind puts a branch before all others.
func (n *branch[K, V]) behind(first *branch[K, V]) *branch[K, V] {
	if n == nil {
		return first
	}
	c := *n
	c.left = n.left.behind(first)
	return c.raised()
}

// raised puts a child above a new branch where its rank is greater: the child is new too then.
func (n *branch[K, V]) raised() *branch[K, V] {
	if l := n.left; l != nil && l.rank > n.rank {
		n.left, l.right = l.right, n
		return l
	}
	if r := n.right; r != nil && r.rank > n.rank {
		n.right, r.left = r.left, n
		return r
	}
	return n
}

// without returns the pairs without one, and the value that it had.
func (t ties[K, V]) without(k K, compare order[K]) (next ties[K, V], old V, deleted bool) {
	if t.tree == nil {
		t.run, old, deleted = runWithout(t.run, k, compare)
		return t, old, deleted
	}
	t.tree, old, deleted = t.tree.without(k, compare)
	if n := t.tree; n != nil && n.left == nil && n.right == nil {
		t = ties[K, V]{run: n.run}
	}
	return t, old, deleted
}

// runWithout is a copy of a run without one pair, or the run where it has none.
func runWithout[K, V any](run []tie[K, V], k K, compare order[K]) (next []tie[K, V], old V, deleted bool) {
	i, deleted := searchRun(run, k, compare)
	if !deleted {
		return run, old, false
	}
	return slices.Concat(run[:i], run[i+1:]), run[i].value, true
}

// without is a copy of the way down to the run that changes.
func (n *branch[K, V]) without(k K, compare order[K]) (next *branch[K, V], old V, deleted bool) {
	if n == nil {
		return nil, old, false
	}
	c := *n
	switch side := n.side(k, compare); {
	case side < 0:
		c.left, old, deleted = n.left.without(k, compare)
	case side > 0:
		c.right, old, deleted = n.right.without(k, compare)
	default:
		if c.run, old, deleted = runWithout(n.run, k, compare); len(c.run) == 0 {
			return joinBranches(n.left, n.right), old, true
		}
	}
	if !deleted {
		return n, old, false
	}
	return &c, old, true
}

// joinBranches makes one treap of two, of which all of one is below the other.
func joinBranches[K, V any](low, high *branch[K, V]) *branch[K, V] {
	switch {
	case low == nil:
		return high
	case high == nil:
		return low
	case low.rank > high.rank:
		c := *low
		c.right = joinBranches(low.right, high)
		return &c
	}
	c := *high
	c.left = joinBranches(low, high.left)
	return &c
}

// empty tells whether there is no pair.
func (t ties[K, V]) empty() bool { return t.tree == nil && len(t.run) == 0 }

// runs yields the runs in order of keys, and may leave out some that are below lo, where that is not nil; false when yield ended
// it.
func (t ties[K, V]) runs(lo *K, compare order[K], yield func([]tie[K, V]) bool) bool {
	if t.tree == nil {
		return yield(t.run)
	}
	return t.tree.runs(lo, compare, yield)
}

func (n *branch[K, V]) runs(lo *K, compare order[K], yield func([]tie[K, V]) bool) bool {
	if n == nil {
		return true
	}
	side := -1
	if lo != nil {
		side = n.side(*lo, compare)
	}
	return (side >= 0 || n.left.runs(lo, compare, yield)) && (side > 0 || yield(n.run)) && n.right.runs(lo, compare, yield)
}
