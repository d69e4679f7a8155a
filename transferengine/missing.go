package transferengine

import (
	"fmt"
	"strings"
)

// MissingError says which immediates a wait for a Counter still missed when it ended.
type MissingError struct {
	// Imm is the counter's.
	Imm uint32
	// Want is how many immediates it waited for: from each peer, or in total.
	Want uint64
	// Missing has the peers whose immediates are missing, in the order in which they were named; one entry without a peer if none
	// was.
	Missing []Missing
	// Cause is why it ended: the context's error, that of a lost peer, or a [*SpoiledError].
	Cause error
}

// Missing is how many immediates of a peer are missing.
type Missing struct {
	Peer  *Peer
	Count uint64
}

// Error names the counter and everything that is missing.
func (e *MissingError) Error() string {
	var missing []string
	for _, m := range e.Missing {
		from := ""
		if m.Peer != nil {
			from = fmt.Sprintf(" from %v", m.Peer)
		}
		missing = append(missing, fmt.Sprintf("%d of %d%s", m.Count, e.Want, from))
	}
	return fmt.Sprintf("counter %d: immediates are missing: %s: %v", e.Imm, strings.Join(missing, ", "), e.Cause)
}

// Unwrap returns the cause.
func (e *MissingError) Unwrap() error { return e.Cause }

// counterWait is a wait for a Counter at work. A look costs as much as there are peers that immediates are missing from, and comes
// once as many have arrived as are missing: the looks of a wait cost no more than the arrivals, however many peers there are.
type counterWait struct {
	counter *Counter
	n       int64
	wants   []want // nil of a wait for a total
	short   []int  // the wants that the last look found unmet
	looked  bool   // a look was taken
	lookAt  uint64 // the counter's arrived at which the next look may find more
	losses  uint64 // the table's, before the last look
}

// want is what a wait wants of one peer.
type want struct {
	cell *cell
	n    int64
}

func newCounterWait() *counterWait { return new(counterWait) }

// newWait begins a wait, which end ends.
func (c *Counter) newWait(n uint64, from []*Peer) *counterWait {
	w := c.table.waits.get(newCounterWait)
	w.counter, w.n, w.looked = c, int64(n), false
	if len(from) == 0 {
		return w
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range from {
		cell := c.cell(p)
		if cell.waits > 0 && cell.wait == w {
			w.wants[cell.want].n += w.n
			continue
		}
		cell.wait, cell.want = w, len(w.wants)
		cell.waits++
		w.wants = append(w.wants, want{cell: cell, n: w.n})
		w.short = append(w.short, len(w.short))
	}
	for i := range w.wants {
		w.wants[i].cell.wait = nil
	}
	return w
}

// end gives a wait back.
func (w *counterWait) end() {
	c := w.counter
	c.mu.Lock()
	for i := range w.wants {
		cell := w.wants[i].cell
		cell.waits--
		if cell.count.Load() >= 0 { // or it was let go of
			c.tidy(cell)
		}
	}
	c.mu.Unlock()
	clear(w.wants)
	w.counter, w.wants, w.short = nil, w.wants[:0], w.short[:0]
	c.table.waits.put(w)
}

// met takes the immediates if they are there. A lost peer is an error once what it had sent is not enough. Otherwise the waiter is
// woken when another look may find more.
func (w *counterWait) met() (bool, error) {
	c := w.counter
	for w.due() {
		// Before the counts are looked at: a peer is marked lost after its last immediate was counted, and lost before the table
		// counts it.
		closed, released := c.table.closed.Load(), c.released.Load()
		w.looked, w.losses = true, c.table.losses.Load()
		arrived := c.arrived.Load()
		took, missing, cause := w.look()
		switch {
		case took:
			return true, nil
		case released:
			return true, fmt.Errorf("counter %d: %w", c.imm, releasedError{})
		case cause != nil:
			return true, w.missing(cause)
		case closed:
			return true, closedError{}
		}
		w.lookAt = arrived + uint64(missing)
	}
	return false, nil
}

// due tells whether a look may find more than the last one. If not, what may change that wakes the waiter.
func (w *counterWait) due() bool {
	c := w.counter
	if !w.looked || w.losses != c.table.losses.Load() || c.arrived.Load() >= w.lookAt {
		return true
	}
	c.wakeBy(w.lookAt)
	// What is looked at here was changed before the waiters were woken.
	return c.arrived.Load() >= w.lookAt || w.losses != c.table.losses.Load() || c.table.closed.Load() || c.released.Load()
}

// look takes what the wait is for or, if that is not there, tells how many immediates are missing, and why they will not come.
func (w *counterWait) look() (took bool, missing int64, cause error) {
	c := w.counter
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(w.wants) == 0 {
		if missing = w.n - c.total(); missing <= 0 {
			c.takeAny(w.n)
			return true, 0, nil
		}
		return false, missing, c.allSpoiled()
	}
	for whole := false; !whole; {
		whole = len(w.short) == len(w.wants)
		if missing, cause = w.sift(); missing > 0 {
			return false, missing, cause
		}
		for i := range w.wants { // others may have taken what an earlier look found
			w.short = append(w.short, i)
		}
	}
	for _, want := range w.wants {
		c.take(want.cell, want.n)
	}
	return true, 0, nil
}

// sift leaves in short what is still unmet. Under the counter's mu.
func (w *counterWait) sift() (missing int64, cause error) {
	unmet := w.short[:0]
	for _, i := range w.short {
		want := &w.wants[i]
		gone := want.cell.peer.lost.Load() // before the count
		n := want.n - want.cell.count.Load()
		if n <= 0 {
			continue
		}
		missing += n
		unmet = append(unmet, i)
		switch {
		case cause != nil:
		case gone:
			cause = want.cell.peer.err
		case want.cell.spoil != nil:
			cause = want.cell.spoil
		}
	}
	w.short = unmet
	return missing, cause
}

// allSpoiled is an error if every peer that is connected has spoiled the value, so that nobody is left to send it. Under mu.
func (c *Counter) allSpoiled() error {
	if c.spoiled == 0 {
		return nil
	}
	var cause error
	for _, p := range c.table.progress.worker.peers.all() {
		cell := c.cells[p]
		if cell == nil || cell.spoil == nil {
			return nil
		}
		cause = cell.spoil
	}
	return cause
}

// missing is the error of a wait that ended.
func (w *counterWait) missing(cause error) error {
	c := w.counter
	e := &MissingError{Imm: c.imm, Want: uint64(w.n), Cause: cause}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(w.wants) == 0 {
		e.Missing = []Missing{{Count: uint64(max(w.n-c.total(), 0))}}
	}
	for _, want := range w.wants {
		if n := want.n - max(want.cell.count.Load(), 0); n > 0 {
			e.Missing = append(e.Missing, Missing{Peer: want.cell.peer, Count: uint64(n)})
		}
	}
	return e
}
