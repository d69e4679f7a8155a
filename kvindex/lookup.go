package kvindex

import (
	"math/bits"
	"unsafe"
)

// The functions of this file are lookups below a node without the type of values, of which they know the size: nothing
// that they look at is laid out differently for another type. lookup_amd64.s has them again.

// goDescend returns the slot of the leaf of k below a node.
func goDescend(node unsafe.Pointer, k uint64) (at unsafe.Pointer) {
	n := (*inner[struct{}])(node)
	for {
		seg, i := n.route(k)
		if seg.leaves != nil {
			return unsafe.Pointer(&seg.leaves[i])
		}
		n = seg.nodes[i].Load()
	}
}

// spot is where a key stands in a leaf, or would stand.
type spot struct {
	leaf, keys, values, buffer unsafe.Pointer
	i, n                       int // the position of the first key that is not below it, and how many there are
}

// goSeek finds the spot of a key below a node.
func goSeek(node unsafe.Pointer, k uint64, p *spot) { goSpot(goDescend(node, k), k, p) }

// goSpot finds it in the leaf of a slot.
func goSpot(at unsafe.Pointer, k uint64, p *spot) {
	l, c, b := (*slot[struct{}])(at).read()
	*p = spot{unsafe.Pointer(l), unsafe.Pointer(unsafe.SliceData(c.keys)), unsafe.Pointer(unsafe.SliceData(c.values)),
		unsafe.Pointer(b), c.lowerBound(k), len(c.keys)}
}

// target is what a write needs of the slot of a key's leaf: the arrays, the buffer, and the window for the key.
type target struct {
	leaf, keys, values, buffer unsafe.Pointer
	n                          int
	start, width               int
}

// goAim finds the target of a key below a node.
func goAim(node unsafe.Pointer, k uint64, t *target) { goTarget(goDescend(node, k), k, t) }

// goTarget finds it in the leaf of a slot.
func goTarget(at unsafe.Pointer, k uint64, t *target) {
	l, c, b := (*slot[struct{}])(at).read()
	*t = target{unsafe.Pointer(l), unsafe.Pointer(unsafe.SliceData(c.keys)), unsafe.Pointer(unsafe.SliceData(c.values)),
		unsafe.Pointer(b), len(c.keys), c.model.start(k), int(c.model.width)}
}

// goHit returns the position of the last key of a target that is at most k, or of the window's first.
func goHit(t *target, k uint64) int {
	return predecessor(unsafe.Slice((*uint64)(t.keys), t.n), t.start, t.width, k)
}

// goMatches returns which of a buffer's slots have the key k: the lower bit of each one's state, of those of them in among.
func goMatches(b unsafe.Pointer, k uint64, among uint32) (m uint32) {
	keys := &(*buffer[struct{}])(b).keys
	for ; among != 0; among &= among - 1 {
		if keys[bits.TrailingZeros32(among)/slotBits] == k {
			m |= among & -among
		}
	}
	return m
}

// goSearch returns where the value of k is that a slot's leaf or its buffer has; nil where there is none. It gives back the
// slot where what that says does not belong together.
func goSearch(at unsafe.Pointer, k uint64, size uintptr) (value, slow unsafe.Pointer) {
	_, c, b := (*slot[struct{}])(at).read()
	if b != nil {
		switch slot, kind := b.latest(b.load(), k, maxBuffer); kind {
		case slotPut:
			return unsafe.Add(unsafe.Pointer(&b.values), uintptr(slot)*size), nil
		case slotDel:
			return nil, nil
		}
	}
	i, exact := c.find(k)
	if !exact {
		return nil, nil
	}
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(c.values)), uintptr(i)*size), nil
}
