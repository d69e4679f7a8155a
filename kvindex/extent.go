package kvindex

import (
	"fmt"
	"slices"
)

// ErrFull is wrapped by the errors of an arena whose memory does not hold what a write needs. Nothing has changed then.
var ErrFull = fmt.Errorf("kvindex: arena is full")

// extent is a run of free words.
type extent struct{ from, words int }

// extents allocates runs of words, first fit, and joins what comes back with its free neighbours.
type extents struct {
	free []extent // by offset; no two touch
	used int      // words handed out
}

func (e *extents) allocate(words int) (from int, ok bool) {
	for i := range e.free {
		f := &e.free[i]
		if f.words < words {
			continue
		}
		from = f.from
		f.from, f.words = f.from+words, f.words-words
		if f.words == 0 {
			e.free = slices.Delete(e.free, i, i+1)
		}
		e.used += words
		return from, true
	}
	return 0, false
}

// release takes back a run.
func (e *extents) release(from, words int) {
	i, _ := slices.BinarySearchFunc(e.free, from, func(f extent, from int) int { return f.from - from })
	e.free = slices.Insert(e.free, i, extent{from, words})
	if i+1 < len(e.free) && from+words == e.free[i+1].from {
		e.free[i].words += e.free[i+1].words
		e.free = slices.Delete(e.free, i+1, i+2)
	}
	if i > 0 && e.free[i-1].from+e.free[i-1].words == from {
		e.free[i-1].words += e.free[i].words
		e.free = slices.Delete(e.free, i, i+1)
	}
	e.used -= words
}

// take marks a run as handed out; false when part of it is already.
func (e *extents) take(from, words int) bool {
	i, found := slices.BinarySearchFunc(e.free, from, func(f extent, from int) int { return f.from - from })
	if !found {
		i--
	}
	if i < 0 || e.free[i].from+e.free[i].words < from+words {
		return false
	}
	f := e.free[i]
	parts := make([]extent, 0, 2)
	if from > f.from {
		parts = append(parts, extent{f.from, from - f.from})
	}
	if end := f.from + f.words; end > from+words {
		parts = append(parts, extent{from + words, end - from - words})
	}
	e.free = slices.Replace(e.free, i, i+1, parts...)
	e.used += words
	return true
}
