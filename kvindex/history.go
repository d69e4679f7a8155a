package kvindex

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// snapshots knows the versions that open snapshots see, and what is kept for them.
type snapshots[V any] struct {
	oldest atomic.Uint64 // the least open version; MaxUint64 when none is open

	mu   sync.Mutex
	open []uint64 // rising
	kept []*history[V]
}

// begin ends the current version and opens it. Registering comes before the version moves on, so whoever sees a write
// that is newer than the snapshot also sees the snapshot.
func (s *snapshots[V]) begin(current *atomic.Uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	version := current.Load()
	s.open = append(s.open, version)
	s.oldest.Store(s.open[0])
	current.Store(version + 1)
	return version
}

// end closes a version and drops what no other needs.
func (s *snapshots[V]) end(version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := slices.BinarySearch(s.open, version)
	s.open = slices.Delete(s.open, i, i+1)
	oldest := uint64(math.MaxUint64)
	if len(s.open) > 0 {
		oldest = s.open[0]
	}
	s.oldest.Store(oldest)
	s.kept = slices.DeleteFunc(s.kept, func(h *history[V]) bool {
		if h.until > oldest {
			return false
		}
		h.leaves.Store(nil)
		return true
	})
}

// count returns how many versions are open.
func (s *snapshots[V]) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// preserve gives new leaves the version of their contents, and a way back to what they replace where an open snapshot is
// older. It comes before the new leaves are published.
func (x *Index[V]) preserve(version uint64, leaves []*leaf[V], olds ...*old[V]) {
	for _, o := range olds {
		version = max(version, o.leaf.since)
	}
	var h *history[V]
	if x.snapshots.oldest.Load() < version {
		h = x.snapshots.keep(version, olds)
	}
	for _, l := range leaves {
		l.since, l.before = version, h
	}
}

// keep makes what leads from new leaves of a version to the ones that they replace; nil where no open snapshot is older.
// A replaced leaf that no open snapshot sees is left out, and what it led to stands in its place, so a way back is never
// longer than the number of open snapshots, however often a leaf is replaced meanwhile.
func (s *snapshots[V]) keep(version uint64, olds []*old[V]) *history[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.oldest.Load() >= version {
		return nil
	}
	if len(olds) == 1 && !s.sees(olds[0].leaf.since, version) {
		return olds[0].leaf.before
	}
	h := &history[V]{}
	var leaves []*old[V]
	for _, o := range olds {
		before := o.leaf.before
		if s.sees(o.leaf.since, version) || before == nil {
			leaves = append(leaves, o)
			h.until = version
			continue
		}
		h.until = max(h.until, before.until)
		if earlier := before.leaves.Load(); earlier != nil {
			for _, e := range *earlier {
				leaves = append(leaves, &old[V]{max(e.from, o.from), e.leaf})
			}
		}
	}
	h.leaves.Store(&leaves)
	s.kept = append(s.kept, h)
	return h
}

// sees tells whether an open version is at or after one and before another.
func (s *snapshots[V]) sees(from, before uint64) bool {
	i, _ := slices.BinarySearch(s.open, from)
	return i < len(s.open) && s.open[i] < before
}
