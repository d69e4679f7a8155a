package kvindex

import (
	"fmt"
	"iter"
	"sync/atomic"
)

// BulkLoad makes an index of pairs whose keys rise. A key that does not rise is an error; one that comes again is an
// error or replaces, as Config.Duplicates says. All pairs are held twice while loading.
func BulkLoad[V any](pairs iter.Seq2[uint64, V], cfg Config) (*Index[V], error) {
	x, err := New[V](cfg)
	if err != nil {
		return nil, err
	}
	var runs []run[V]
	r, before := newRun[V](), uint64(0)
	for k, v := range pairs {
		if k <= before && (len(runs) > 0 || len(r.keys) > r.from) {
			if k == before && cfg.Duplicates == DuplicatesLastWins {
				r.values[len(r.values)-1] = v
				continue
			}
			return nil, fmt.Errorf("kvindex: bulk load: key %d comes after %d: sort the pairs, or set Config.Duplicates",
				k, before)
		}
		if len(r.keys) == cap(r.keys) {
			runs, r = append(runs, r), newRun[V]()
		}
		r.keys, r.values = append(r.keys, k), append(r.values, v)
		before = k
	}
	x.load(append(runs, r))
	return x, nil
}

// run is a part of the pairs that are loaded. Pairs are gathered in runs since a single array would be copied each time it
// grows. In front there is room for what the run before leaves over.
type run[V any] struct {
	keys   []uint64
	values []V
	from   int // where the pairs begin
}

const runPairs = 1 << 14

func newRun[V any]() run[V] {
	return run[V]{make([]uint64, maxCapacity, maxCapacity+runPairs), make([]V, maxCapacity, maxCapacity+runPairs), maxCapacity}
}

// load replaces an empty tree.
func (x *Index[V]) load(runs []run[V]) {
	t := x.config.leafTrainer()
	var stretches [][]uint64
	for _, r := range runs {
		stretches = append(stretches, r.keys[r.from:])
	}
	x.root.Store(buildTree(runs, t.probe(stretches), x.config))
}

// entry is a child with its routing key.
type entry[V any] struct {
	pivot uint64
	leaf  *leaf[V] // one of the two is nil
	node  *inner[V]
}

// buildTree makes the levels from the leaves up.
func buildTree[V any](runs []run[V], t trainer, cfg Config) *inner[V] {
	var entries []entry[V]
	cut := cutter{trainer: t}
	for i, r := range runs {
		keys, values := r.keys[r.from:], r.values[r.from:]
		last := i+1 == len(runs)
		for len(keys) >= t.capacity || last && len(keys) > 0 {
			p := cut.first(keys)
			l := newLeaf(clone(keys[:p.n]), clone(values[:p.n]), p.model)
			entries = append(entries, entry[V]{pivot: keys[0], leaf: l})
			keys, values = keys[p.n:], values[p.n:]
		}
		if !last {
			next := &runs[i+1]
			next.from -= len(keys)
			copy(next.keys[next.from:], keys)
			copy(next.values[next.from:], values)
		}
		runs[i] = run[V]{} // to the collector
	}
	if len(entries) == 0 {
		entries = append(entries, entry[V]{leaf: newLeaf[V](nil, nil, model{})})
	}
	return buildNodes(entries, cfg)
}

// buildNodes makes the inner levels above entries, as full as they get.
func buildNodes[V any](entries []entry[V], cfg Config) *inner[V] {
	t := cfg.innerTrainer()
	for {
		nodes := groupSegments(makeSegments(entries, t.loadInner(pivotsOf(entries))), cfg)
		if len(nodes) == 1 {
			return nodes[0]
		}
		entries = nodeEntries(nodes)
	}
}

// clone copies to an array of exactly this length.
func clone[T any](s []T) []T {
	c := make([]T, len(s)) // which the compiler does not clear first
	copy(c, s)
	return c
}

func pivotsOf[V any](entries []entry[V]) []uint64 {
	pivots := make([]uint64, len(entries))
	for i, e := range entries {
		pivots[i] = e.pivot
	}
	return pivots
}

func nodeEntries[V any](nodes []*inner[V]) []entry[V] {
	entries := make([]entry[V], len(nodes))
	for i, n := range nodes {
		entries[i] = entry[V]{pivot: n.segs[0].pivots[0], node: n}
	}
	return entries
}

// makeSegments makes the segments that pieces cut.
func makeSegments[V any](entries []entry[V], pieces []piece) []segment[V] {
	segs := make([]segment[V], 0, len(pieces))
	for _, p := range pieces {
		segs = append(segs, makeSegment(entries[:p.n], p.model))
		entries = entries[p.n:]
	}
	return segs
}

func makeSegment[V any](entries []entry[V], m model) segment[V] {
	s := segment[V]{router: newRouter(pivotsOf(entries), m)}
	if entries[0].leaf != nil {
		s.leaves = make([]slot[V], len(entries))
		for i, e := range entries {
			s.leaves[i] = newSlot(e.leaf)
		}
		return s
	}
	s.nodes = make([]atomic.Pointer[inner[V]], len(entries))
	for i, e := range entries {
		s.nodes[i].Store(e.node)
	}
	return s
}

// groupSegments packs segments into as few nodes as hold them, evenly.
func groupSegments[V any](segs []segment[V], cfg Config) []*inner[V] {
	count := (len(segs) + cfg.NodeSegments - 1) / cfg.NodeSegments
	nodes := make([]*inner[V], 0, count)
	for i := range count {
		nodes = append(nodes, newInner(segs[i*len(segs)/count:(i+1)*len(segs)/count]))
	}
	return nodes
}
