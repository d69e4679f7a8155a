package kvindex

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// A snapshot sees leaves that have been replaced since. Each such leaf is kept once, with its range, by the newest open
// snapshot that sees it; a reader of an older one looks there too. So what is kept is at most a leaf of each range for
// each open snapshot, however often and in whatever pieces the tree is rebuilt meanwhile. A snapshot that closes hands the
// leaves that the next older one sees down to that, and the others go with it.
//
// A leaf is kept before what replaces it can be seen, and handed down before its old place goes. A reader takes the list of
// open snapshots after it has met a leaf that is too new for it, so it finds the old leaf in one place or in both.

// snapshots knows the open snapshots and what is kept for them.
type snapshots[V any] struct {
	oldest atomic.Uint64              // the least open version; MaxUint64 when none is open
	list   atomic.Pointer[[]*past[V]] // rising by version; no list and no entry ever changes

	mu     sync.Mutex // held to open and close, and while a leaf is kept
	ending sync.Mutex // held by the one that closes, taken before mu: leaves are handed down without mu
}

// past is an open version and the leaves that it is the newest to see, of those that have been replaced since.
type past[V any] struct {
	version uint64
	ended   bool                       // guarded by snapshots.mu: it takes no more leaves
	leaves  atomic.Pointer[Index[any]] // of *kept[V], by the first keys of their ranges; nil until there is one
}

// kept is a replaced leaf. Its version, and the one of what replaced it, say who sees it.
type kept[V any] struct {
	leaf *leaf[V]
	bounds
}

// all returns the open snapshots.
func (s *snapshots[V]) all() []*past[V] {
	if list := s.list.Load(); list != nil {
		return *list
	}
	return nil
}

// begin ends the current version and opens it. Registering comes before the version moves on, so whoever sees a write
// that is newer than the snapshot also sees the snapshot.
func (s *snapshots[V]) begin(current *atomic.Uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	version := current.Load()
	list := append(s.all(), &past[V]{version: version}) // behind the end of every list that a reader has
	s.list.Store(&list)
	s.settle()
	current.Store(version + 1)
	return version
}

// settle makes oldest what the list says. The caller has mu.
func (s *snapshots[V]) settle() {
	oldest := uint64(math.MaxUint64)
	if i := slices.IndexFunc(s.all(), func(p *past[V]) bool { return !p.ended }); i >= 0 {
		oldest = s.all()[i].version
	}
	s.oldest.Store(oldest)
}

// end closes a version and lets go of what no other sees. Neither readers nor writers wait for it.
func (s *snapshots[V]) end(version uint64) {
	s.ending.Lock()
	defer s.ending.Unlock()
	p, heir := s.stop(version)
	p.handDown(heir)
	s.remove(p)
}

// stop makes an open version take no more leaves, and returns it with the next older one, if any.
func (s *snapshots[V]) stop(version uint64) (p, heir *past[V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := s.at(s.all(), version)
	if p = s.all()[i]; i > 0 {
		heir = s.all()[i-1] // which is open: only one closes at a time
	}
	p.ended = true
	s.settle()
	return p, heir
}

// handDown gives an older version the leaves that it sees.
func (p *past[V]) handDown(heir *past[V]) {
	leaves := p.leaves.Load()
	if leaves == nil || heir == nil {
		return
	}
	for _, k := range leaves.All() {
		if k := k.(*kept[V]); k.leaf.since <= heir.version {
			heir.keep(k)
		}
	}
}

// remove makes readers look at a version no more.
func (s *snapshots[V]) remove(p *past[V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := s.at(s.all(), p.version)
	list := slices.Concat(s.all()[:i], s.all()[i+1:])
	s.list.Store(&list)
}

// at finds a version's place in a list.
func (s *snapshots[V]) at(list []*past[V], version uint64) (int, bool) {
	return slices.BinarySearchFunc(list, version, func(p *past[V], version uint64) int { return cmp.Compare(p.version, version) })
}

// count returns how many versions are open.
func (s *snapshots[V]) count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.all() {
		if !p.ended {
			n++
		}
	}
	return n
}

// old is a leaf that is to be replaced, and its range.
type old[V any] struct {
	leaf   *leaf[V]
	bounds bounds
}

// preserve gives new leaves the version of their contents, and keeps what they replace where an open snapshot sees it.
// It comes before the new leaves are published.
func (x *Index[V]) preserve(version uint64, leaves []*leaf[V], olds ...old[V]) {
	for _, o := range olds {
		version = max(version, o.leaf.since)
	}
	if x.snapshots.oldest.Load() < version {
		x.snapshots.keep(version, olds)
	}
	for _, l := range leaves {
		l.since = version
	}
}

// keep keeps those of the leaves that were replaced in a version which an open snapshot sees.
func (s *snapshots[V]) keep(version uint64, olds []old[V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.all()
	i, _ := s.at(list, version)
	for i--; i >= 0 && list[i].ended; i-- {
	}
	for _, o := range olds {
		if i >= 0 && o.leaf.since <= list[i].version {
			list[i].keep(&kept[V]{o.leaf, o.bounds})
		}
	}
}

// keep adds a leaf.
func (p *past[V]) keep(k *kept[V]) {
	leaves := p.leaves.Load()
	if leaves == nil {
		fresh, _ := New[any](Config{}) // the zero Config is valid
		if leaves = fresh; !p.leaves.CompareAndSwap(nil, fresh) {
			leaves = p.leaves.Load()
		}
	}
	leaves.PutBlind(k.bounds.least, k)
}

// find returns the leaf of k that an open version sees, which has been replaced since.
func (s *snapshots[V]) find(k, version uint64) position[V] {
	list := s.all()
	i, open := s.at(list, version)
	for open && i < len(list) {
		if leaves := list[i].leaves.Load(); leaves != nil {
			_, v, ok := leaves.Floor(k)
			if l, _ := v.(*kept[V]); ok && k <= l.bounds.most && l.leaf.since <= version {
				b := l.bounds
				return position[V]{leaf: l.leaf, lower: b.least, first: b.least == 0, upper: b.most + 1, last: b.most == math.MaxUint64}
			}
		}
		i++
	}
	panic("kvindex: snapshot used after Close")
}
