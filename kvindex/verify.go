package kvindex

import (
	"fmt"
	"math"
	"strings"
)

// Verify walks the whole tree and checks everything that a search relies on: order and range of all keys, the sum of keys
// and values, the bound of every line with the arithmetic that lookups use, routing, equal depth, and the buffers' slots.
// It reports the first thing that is wrong, with the node's place. It may run beside readers and writers; so what it cannot
// tell is a buffered write that has been turned into one that is not finished.
func (x *Index[V]) Verify() error {
	v := verifier[V]{config: x.config, version: x.version.Load}
	if _, err := v.inner(x.tree(), whole, "root"); err != nil {
		return err
	}
	return x.verifySlots()
}

// verifySlots checks that the slots of leaves repeat what their leaves have. A node's lock keeps its slots from changing, but
// only as long as the node is part of the tree: what replaces it has some of its slots, and a lock of its own. So this goes
// from node to node by their keys and not down the tree that another check has walked. It is the last one: ways down are right.
func (x *Index[V]) verifySlots() error {
	for k := uint64(0); ; {
		var path []step[V]
		locate(x.tree(), k, &path)
		above := len(path) - 1
		n := path[above].node
		n.mu.Lock()
		if n.retired {
			n.mu.Unlock()
			continue
		}
		err := n.repeated(k)
		n.mu.Unlock()
		b := boundsOf(path[:above]) // which are the node's as long as it is part of the tree
		if err != nil || b.most == math.MaxUint64 {
			return err
		}
		k = b.most + 1
	}
}

// repeated checks a node's slots, at the key that led to it. The caller has its lock.
func (n *inner[V]) repeated(k uint64) error {
	for i := range n.count {
		for j := range n.segs[i].leaves {
			if !n.segs[i].leaves[j].repeats() {
				return mismatch(fmt.Sprintf("node of key %d/%d/%d", k, i, j), "the slot says something else than the leaf")
			}
		}
	}
	return nil
}

// bounds are the least and the greatest key of a range.
type bounds struct{ least, most uint64 }

// whole is the range of all keys.
var whole = bounds{0, math.MaxUint64}

type verifier[V any] struct {
	config  Config
	room    int // keys that a leaf may have beyond the capacity
	version func() uint64
	visit   func(l *leaf[V], b bounds) // may be nil
}

func mismatch(at, format string, args ...any) error {
	return fmt.Errorf("kvindex: verify: %s: %s", at, fmt.Sprintf(format, args...))
}

// maxDepth is more than any tree has: nodes have two children or more.
const maxDepth = 64

// deep is an error for the place of a node that no tree has.
func deep(at string) error {
	if strings.Count(at, "/") > 2*maxDepth {
		return mismatch(at, "below more than %d nodes: the tree has a cycle", maxDepth)
	}
	return nil
}

// inner checks a node and everything below, and returns its height.
func (v verifier[V]) inner(n *inner[V], b bounds, at string) (height int, err error) {
	if n == nil {
		return 0, mismatch(at, "no node")
	}
	if err := deep(at); err != nil {
		return 0, err
	}
	if n.count < 1 || n.count > v.config.NodeSegments {
		return 0, mismatch(at, "%d segments, outside 1 to %d", n.count, v.config.NodeSegments)
	}
	for i, first := range n.firsts {
		want := uint64(math.MaxUint64)
		if i+1 < n.count && len(n.segs[i+1].pivots) > 0 {
			want = n.segs[i+1].pivots[0]
		}
		if first != want {
			return 0, mismatch(at, "first key of segment %d is %d, its first pivot %d", i+1, first, want)
		}
	}
	for i := range n.count {
		most := b.most
		if i+1 < n.count {
			most = n.firsts[i] - 1
		}
		h, err := v.segment(&n.segs[i], bounds{b.least, most}, i == 0, fmt.Sprintf("%s/%d", at, i))
		if err != nil {
			return 0, err
		}
		if i > 0 && h != height {
			return 0, mismatch(at, "segment %d is %d levels high, the one before %d", i, h, height)
		}
		height = h
	}
	return height + 1, nil
}

