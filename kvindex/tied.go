package kvindex

import (
	"cmp"
	"iter"
	"math"
	"net/netip"
	"sync"
)

// Tied is an ordered map whose keys an 8-byte prefix orders but does not always tell apart: an Index by prefix, with a tree of
// what shares one. It is as fast as the Index while few keys share a prefix; an operation takes time that grows with the logarithm
// of how many share its key's. Readers take no lock; writers take turns.
type Tied[K, V any] struct {
	index   *Index[ties[K, V]]
	prefix  func(K) uint64
	compare order[K]
	mu      sync.Mutex // held by writers
}

// NewTied returns an empty map. compare is the order of keys as of cmp.Compare; prefix must not fall where it rises.
func NewTied[K, V any](prefix func(K) uint64, compare func(a, b K) int, cfg Config) (*Tied[K, V], error) {
	index, err := New[ties[K, V]](cfg)
	if err != nil {
		return nil, err
	}
	return &Tied[K, V]{index: index, prefix: prefix, compare: compare}, nil
}

// NewStrings returns an empty map of strings, in the order of their bytes.
func NewStrings[V any](cfg Config) (*Tied[string, V], error) {
	return NewTied[string, V](StringKey, cmp.Compare[string], cfg)
}

// NewAddrs returns an empty map of IP addresses, in the order of netip.Addr.Compare.
func NewAddrs[V any](cfg Config) (*Tied[netip.Addr, V], error) {
	return NewTied[netip.Addr, V](AddrKey, netip.Addr.Compare, cfg)
}

// Get returns the value of k and whether k is there.
func (t *Tied[K, V]) Get(k K) (value V, ok bool) {
	tied, _ := t.index.Get(t.prefix(k))
	return tied.get(k, t.compare)
}

// Put sets the value of k and returns the value it had, if any.
func (t *Tied[K, V]) Put(k K, v V) (old V, replaced bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	prefix := t.prefix(k)
	tied, _ := t.index.Get(prefix)
	tied, old, replaced = tied.with(k, v, t.compare)
	t.index.PutBlind(prefix, tied)
	return old, replaced
}

// Delete removes k and returns the value it had, if any.
func (t *Tied[K, V]) Delete(k K) (old V, deleted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	prefix := t.prefix(k)
	tied, _ := t.index.Get(prefix)
	tied, old, deleted = tied.without(k, t.compare)
	switch {
	case !deleted:
	case tied.empty():
		t.index.Delete(prefix)
	default:
		t.index.PutBlind(prefix, tied)
	}
	return old, deleted
}

// All yields every pair in rising order of keys.
func (t *Tied[K, V]) All() iter.Seq2[K, V] { return t.pairs(0, math.MaxUint64, nil, nil) }

// Range yields the pairs with lo <= key <= hi in rising order.
func (t *Tied[K, V]) Range(lo, hi K) iter.Seq2[K, V] {
	return t.pairs(t.prefix(lo), t.prefix(hi), &lo, &hi)
}

func (t *Tied[K, V]) pairs(from, to uint64, lo, hi *K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		each := func(run []tie[K, V]) bool {
			if lo != nil {
				i, _ := searchRun(run, *lo, t.compare)
				run = run[i:]
			}
			for _, e := range run {
				if hi != nil && t.compare(e.key, *hi) > 0 || !yield(e.key, e.value) {
					return false
				}
			}
			return true
		}
		for _, tied := range t.index.Range(from, to) {
			if !tied.runs(lo, t.compare, each) {
				return
			}
		}
	}
}

// Len returns the number of keys. It walks all of them.
func (t *Tied[K, V]) Len() (n int) {
	for _, tied := range t.index.All() {
		tied.runs(nil, t.compare, func(run []tie[K, V]) bool {
			n += len(run)
			return true
		})
	}
	return n
}

// Verify checks the index below, and the order and the shape of what shares each prefix.
func (t *Tied[K, V]) Verify() error {
	if err := t.index.Verify(); err != nil {
		return err
	}
	for prefix, tied := range t.index.All() {
		var before *K
		if err := tied.tree.verifyRanks(); err != nil {
			return err
		}
		var out *K
		tied.runs(nil, t.compare, func(run []tie[K, V]) bool {
			for i := range run {
				k := &run[i].key
				if t.prefix(*k) != prefix || before != nil && t.compare(*before, *k) >= 0 {
					out = k
				}
				before = k
			}
			return out == nil
		})
		if out != nil {
			return mismatch("ties", "key %v is out of place", *out)
		}
		if before == nil {
			return mismatch("ties", "no key has prefix %d", prefix)
		}
	}
	return nil
}

// verifyRanks checks that a treap has no empty run, and no rank above a greater one.
func (n *branch[K, V]) verifyRanks() error {
	if n == nil {
		return nil
	}
	if len(n.run) == 0 || len(n.run) > maxRun {
		return mismatch("ties", "%d keys in a run", len(n.run))
	}
	for _, child := range []*branch[K, V]{n.left, n.right} {
		if child != nil && child.rank > n.rank {
			return mismatch("ties", "key %v is below one of less rank", child.run[0].key)
		}
		if err := child.verifyRanks(); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the use of the map, as Index.Close does.
func (t *Tied[K, V]) Close() error { return t.index.Close() }
