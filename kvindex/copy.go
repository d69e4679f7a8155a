package kvindex

import (
	"reflect"
	"unsafe"
)

// gaps are what stays of a leaf's arrays between the writes of a buffer. The last one has no write behind it.
type gaps struct {
	n        int
	from, to int // ends of what is copied of the old arrays, and written to the new ones
	each     [maxBuffer + 1]gap
}

// gap is a stretch that is copied, and what comes behind it.
type gap struct {
	n   int
	put int // new elements: a write or none
	out int // old elements that are left out: that of the write's key or none
}

// add is a gap that ends at a position of the old arrays.
func (g *gaps) add(at, put, out int) {
	n := at - g.from
	g.each[g.n] = gap{n, put, out}
	g.n++
	g.from, g.to = at+out, g.to+n+put
}

// weave copies one of a leaf's arrays with the writes between the gaps.
func weave[T any](to, from []T, written *[maxBuffer]T, g *gaps) {
	if isWord[T]() {
		weaveWords(asWords(to), asWords(from), (*[maxBuffer]uint64)(unsafe.Pointer(written)), g)
		return
	}
	weaveAny(to, from, written, g)
}

// weaveAny is weave for elements of any type.
func weaveAny[T any](to, from []T, written *[maxBuffer]T, g *gaps) {
	for i, gap := range g.each[:g.n] {
		copy(to[:gap.n], from)
		to, from = to[gap.n:], from[gap.n+gap.out:]
		if gap.put > 0 {
			to[0] = written[i]
			to = to[1:]
		}
	}
}

// isWord tells whether values are words, and no pointers, whose copies the collector wants to know of.
func isWord[T any]() bool {
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Uint64, reflect.Int64, reflect.Float64:
		return true
	}
	return false
}

func asWords[T any](s []T) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}