// segment checks one segment; first tells that its first child also takes keys below its pivot.
func (v verifier[V]) segment(s *segment[V], b bounds, first bool, at string) (height int, err error) {
	n := len(s.pivots)
	if n < 1 || n > v.config.LeafCapacity || len(s.leaves)+len(s.nodes) != n || (s.leaves != nil) == (s.nodes != nil) {
		return 0, mismatch(at, "%d pivots, %d leaves, %d nodes: capacity %d", n, len(s.leaves), len(s.nodes),
			v.config.LeafCapacity)
	}
	if err := verifyKeys(s.pivots, &s.model, v.config.innerTrainer(), at); err != nil {
		return 0, err
	}
	for i, beyond := range s.window[n:] {
		if beyond != math.MaxUint64 {
			return 0, mismatch(at, "pivot %d of %d is %d", n+i, n, beyond)
		}
	}
	for i, pivot := range s.pivots {
		below := bounds{pivot, b.most}
		if i == 0 && first {
			below.least = b.least
		}
		if i+1 < n {
			below.most = s.pivots[i+1] - 1
		}
		if !(first && i == 0) && pivot < b.least || pivot > b.most {
			return 0, mismatch(at, "pivot %d, outside %d to %d", pivot, b.least, b.most)
		}
		where := fmt.Sprintf("%s/%d", at, i)
		h := 0
		if s.leaves != nil {
			err = v.leaf(s.leaves[i].load(), below, where)
		} else {
			h, err = v.inner(s.nodes[i].Load(), below, where)
		}
		if err == nil && i > 0 && h != height {
			err = mismatch(where, "%d levels high, the child before %d", h, height)
		}
		if err != nil {
			return 0, err
		}
		height = h
	}
	return height, nil
}

// may tells whether nodes can have a bound; 0 is that of a plain one.
func (t trainer) may(eps int) bool {
	for e := t.eps; e <= t.widest; e *= 2 {
		if e == eps {
			return true
		}
	}
	return eps == 0
}

// verifyKeys checks order, and that the model's window holds the predecessor of every key a search can ask for: each
// key, and the last one before the next.
func verifyKeys(keys []uint64, m *model, t trainer, at string) error {
	n := len(keys)
	if int(m.width) > n || n > 0 && m.width == 0 || !t.may(int(m.eps)) {
		return mismatch(at, "window of %d of %d keys, ε %d", m.width, n, m.eps)
	}
	if m.eps == 0 && int(m.width) != n || int(m.width) < n && int(m.width) != 2*int(m.eps)+2 {
		return mismatch(at, "window of %d of %d keys does not match ε %d", m.width, n, m.eps)
	}
	if int(m.limit) != n-int(m.width) {
		return mismatch(at, "last window begins at %d of %d keys", m.limit, n)
	}
	if int(m.width) < n {
		if i := m.proven(keys); i < n {
			return mismatch(at, "key %d at %d is predicted more than %d away", keys[i], i, m.eps)
		}
	}
	for i, k := range keys {
		if i > 0 && keys[i-1] >= k {
			return mismatch(at, "key %d at %d is not above %d", k, i, keys[i-1])
		}
		if got := predecessor(keys, m.start(k), int(m.width), k); got != i {
			return mismatch(at, "key %d at %d is found at %d", k, i, got)
		}
		if i == 0 {
			continue
		}
		if got := predecessor(keys, m.start(k-1), int(m.width), k-1); got != i-1 {
			return mismatch(at, "key %d, absent or at %d, is found at %d", k-1, i-1, got)
		}
	}
	return nil
}

func (v verifier[V]) leaf(l *leaf[V], b bounds, at string) error {
	if l == nil {
		return mismatch(at, "no leaf")
	}
	n := len(l.keys)
	if n > v.config.LeafCapacity+v.room || n != len(l.values) {
		return mismatch(at, "%d keys, %d values, capacity %d", n, len(l.values), v.config.LeafCapacity)
	}
	if err := verifyKeys(l.keys, &l.model, v.config.leafTrainer(), at); err != nil {
		return err
	}
	if sum := contentSum(l.keys, l.values); sum != l.sum {
		return mismatch(at, "the sum of keys and values is %#x, was %#x", sum, l.sum)
	}
	if n > 0 && (l.keys[0] < b.least || l.keys[n-1] > b.most) {
		return mismatch(at, "keys %d to %d, outside %d to %d", l.keys[0], l.keys[n-1], b.least, b.most)
	}
	if now := v.version(); l.since > now {
		return mismatch(at, "version %d, the index is at %d", l.since, now)
	}
	if v.visit != nil {
		v.visit(l, b)
	}
	return v.buffer(l.buf.Load(), b, at)
}

func (v verifier[V]) buffer(buf *buffer[V], b bounds, at string) error {
	if buf == nil {
		return nil
	}
	s := buf.load()
	now := v.version()
	if buf.born > now {
		return mismatch(at, "the buffer has version %d, the index is at %d", buf.born, now)
	}
	for i := range maxBuffer {
		switch kind := s.kind(i); {
		case i >= s.taken() && kind != slotFree:
			return mismatch(at, "slot %d of the buffer has state %d and was not reserved", i, kind)
		case kind == slotFree || kind == slotDead:
		case buf.version(i) > now:
			return mismatch(at, "slot %d of the buffer has version %d, the index is at %d", i, buf.version(i), now)
		case buf.tags[i] != tagOf(buf.keys[i], &buf.values[i], kind, buf.deltas[i]):
			return mismatch(at, "slot %d of the buffer has changed", i)
		case buf.keys[i] < b.least || buf.keys[i] > b.most:
			return mismatch(at, "slot %d of the buffer has key %d, outside %d to %d", i, buf.keys[i], b.least, b.most)
		}
	}
	return nil
}
