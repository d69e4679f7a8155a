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
	var keys []uint64
	var values []V
	for k, v := range pairs {
		if n := len(keys); n > 0 && k <= keys[n-1] {
			if k == keys[n-1] && cfg.Duplicates == DuplicatesLastWins {
				values[n-1] = v
				continue
			}
			err = fmt.Errorf("kvindex: bulk load: key %d comes after %d: sort the pairs, or set Config.Duplicates",
				k, keys[n-1])
			break
		}
		keys, values = append(keys, k), append(values, v)
	}
	if err != nil {
		return nil, err
	}
	x.load(keys, values)
	return x, nil
}

// load replaces an empty tree.
func (x *Index[V]) load(keys []uint64, values []V) {
	t := x.config.trainer(x.config.LeafEpsilon)
	t.search = t.probe(keys)
	x.root.Store(buildTree(keys, values, t, x.config))
}

// entry is a child with its routing key.
type entry[V any] struct {
	pivot uint64
	leaf  *leaf[V] // one of the two is nil
	node  *inner[V]
}

// buildTree makes the levels from the leaves up.
func buildTree[V any](keys []uint64, values []V, t trainer, cfg Config) *inner[V] {
	entries := make([]entry[V], 0, len(keys)/t.capacity+1)
	for from := 0; from < len(keys); {
		p := t.first(keys[from:])
		to := from + p.n
		l := newLeaf(clone(keys[from:to]), clone(values[from:to]), p.model)
		entries = append(entries, entry[V]{pivot: keys[from], leaf: l})
		from = to
	}
	if len(entries) == 0 {
		entries = append(entries, entry[V]{leaf: newLeaf[V](nil, nil, model{})})
	}
	return buildNodes(entries, cfg)
}

// buildNodes makes the inner levels above entries, as full as they get.
func buildNodes[V any](entries []entry[V], cfg Config) *inner[V] {
	t := cfg.trainer(cfg.InnerEpsilon)
	for {
		nodes := groupSegments(makeSegments(entries, t.loadInner(pivotsOf(entries))), cfg)
		if len(nodes) == 1 {
			return nodes[0]
		}
		entries = nodeEntries(nodes)
	}
}

// clone copies to an array of exactly this length.
func clone[T any](s []T) []T { return append(make([]T, 0, len(s)), s...) }

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
		s.leaves = make([]atomic.Pointer[leaf[V]], len(entries))
		for i, e := range entries {
			s.leaves[i].Store(e.leaf)
		}
		return s
	}
	s.nodes = make([]atomic.Pointer[inner[V]], len(entries))
	for i, e := range entries {
		s.nodes[i].Store(e.node)
	}
	return s
}

// entries returns the segment's children as they are now.
func (s *segment[V]) entries() []entry[V] {
	entries := make([]entry[V], len(s.pivots))
	for i, pivot := range s.pivots {
		entries[i].pivot = pivot
		if s.leaves != nil {
			entries[i].leaf = s.leaves[i].Load()
		} else {
			entries[i].node = s.nodes[i].Load()
		}
	}
	return entries
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
