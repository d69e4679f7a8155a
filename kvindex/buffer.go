package kvindex

import (
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
)

// States of a buffer's slot.
const (
	slotFree uint64 = 0
	slotPut  uint64 = 1
	slotDel  uint64 = 2
	slotDead uint64 = 3 // its writer was given no chance to finish, and starts over elsewhere
)

// The word of a buffer: two bits of state for each slot, and above them how many slots have been reserved.
const (
	slotBits      = 2
	reservedShift = slotBits * maxBuffer
	oneReserved   = uint64(1) << reservedShift
)

// latest is the version that sees every write.
const latest = uint64(math.MaxUint64)

// buffer takes the writes to one leaf, in the order of their slots. A slot is reserved, filled and then committed by
// setting its state; from then on it never changes. Whoever needs the outcome of a slot that is still being filled kills
// it, so that nobody waits for a writer that does not run. A buffer that is full or sealed stays so: it is replaced
// together with its leaf and never reset, since a slow reader may be looking at it.
type buffer[V any] struct {
	word   atomic.Uint64
	born   uint64 // the version when it was made
	deltas [maxBuffer]uint8
	tags   [maxBuffer]uint8 // of each slot, for Verify
	keys   [maxBuffer]uint64
	values [maxBuffer]V
}

// maxDelta is how much newer than its buffer a write can be.
const maxDelta = math.MaxUint8

// slots is a buffer's word, read once.
type slots uint64

// kind returns the state of a slot.
func (s slots) kind(slot int) uint64 { return uint64(s) >> (slotBits * uint(slot)) & slotDead }

// taken returns how many slots have been reserved.
func (s slots) taken() int { return min(int(s>>reservedShift), maxBuffer) }

// load reads the word.
func (b *buffer[V]) load() slots { return slots(b.word.Load()) }

// reserve takes a slot of the first limit ones.
func (b *buffer[V]) reserve(limit int) (slot int, ok bool) {
	if b.word.Load()>>reservedShift >= uint64(limit) { // so that waiting writers do not count up
		return 0, false
	}
	slot = int(b.word.Add(oneReserved)>>reservedShift) - 1
	return slot, slot < limit
}

// fill writes to a slot that the caller has reserved; false means that the buffer is too old for the version.
func (b *buffer[V]) fill(slot int, k uint64, v V, kind, version uint64) bool {
	if version-b.born > maxDelta {
		return false
	}
	delta := uint8(version - b.born)
	b.keys[slot], b.values[slot], b.deltas[slot] = k, v, delta
	b.tags[slot] = tagOf(k, &b.values[slot], kind, delta)
	return true
}

// commit publishes a filled slot; false means that the slot was killed.
func (b *buffer[V]) commit(slot int, kind uint64) bool {
	before := slots(b.word.Or(kind << (slotBits * uint(slot))))
	return before.kind(slot) == slotFree
}

// version returns the version of a committed slot.
func (b *buffer[V]) version(slot int) uint64 { return b.born + uint64(b.deltas[slot]) }

// newest finds the newest write of k among the first n slots that the version sees.
func (b *buffer[V]) newest(s slots, k uint64, n int, version uint64) (slot int, kind uint64) {
	for i := n - 1; i >= 0; i-- {
		kind := s.kind(i)
		if kind != slotFree && kind != slotDead && b.keys[i] == k && b.version(i) <= version {
			return i, kind
		}
	}
	return 0, slotFree
}

// lower has the lower bit of each slot's state.
const lower = 0x55555555

// committed returns the lower bit of each slot that has been committed.
func (s slots) committed() uint32 { return uint32(s^s>>1) & lower }

// written tells whether all of the first n slots have been committed.
func (s slots) written(n int) bool {
	first := uint32(lower) & (1<<(slotBits*uint(n)) - 1)
	return s.committed()&first == first
}

// latest is newest for the latest version, and compares nothing but keys.
func (b *buffer[V]) latest(s slots, k uint64, n int) (slot int, kind uint64) {
	m := b.matches(k, s.committed()&(1<<(slotBits*uint(n))-1))
	if m == 0 {
		return 0, slotFree
	}
	slot = (bits.Len32(m) - 1) / slotBits
	return slot, s.kind(slot)
}

// settle kills the slots below n that are still being filled, and returns the word: its first n slots never change.
func (b *buffer[V]) settle(n int) slots {
	for {
		w := b.word.Load()
		if slots(w).written(n) {
			return slots(w)
		}
		dead := w
		for i := range n {
			if slots(w).kind(i) == slotFree {
				dead |= slotDead << (slotBits * uint(i))
			}
		}
		if dead == w || b.word.CompareAndSwap(w, dead) {
			return slots(dead)
		}
	}
}

// seal ends all writing.
func (b *buffer[V]) seal() slots {
	for {
		w := b.word.Load()
		if w>>reservedShift >= maxBuffer || b.word.CompareAndSwap(w, w&(oneReserved-1)|maxBuffer<<reservedShift) {
			return b.settle(maxBuffer)
		}
	}
}

// unused is the state of a buffer that was sealed before anybody wrote to it.
const unused = slots(maxBuffer<<reservedShift | oneReserved - 1)

// delta is a buffer's effect: its last writes, in order of keys.
type delta struct {
	n       int
	slots   [maxBuffer]uint8
	version uint64 // of the newest write
}

// collect gathers what the first n slots hold for a version, of the keys within a range.
func (b *buffer[V]) collect(s slots, n int, version uint64, r bounds) (d delta) {
	for m := s.committed() & (1<<(slotBits*uint(n)) - 1); m != 0; {
		i := (bits.Len32(m) - 1) / slotBits
		m &^= 1 << (slotBits * i)
		if b.keys[i]-r.least > r.most-r.least {
			continue
		}
		if v := b.version(i); v <= version {
			d.version = max(d.version, v)
			d.insert(b.keys[:], i)
		}
	}
	return d
}

// sorted is collect for all slots of a buffer whose slots have all been committed. Each key's place is how many keys are not
// above it: no branch depends on a key, where sorting random ones would take one wrong way after the other.
func (b *buffer[V]) sorted() (d delta) {
	order := [maxBuffer]uint8{}
	for i := range order {
		order[i] = maxBuffer
	}
	ranks(&b.keys, &order)
	for _, slot := range order {
		if slot < maxBuffer { // otherwise a key has been written to twice
			d.slots[d.n] = slot
			d.n++
		}
	}
	d.version = b.born + uint64(slices.Max(b.deltas[:]))
	return d
}

// insert adds a slot in order of keys; a key that is there came from a newer slot and stays.
func (d *delta) insert(keys []uint64, slot int) {
	k, at := keys[slot], d.n
	for at > 0 && keys[d.slots[at-1]] >= k {
		at--
		if keys[d.slots[at]] == k {
			return
		}
	}
	copy(d.slots[at+1:d.n+1], d.slots[at:d.n])
	d.slots[at] = uint8(slot)
	d.n++
}
