package transferengine

import (
	"sync"
	"sync/atomic"
)

// waiter is a goroutine that sleeps until something may have changed.
type waiter struct {
	signal chan struct{} // holds one signal

	next   *waiter     // in a waitlist
	listed atomic.Bool // in a waitlist

	before, after *waiter // in a lineup, under its mutex
	lined         bool
}

func newWaiter() *waiter { return &waiter{signal: make(chan struct{}, 1)} }

// rouse wakes the goroutine, now or when it next goes to sleep.
func (w *waiter) rouse() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// waitlist has the goroutines that wait for one object. The worker wakes them without a lock: it takes the whole list,
// and whoever has to go on waiting comes back.
type waitlist struct{ head atomic.Pointer[waiter] }

// add puts a waiter on the list. Changes that are made after it wake the waiter.
func (l *waitlist) add(w *waiter) {
	w.listed.Store(true)
	for {
		w.next = l.head.Load()
		if l.head.CompareAndSwap(w.next, w) {
			return
		}
	}
}

// wake wakes all waiters and empties the list.
func (l *waitlist) wake() {
	if l.head.Load() == nil { // nearly always
		return
	}
	for w := l.head.Swap(nil); w != nil; {
		next := w.next // before the waiter may put itself on a list again
		w.listed.Store(false)
		w.rouse()
		w = next
	}
}

// lineup has the goroutines that would drive the worker, in the order in which they came.
type lineup struct {
	length      atomic.Int32
	mu          sync.Mutex
	first, last *waiter
}

// add puts a waiter at the end.
func (l *lineup) add(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.lined, w.before, w.after = true, l.last, nil
	if l.last == nil {
		l.first = w
	} else {
		l.last.after = w
	}
	l.last = w
	l.length.Add(1)
}

// remove takes a waiter out, or returns false if it was called.
func (l *lineup) remove(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !w.lined {
		return false
	}
	l.unlink(w)
	return true
}

// call wakes the first waiter and takes it out, or returns false if there is none.
func (l *lineup) call() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.first
	if w == nil {
		return false
	}
	l.unlink(w)
	w.rouse()
	return true
}

func (l *lineup) unlink(w *waiter) {
	if w.before == nil {
		l.first = w.after
	} else {
		w.before.after = w.after
	}
	if w.after == nil {
		l.last = w.before
	} else {
		w.after.before = w.before
	}
	w.lined, w.before, w.after = false, nil, nil
	l.length.Add(-1)
}

// spares keeps objects for their next use, a few of them. Unlike a sync.Pool it never loses one while it has room, so that
// what allocates nothing can be tested.
type spares[T any] struct {
	first atomic.Pointer[T] // costs less than the others
	more  chan *T
}

const spareLimit = 64

func newSpares[T any]() spares[T] { return spares[T]{more: make(chan *T, spareLimit)} }

// get returns a spare object, or makes one.
func (s *spares[T]) get(make func() *T) *T {
	if object := s.first.Swap(nil); object != nil {
		return object
	}
	select {
	case object := <-s.more:
		return object
	default:
		return make()
	}
}

// put keeps an object, if there is room.
func (s *spares[T]) put(object *T) {
	if s.first.CompareAndSwap(nil, object) {
		return
	}
	select {
	case s.more <- object:
	default:
	}
}
