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

// Get returns the value of k and whether k is there. It panics after Close.
func (x *Index[V]) Get(k uint64) (value V, ok bool) {
	at, s := x.tree().find(k)
	if s != nil {
		return s.get(k)
	}
	if at == nil {
		return value, false
	}
	return *at, true
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
