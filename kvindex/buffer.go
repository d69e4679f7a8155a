package kvindex

import (
	"math"
	"sync/atomic"
)

// States of a buffer's slot. A written slot holds its version above the two lowest bits.
const (
	slotFree uint64 = 0
	slotPut  uint64 = 1
	slotDel  uint64 = 2
	slotDead uint64 = 3 // gave its writer no chance to finish: the writer starts over elsewhere
	slotKind uint64 = 3
)

// latest is the version that sees every write.
const latest = uint64(math.MaxUint64)

// buffer takes the writes to one leaf, in the order of their slots. A slot is reserved, filled and then committed by a
// compare-and-swap of its state; from then on it never changes. Whoever needs the outcome of a slot that is still being
// filled kills it, so that nobody waits for a writer that does not run. A buffer that is full or sealed stays so: it is
// replaced together with its leaf and never reset, since a slow reader may be looking at it.
type buffer[V any] struct {
	reserved atomic.Uint32
	_        uint32
	states   [maxBuffer]atomic.Uint64
	keys     [maxBuffer]uint64
	values   [maxBuffer]V
}

// reserve takes a slot of the first limit ones.
func (b *buffer[V]) reserve(limit int) (slot int, ok bool) {
	if int(b.reserved.Load()) >= limit { // so that waiting writers do not count up
		return 0, false
	}
	slot = int(b.reserved.Add(1) - 1)
	return slot, slot < limit
}

// commit publishes a slot that the caller has reserved and filled; false means that the slot was killed.
func (b *buffer[V]) commit(slot int, version, kind uint64) bool {
	return b.states[slot].CompareAndSwap(slotFree, version<<2|kind)
}

// taken returns how many slots may have been reserved.
func (b *buffer[V]) taken() int { return min(int(b.reserved.Load()), maxBuffer) }

// newest finds the newest write of k among the first n slots that the version sees.
func (b *buffer[V]) newest(k uint64, n int, version uint64) (slot int, kind uint64) {
	for i := n - 1; i >= 0; i-- {
		state := b.states[i].Load()
		if kind := state & slotKind; (kind == slotPut || kind == slotDel) && b.keys[i] == k && state>>2 <= version {
			return i, kind
		}
	}
	return 0, slotFree
}

// settle kills the slots below n that are still being filled: after it, the first n slots never change.
func (b *buffer[V]) settle(n int) {
	for i := range n {
		if b.states[i].Load() == slotFree {
			b.states[i].CompareAndSwap(slotFree, slotDead)
		}
	}
}

// seal ends all writing.
func (b *buffer[V]) seal() {
	for {
		r := b.reserved.Load()
		if r >= maxBuffer || b.reserved.CompareAndSwap(r, maxBuffer) {
			break
		}
	}
	b.settle(maxBuffer)
}

// delta is a buffer's effect: its last writes, in order of keys.
type delta struct {
	n       int
	slots   [maxBuffer]uint8
	version uint64 // of the newest write
}

// collect gathers what the first n slots, which have been settled, hold for a version.
func (b *buffer[V]) collect(n int, version uint64) (d delta) {
	for i := n - 1; i >= 0; i-- {
		state := b.states[i].Load()
		if kind := state & slotKind; kind == slotFree || kind == slotDead || state>>2 > version {
			continue
		}
		d.version = max(d.version, state>>2)
		d.insert(b.keys[:], i)
	}
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

// deleted tells whether a slot holds a deletion.
func (b *buffer[V]) deleted(slot uint8) bool { return b.states[slot].Load()&slotKind == slotDel }
