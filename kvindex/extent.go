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
	e.used -= words
	e.add(from, words)
}

// add takes a run that nobody has used.
func (e *extents) add(from, words int) {
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
}

// lines tells which lines of an arena blocks have been found in: a bit each.
type lines struct {
	taken []uint64
	words int // of the arena
	used  int // words in blocks
}

func newLines(words int) lines {
	return lines{taken: make([]uint64, (words/lineWords+63)/64), words: words}
}

// has tells whether a line is part of a block.
func (l *lines) has(line int) bool { return l.taken[line/64]>>(line%64)&1 != 0 }

// take notes a block, in whole lines within the arena; false when another one has part of it.
func (l *lines) take(from, words int) bool {
	for i := from / lineWords; i < (from+words)/lineWords; i++ {
		if l.has(i) {
			return false
		}
		l.taken[i/64] |= 1 << (i % 64)
	}
	l.used += words
	return true
}

// extents are the runs before an offset in words that no block is in, but for the first line.
func (l *lines) extents(end int) extents {
	e := extents{used: l.used}
	for i := 1; i < end/lineWords; i++ {
		at := i * lineWords
		switch last := len(e.free) - 1; {
		case l.has(i):
		case last >= 0 && e.free[last].from+e.free[last].words == at:
			e.free[last].words += lineWords
		default:
			e.free = append(e.free, extent{at, lineWords})
		}
	}
	return e
}
