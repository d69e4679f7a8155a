package kvindex

import (
	"cmp"
	"iter"
	"math"
	"net/netip"
	"slices"
	"sync"
)

// Tied is an ordered map whose keys an 8-byte prefix orders but does not always tell apart: an Index by prefix, with a
// sorted list of what shares one. It is as fast as the Index while few keys share a prefix. Readers take no lock; writers
// take turns.
type Tied[K, V any] struct {
	index   *Index[[]tie[K, V]]
	prefix  func(K) uint64
	compare func(a, b K) int
	mu      sync.Mutex // held by writers, who replace lists
}

// tie is one pair of a list. Lists are never changed.
type tie[K, V any] struct {
	key   K
	value V
}

// NewTied returns an empty map. compare is the order of keys as of cmp.Compare; prefix must not fall where it rises.
func NewTied[K, V any](prefix func(K) uint64, compare func(a, b K) int, cfg Config) (*Tied[K, V], error) {
	index, err := New[[]tie[K, V]](cfg)
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

// search finds where a key stands, or would stand, in a list.
func (t *Tied[K, V]) search(list []tie[K, V], k K) (int, bool) {
	return slices.BinarySearchFunc(list, k, func(e tie[K, V], k K) int { return t.compare(e.key, k) })
}

// Get returns the value of k and whether k is there.
func (t *Tied[K, V]) Get(k K) (value V, ok bool) {
	list, _ := t.index.Get(t.prefix(k))
	if i, ok := t.search(list, k); ok {
		return list[i].value, true
	}
	return value, false
}

// Put sets the value of k and returns the value it had, if any.
func (t *Tied[K, V]) Put(k K, v V) (old V, replaced bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	prefix := t.prefix(k)
	list, _ := t.index.Get(prefix)
	i, ok := t.search(list, k)
	if ok {
		old = list[i].value
		list = slices.Clone(list)
		list[i].value = v
	} else {
		list = slices.Insert(slices.Clone(list), i, tie[K, V]{k, v})
	}
	t.index.PutBlind(prefix, list)
	return old, ok
}

// Delete removes k and returns the value it had, if any.
func (t *Tied[K, V]) Delete(k K) (old V, deleted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	prefix := t.prefix(k)
	list, _ := t.index.Get(prefix)
	i, ok := t.search(list, k)
	switch {
	case !ok:
		return old, false
	case len(list) == 1:
		t.index.Delete(prefix)
	default:
		t.index.PutBlind(prefix, slices.Delete(slices.Clone(list), i, i+1))
	}
	return list[i].value, true
}

// All yields every pair in rising order of keys.
func (t *Tied[K, V]) All() iter.Seq2[K, V] { return t.pairs(0, math.MaxUint64, nil, nil) }

// Range yields the pairs with lo <= key <= hi in rising order.
func (t *Tied[K, V]) Range(lo, hi K) iter.Seq2[K, V] {
	return t.pairs(t.prefix(lo), t.prefix(hi), &lo, &hi)
}

func (t *Tied[K, V]) pairs(from, to uint64, lo, hi *K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, list := range t.index.Range(from, to) {
			for _, e := range list {
				if lo != nil && t.compare(e.key, *lo) < 0 {
					continue
				}
				if hi != nil && t.compare(e.key, *hi) > 0 || !yield(e.key, e.value) {
					return
				}
			}
		}
	}
}

// Len returns the number of keys. It walks all of them.
func (t *Tied[K, V]) Len() (n int) {
	for _, list := range t.index.All() {
		n += len(list)
	}
	return n
}

// Verify checks the index below and the order of every list.
func (t *Tied[K, V]) Verify() error {
	if err := t.index.Verify(); err != nil {
		return err
	}
	for prefix, list := range t.index.All() {
		for i, e := range list {
			if t.prefix(e.key) != prefix || i > 0 && t.compare(list[i-1].key, e.key) >= 0 {
				return mismatch("ties", "key %v is out of place", e.key)
			}
		}
	}
	return nil
}

// Close ends the use of the map, as Index.Close does.
func (t *Tied[K, V]) Close() error { return t.index.Close() }
