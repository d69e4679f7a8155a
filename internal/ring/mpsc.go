// Package ring has bounded queues between goroutines that neither lock nor allocate.
package ring

import (
	"math/bits"
	"sync/atomic"
)

// cacheLine is the distance, in bytes, that keeps producers and the consumer from sharing a cache line on the
// processors that RDMA hosts have.
const cacheLine = 64

// MPSC is a bounded first-in first-out queue with any number of producers and one consumer: Vyukov's bounded queue (D.
// Vyukov, "Bounded MPMC queue", 1024cores.net), whose consumer side needs no compare-and-swap here.
//
// Values of one producer come out in the order in which it pushed them. A value is visible to the consumer once its
// Push returned; what the producer wrote before Push happens before what the consumer does after Pop.
type MPSC[T any] struct {
	slots []slot[T]
	mask  uint64

	_    [cacheLine]byte
	tail atomic.Uint64 // the next position to push at, claimed by compare-and-swap
	_    [cacheLine - 8]byte
	head atomic.Uint64 // the next position to pop from, written by the consumer alone
	_    [cacheLine - 8]byte
}

// slot is one place of the ring. Its turn says whose it is: at position p it equals p when a producer may fill the
// slot, p+1 when the consumer may empty it, and p+capacity (the next lap's p) after that.
type slot[T any] struct {
	turn  atomic.Uint64
	value T
}

// New returns an empty queue of the given capacity, rounded up to a power of two and to at least 2 (with a single slot,
// full and empty would have the same turn). The memory for all slots is allocated here.
func New[T any](capacity int) *MPSC[T] {
	n := uint64(1) << bits.Len(uint(max(capacity, 2)-1))
	q := &MPSC[T]{slots: make([]slot[T], n), mask: n - 1}
	for i := range q.slots {
		q.slots[i].turn.Store(uint64(i))
	}
	return q
}

// Push appends v and returns true, or returns false when the queue is full. Any goroutine may call it.
func (q *MPSC[T]) Push(v T) bool {
	pos := q.tail.Load()
	for {
		s := &q.slots[pos&q.mask]
		switch ahead := int64(s.turn.Load() - pos); {
		case ahead < 0: // still holds the value of the lap before
			return false
		case ahead == 0 && q.tail.CompareAndSwap(pos, pos+1):
			s.value = v
			s.turn.Store(pos + 1)
			return true
		default: // another producer took the position
			pos = q.tail.Load()
		}
	}
}

// Pop removes and returns the oldest value, or returns false when there is none. It also returns false while the
// producer of the oldest value is still within Push, even if younger values are complete.
//
// One goroutine at a time may call it. Another may take over when something that it synchronised on (a mutex, a
// compare-and-swap, a channel) orders its first Pop after the other's last.
func (q *MPSC[T]) Pop() (T, bool) {
	var none T
	pos := q.head.Load()
	s := &q.slots[pos&q.mask]
	if s.turn.Load() != pos+1 {
		return none, false
	}
	v := s.value
	s.value = none // a queue that rests keeps nothing alive
	s.turn.Store(pos + q.mask + 1)
	q.head.Store(pos + 1)
	return v, true
}

// Len returns how many values are queued or being pushed: between 0 and Cap, and exact only while nobody pushes or
// pops.
func (q *MPSC[T]) Len() int {
	head := q.head.Load() // before tail, so that the difference is not negative
	return int(min(q.tail.Load()-head, q.mask+1))
}

// Pushed is the count of values that were pushed, or are being: it changes with each Push that finds room. It is only to be
// read.
func (q *MPSC[T]) Pushed() *atomic.Uint64 { return &q.tail }

// Cap returns the number of values that the queue holds when it is full.
func (q *MPSC[T]) Cap() int { return len(q.slots) }
