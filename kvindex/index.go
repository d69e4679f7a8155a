package kvindex

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// Index is an ordered map from uint64 to V. Every method may be called from any goroutine at any time until Close:
// readers take no lock and wait for nobody, writers wait only for others that replace the same part of the tree.
//
// Gets, puts and deletes are linearizable. Scans see each leaf as it was at one moment during the scan; a Snapshot sees
// all of the map as it was at one moment.
type Index[V any] struct {
	root    atomic.Pointer[inner[V]] // nil after Close
	version atomic.Uint64            // what writes carry now; a snapshot ends it
	config  Config                   // with defaults

	structure sync.Mutex // held while inner nodes change
	snapshots snapshots[V]
	counters  counters
}

// New returns an empty index.
func New[V any](cfg Config) (*Index[V], error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	x := &Index[V]{config: cfg}
	x.snapshots.oldest.Store(math.MaxUint64)
	x.load(nil)
	return x, nil
}

// tree returns the root. An index that was closed has none, and using it is a mistake that no result could report.
func (x *Index[V]) tree() *inner[V] {
	root := x.root.Load()
	if root == nil {
		panic("kvindex: index used after Close")
	}
	return root
}

// leafOf descends to the leaf of k.
func (x *Index[V]) leafOf(k uint64) *leaf[V] {
	seg, i := x.slotOf(k)
	return seg.leaves[i].leaf.Load()
}

// leafAhead is leafOf, and asks for the leaf's keys and value that a search for k will need, before it knows the leaf.
func (x *Index[V]) leafAhead(k uint64) *leaf[V] {
	seg, i := x.slotOf(k)
	s, pivot := &seg.leaves[i], seg.pivots[i]
	prefetchAhead(s.keys.Load(), s.values.Load(), max(k, pivot)-pivot, s.line.Load())
	return s.leaf.Load()
}

// leafToScan is leafAhead for a scan, which goes on behind k.
func (x *Index[V]) leafToScan(k uint64) *leaf[V] {
	seg, i := x.slotOf(k)
	s, pivot := &seg.leaves[i], seg.pivots[i]
	prefetchScan(s.keys.Load(), s.values.Load(), max(k, pivot)-pivot, s.line.Load())
	return s.leaf.Load()
}

// slotOf descends to the segment above the leaf of k, and to the leaf's slot there. A lookup takes as long as the processor
// needs to get through its instructions to those of the next one, whose cache misses it then overlaps with. Hence no
// branches that depend on keys, and no calls: this is route and child, spelled out.
func (x *Index[V]) slotOf(k uint64) (*segment[V], int) {
	n := x.tree()
	for {
		s := 0
		if n.count > 1 {
			s = n.segmentOf(k)
		}
		seg := &n.segs[s]
		i := seg.model.start(k)
		if seg.model.width == inner10 {
			w := seg.window
			i &= maxCapacity - 1 // which it is: this is for the compiler
			if i+inner10 <= len(seg.leaves) {
				prefetchSlots(&seg.leaves[i+inner10/2-1]) // a guess again, while the pivots are on their way
			}
			i += 3 * (atLeast(k, w[i+3]) + atLeast(k, w[i+6]))
			i += atLeast(k, w[i+1]) + atLeast(k, w[i+2])
			i += atLeast(k, w[i+1])
		} else {
			i = predecessor(seg.pivots, i, int(seg.model.width), k)
		}
		if seg.leaves != nil {
			return seg, i
		}
		n = seg.nodes[i].Load()
	}
}

// Get returns the value of k and whether k is there. It panics after Close.
func (x *Index[V]) Get(k uint64) (value V, ok bool) {
	// leafAhead, spelled out: another call would take a tenth more time.
	seg, i := x.slotOf(k)
	s, pivot := &seg.leaves[i], seg.pivots[i]
	prefetchAhead(s.keys.Load(), s.values.Load(), max(k, pivot)-pivot, s.line.Load())
	l := s.leaf.Load()
	if b := l.buf.Load(); b != nil {
		return l.getBuffered(b, k)
	}
	return l.search(k)
}

// Close ends the use of the index: any later call panics, and the memory is the collector's. A call that is under way
// finishes as if it had come before, or panics as if it had come after. Close refuses, and changes nothing, while
// snapshots are open. It may be called again.
func (x *Index[V]) Close() error {
	x.structure.Lock()
	defer x.structure.Unlock()
	if n := x.snapshots.count(); n > 0 {
		return fmt.Errorf("kvindex: close: %d snapshots are open: close them first", n)
	}
	x.root.Store(nil)
	return nil
}
