package kvindex

import (
	"reflect"
	"sync/atomic"
)

// counters are written by writers only, beside nothing that readers load.
type counters struct {
	_       [64]byte
	patches atomic.Uint64
	splits  atomic.Uint64
	merges  atomic.Uint64
	stalls  atomic.Uint64
	_       [32]byte
}

// count adds a restructuring that put some leaves in the place of others.
func (c *counters) count(replaced, leaves int) {
	c.patches.Add(1)
	if leaves > replaced {
		c.splits.Add(1)
	}
	if leaves < replaced {
		c.merges.Add(1)
	}
}

// Stats describes an index. Numbers of a tree that is being written to are those of slightly different moments.
type Stats struct {
	Keys         int // in the leaves' arrays: writes in buffers are not counted
	Buffered     int // writes in buffers
	Leaves       int
	LearnedKeys  int     // keys in leaves that a line searches
	LeafEpsilon  float64 // mean error bound of the lines of learned keys, in keys; 0 where there is none
	InnerNodes   int     // with the root
	Segments     int     // in inner nodes
	LearnedShare float64 // LearnedKeys / Keys; 0 for an empty index
	Depth        int     // nodes on the way from the root to a leaf, both counted
	Bytes        int     // all memory of the tree, as asked of the allocator
	Overhead     float64 // bytes a key beyond 8 and the value's own; 0 for an empty index

	Patches uint64 // buffers merged into leaves
	Splits  uint64 // of them, those that made more leaves
	Merges  uint64 // of them, those that made fewer
	Stalls  uint64 // writes that found a buffer full, and helped to replace the leaf
}

// Stats walks the tree.
func (x *Index[V]) Stats() Stats {
	s := Stats{
		Patches: x.counters.patches.Load(), Splits: x.counters.splits.Load(),
		Merges: x.counters.merges.Load(), Stalls: x.counters.stalls.Load(),
	}
	sizes := sizesOf[V]()
	x.tree().describe(&s, sizes, 1)
	if s.Keys > 0 {
		s.LeafEpsilon /= max(float64(s.LearnedKeys), 1)
		s.LearnedShare = float64(s.LearnedKeys) / float64(s.Keys)
		s.Overhead = float64(s.Bytes)/float64(s.Keys) - float64(8+sizes.value)
	}
	return s
}

// sizes are what the parts of a tree take, in bytes.
type sizes struct{ value, leaf, buffer, inner, slot, pivots int }

func sizesOf[V any]() sizes {
	return sizes{
		value:  int(reflect.TypeFor[V]().Size()),
		leaf:   int(reflect.TypeFor[leaf[V]]().Size()),
		buffer: int(reflect.TypeFor[buffer[V]]().Size()),
		inner:  int(reflect.TypeFor[inner[V]]().Size()),
		slot:   int(reflect.TypeFor[slot[V]]().Size()),
		pivots: 8 * (maxCapacity + inner10),
	}
}

// describe adds a node and what is below it.
func (n *inner[V]) describe(s *Stats, z sizes, depth int) {
	s.InnerNodes++
	s.Segments += n.count
	s.Bytes += z.inner
	for i := range n.count {
		seg := &n.segs[i]
		s.Bytes += z.pivots + 8*len(seg.nodes) + z.slot*len(seg.leaves)
		for j := range seg.leaves {
			s.Depth = depth + 1
			seg.leaves[j].load().describe(s, z)
		}
		for j := range seg.nodes {
			seg.nodes[j].Load().describe(s, z, depth+1)
		}
	}
}

func (l *leaf[V]) describe(s *Stats, z sizes) {
	s.Leaves++
	s.Keys += len(l.keys)
	s.Bytes += z.leaf + (8+z.value)*len(l.keys)
	if l.model.eps > 0 {
		s.LearnedKeys += len(l.keys)
		s.LeafEpsilon += float64(int(l.model.eps) * len(l.keys))
	}
	if b := l.buf.Load(); b != nil {
		s.Buffered += b.load().taken()
		s.Bytes += z.buffer
	}
}
