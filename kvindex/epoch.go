package kvindex

import (
	"slices"
	"sync/atomic"
)

// epochs tell when memory that readers may still be looking at can be used again. Each reader counts the lookups that it
// has started and finished. What is retired remembers every reader's started count of that moment, after the store that
// took it out of the tree: it is free when each reader has finished as many. A reader that is idle has finished all and
// holds nothing up; one that is stuck holds up only what was retired since it started. The owner's lock guards all but
// the counts.
type epochs struct {
	readers []*epoch
	limbo   []retired
}

// epoch is one reader's counts.
type epoch struct {
	started  atomic.Uint64
	finished atomic.Uint64
	_        [48]byte // a line each: every lookup writes to it
}

func (e *epoch) enter() { e.started.Add(1) }
func (e *epoch) leave() { e.finished.Add(1) }

// retired is a list of blocks with what has to be over before they are free.
type retired struct {
	blocks []Range
	until  []mark
}

// mark is a reader's count that has to be finished.
type mark struct {
	reader *epoch
	count  uint64
}

// retire adds blocks that are no longer reachable.
func (e *epochs) retire(blocks []Range) {
	r := retired{blocks: blocks}
	for _, reader := range e.readers {
		if started := reader.started.Load(); started != reader.finished.Load() {
			r.until = append(r.until, mark{reader, started})
		}
	}
	e.limbo = append(e.limbo, r)
}

// reclaim calls free for what no reader can be looking at any more.
func (e *epochs) reclaim(free func(Range)) {
	e.limbo = slices.DeleteFunc(e.limbo, func(r retired) bool {
		for _, m := range r.until {
			if m.reader.finished.Load() < m.count {
				return false
			}
		}
		for _, b := range r.blocks {
			free(b)
		}
		return true
	})
}

// waiting returns how many bytes are retired and not free.
func (e *epochs) waiting() (bytes int) {
	for _, r := range e.limbo {
		for _, b := range r.blocks {
			bytes += b.Bytes
		}
	}
	return bytes
}
