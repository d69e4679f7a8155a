package kvindex

import (
	"errors"
	"fmt"
)

// What has been acknowledged must not need memory that a full arena does not have. So a delete, a write to a key that is there
// and Flush always work, and a put of a new key is refused before it is in a buffer:
//
//   - The place of a leaf has room for the new keys that its buffer takes. Arena.takes looks at it before each of them;
//     planner.leaf gives it to every leaf but those that were loaded.
//   - Where no memory is left for a buffer, or for the leaves and nodes that replace a full one, the leaf is written anew in its
//     own place, with what its buffer has (rewrite). The result is as large as the place or smaller, and the buffer is free then.
//   - On the way there it is in the spare place, since readers may be looking at what is in its own.
//
// The spare place is empty most of the time. A leaf in it has a home, the place of the leaf that it replaced, and moves there
// once no reader can be looking at that any more: mostly at once. It is a leaf like others meanwhile, so it may be replaced
// where it is, and then its home is free memory. A leaf that an owner left there who was killed has no home and goes to any
// place that is large enough. The spare place is not part of memory, nor is a home that no reader looks at any more.
type spare struct {
	place Range
	taken bool   // by a leaf, or by one that waits for its readers
	key   uint64 // a key of the range of the leaf that is there
	home  Range  // no bytes where there is none
	free  bool   // no reader looks at home any more
}

// spareOf lays an arena's spare place out: the last lines, as many as the largest leaf has.
func spareOf(words int, c Config) (s spare, err error) {
	n := blockWords(kindLeaf, c.LeafCapacity+c.BufferCapacity)
	if least := minArena + n; words < least {
		return s, fmt.Errorf("%d bytes, at least %d are needed", 8*words, 8*least)
	}
	s.place = Range{8 * uint64(words/lineWords*lineWords-n), 8 * n}
	return s, nil
}

// takes tells whether a leaf's buffer has a free slot, and the leaf's place room for a new key where one is to come.
func (a *Arena) takes(l *leaf[uint64], grows bool) bool {
	taken := 0
	if b := a.load(l.at + 8*leafBuffer); b != 0 {
		taken = slots(a.load(b + 8*bufferState)).taken()
	}
	return taken < a.config.BufferCapacity && (!grows || a.fits(len(l.keys)+taken+1, a.home(l)))
}

// home is a leaf's place.
func (a *Arena) home(l *leaf[uint64]) Range { return Range{l.at, 8 * head(a.load(l.at)).words()} }

// fits tells whether a leaf of so many keys may be in a place.
func (a *Arena) fits(keys int, place Range) bool {
	return keys <= a.config.LeafCapacity+a.config.BufferCapacity && blockWords(kindLeaf, keys) <= place.Bytes/8
}

// squeeze writes to a leaf itself where there is no memory for a buffer, as full says, nor for what replaces a full one.
func (a *Arena) squeeze(k, v, kind uint64, full error) error {
	if err := a.flushInPlace(k, full); err != nil {
		return err
	}
	w := writes[uint64]{n: 1, keys: [maxBuffer]uint64{k}, values: [maxBuffer]uint64{v}, deleted: [maxBuffer]bool{kind == slotDel}}
	return a.rewrite(k, &w, full)
}

// flushInPlace merges the buffer of the leaf of k, if it has one.
func (a *Arena) flushInPlace(k uint64, full error) error {
	l := locate(a.root.Load(), k, nil).leaf
	if a.load(l.at+8*leafBuffer) == 0 {
		return nil
	}
	var ws writes[uint64]
	a.sealed(l, &ws)
	return a.rewrite(k, &ws, full)
}

// rewrite puts the leaf of k with some writes in its own place.
func (a *Arena) rewrite(k uint64, ws *writes[uint64], full error) error {
	if err := a.vacate(); err != nil {
		return err
	}
	var path []step[uint64]
	l := locate(a.root.Load(), k, &path).leaf
	next, home := a.merge(l, ws), a.home(l)
	if !a.fits(len(next.keys), home) {
		return full
	}
	p := newPlanner(a)
	p.given = Range{a.spare.place.Offset, home.Bytes}
	offset, err := p.leaf(next)
	if err != nil {
		return err
	}
	a.spare = spare{place: a.spare.place, taken: true, key: k, home: home}
	a.replaceLeaf(p, path[len(path)-1], l, next, offset)
	return nil
}

// merge makes one leaf of a leaf and writes.
func (a *Arena) merge(l *leaf[uint64], ws *writes[uint64]) *leaf[uint64] {
	m := l.merge(ws)
	line := model{}
	if len(m.keys) > 0 {
		line = a.config.leafTrainer().whole(m.keys).model
	}
	return newWritten(m.keys, m.values, line, m.sum, nil)
}

// vacate empties the spare place. An error says that readers keep it from that.
func (a *Arena) vacate() error {
	a.reclaim()
	s := &a.spare
	if s.taken && s.home.Bytes == 0 {
		l := locate(a.root.Load(), s.key, nil).leaf
		if n := a.home(l).Bytes; l.at == s.place.Offset {
			if from, ok := a.memory.allocate(n / 8); ok {
				a.memory.used -= n / 8
				s.home, s.free = Range{8 * uint64(from), n}, true
				a.goHome()
			}
		}
	}
	if s.taken {
		return fmt.Errorf("%w: it is rewritten in place, and readers that are within a lookup hold %d bytes up: try again", ErrFull,
			a.epochs.waiting())
	}
	return nil
}

// goHome moves the leaf in the spare place to its home, which is free.
func (a *Arena) goHome() {
	var path []step[uint64]
	l := locate(a.root.Load(), a.spare.key, &path).leaf
	var ws writes[uint64]
	a.sealed(l, &ws)
	next, home := a.merge(l, &ws), a.spare.home
	a.spare.home, a.spare.free = Range{}, false
	p := newPlanner(a)
	p.given = home
	offset, err := p.leaf(next)
	if err != nil { // no UIDs are left
		a.memory.add(int(home.Offset/8), home.Bytes/8)
		return
	}
	used := blockWords(kindLeaf, len(next.keys)+p.room)
	if rest := home.Bytes/8 - used; rest > 0 {
		a.memory.add(int(home.Offset/8)+used, rest)
	}
	a.replaceLeaf(p, path[len(path)-1], l, next, offset)
}

// release takes note that a place of the spare leaf is free; false where the place is another one's.
func (s *spare) release(r Range) bool {
	switch {
	case r.Offset == s.place.Offset:
		s.taken = false
	case r == s.home:
		s.free = true
	default:
		return false
	}
	return true
}

// replaced takes note of blocks that are retired. Where the leaf in the spare place is one of them, it needs no home.
func (a *Arena) replaced(blocks []Range) {
	s := &a.spare
	for _, r := range blocks {
		if r.Offset != s.place.Offset {
			continue
		}
		if s.free {
			a.memory.add(int(s.home.Offset/8), s.home.Bytes/8)
		}
		s.home, s.free = Range{}, false
	}
}

// isFull tells an error that memory would have helped from others.
func isFull(err error) bool { return errors.Is(err, ErrFull) }
