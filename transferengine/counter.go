package transferengine

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Counter counts the immediates of one value that arrive at an engine, for each peer. Waits take what they waited for.
type Counter struct {
	imm     uint32
	table   *counterTable
	waiters waitlist
	claimed bool // somebody has asked for it; under table.mu

	mu       sync.Mutex
	cells    map[*Peer]*cell // without those of lost peers that were taken empty
	recent   *Peer           // asked for last,
	ofRecent *cell           // and its cell
}

// cell counts the immediates of one value of one peer that nobody has taken. The worker adds, waits subtract.
type cell struct {
	counter *Counter
	count   atomic.Int64
	orphan  bool // of a lost peer, and not yet taken empty; under counter.mu
}

// Imm is the value of the immediates that are counted.
func (c *Counter) Imm() uint32 { return c.imm }

// Value returns how many immediates have arrived, and were not taken, from the peers or, if none is named, in total.
func (c *Counter) Value(from ...*Peer) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(from) == 0 {
		return uint64(c.total())
	}
	var n int64
	for _, p := range from {
		n += c.from(p)
	}
	return uint64(n)
}

// Wait waits until n immediates have arrived from each of the peers, and takes them: all or none. If no peer is named it
// takes n in total from whoever sent them. A peer named twice has to send twice as many.
//
// If the context ends, or a peer that it still lacks immediates of is lost, the error is a [*LackError], which says what
// is missing. It is net.ErrClosed when the engine is closed.
func (c *Counter) Wait(ctx context.Context, n uint64, from ...*Peer) error {
	if n == 0 {
		return nil
	}
	if n > math.MaxInt32 {
		return fmt.Errorf("counter %d: wait for %d immediates: at most %d are possible: %w", c.imm, n, math.MaxInt32, syscall.EINVAL)
	}
	for _, p := range from {
		if !c.table.progress.worker.owns(p) {
			return fmt.Errorf("counter %d: wait for a peer that is nil or another engine's: %w", c.imm, syscall.EINVAL)
		}
	}
	w := c.table.waits.get(newCounterWait)
	w.counter, w.n, w.from = c, int64(n), append(w.from[:0], from...)
	met, err := c.table.progress.await(ctx, &c.waiters, w)
	if !met {
		err = w.lack(err)
	}
	w.counter = nil
	clear(w.from)
	c.table.waits.put(w)
	return err
}

// total is what is there of all peers. Under mu.
func (c *Counter) total() (n int64) {
	for _, cell := range c.cells {
		n += cell.count.Load()
	}
	return n
}

// from is what is there of one peer. Under mu.
func (c *Counter) from(p *Peer) int64 {
	if cell := c.cell(p); cell != nil {
		return cell.count.Load()
	}
	return 0
}

// cell is that of a peer, nil if there is none. Under mu.
func (c *Counter) cell(p *Peer) *cell {
	if c.recent != p || c.ofRecent == nil {
		c.recent, c.ofRecent = p, c.cells[p]
	}
	return c.ofRecent
}

// forget removes the cell of a peer. Under mu.
func (c *Counter) forget(p *Peer) {
	delete(c.cells, p)
	c.recent, c.ofRecent = nil, nil
}

// tidy lets go of a lost peer's cell that was taken empty. Under mu.
func (c *Counter) tidy(p *Peer) {
	if cell := c.cell(p); cell != nil && cell.orphan && cell.count.Load() == 0 {
		c.forget(p)
		c.table.orphans.Add(-1)
	}
}

// LackError says what a Counter's Wait still lacked when it ended.
type LackError struct {
	// Imm is the counter's.
	Imm uint32
	// Want is how many immediates it waited for: from each peer, or in total.
	Want uint64
	// Lacks are the peers whose immediates are missing; if the Wait named none, one entry without a peer.
	Lacks []Lack
	// Cause is why it ended: the context's error, or that of a lost peer.
	Cause error
}

// Lack is how many immediates are missing of a peer.
type Lack struct {
	Peer  *Peer
	Count uint64
}

// Error names the counter and everything that is missing.
func (e *LackError) Error() string {
	var missing []string
	for _, l := range e.Lacks {
		from := ""
		if l.Peer != nil {
			from = fmt.Sprintf(" from %v", l.Peer)
		}
		missing = append(missing, fmt.Sprintf("%d of %d%s", l.Count, e.Want, from))
	}
	return fmt.Sprintf("counter %d: immediates are missing: %s: %v", e.Imm, strings.Join(missing, ", "), e.Cause)
}

// Unwrap returns the cause.
func (e *LackError) Unwrap() error { return e.Cause }

// counterWait is a Counter's Wait at work.
type counterWait struct {
	counter *Counter
	n       int64
	from    []*Peer
}

func newCounterWait() *counterWait { return new(counterWait) }

// met takes the immediates if they are there. A lost peer is an error once what it had sent is not enough.
func (w *counterWait) met() (bool, error) {
	// Before the counts are looked at: a peer is marked lost after its last immediate was counted.
	var lost *Peer
	closed := w.counter.table.closed.Load()
	for _, p := range w.from {
		if p.lost.Load() && (lost == nil || w.missing(p) > 0) {
			lost = p
		}
	}
	w.counter.mu.Lock()
	took := w.take()
	w.counter.mu.Unlock()
	switch {
	case took:
		return true, nil
	case lost != nil && w.missing(lost) > 0:
		return true, w.lack(lost.err)
	case closed:
		return true, closedError{}
	}
	return false, nil
}

// missing is how many immediates of a peer are missing.
func (w *counterWait) missing(p *Peer) int64 {
	w.counter.mu.Lock()
	defer w.counter.mu.Unlock()
	return max(w.n-w.counter.from(p), 0)
}

// take takes everything or nothing. Under the counter's mu.
func (w *counterWait) take() bool {
	if len(w.from) == 0 {
		return w.takeAny()
	}
	for i, p := range w.from {
		if w.counter.from(p) >= w.n {
			w.counter.cell(p).count.Add(-w.n)
			continue
		}
		for _, q := range w.from[:i] {
			w.counter.cell(q).count.Add(w.n)
		}
		return false
	}
	for _, p := range w.from {
		w.counter.tidy(p)
	}
	return true
}

// takeAny takes n immediates from whoever sent them, if there are as many. Under the counter's mu.
func (w *counterWait) takeAny() bool {
	if w.counter.total() < w.n {
		return false
	}
	left := w.n
	for p, cell := range w.counter.cells {
		n := min(left, cell.count.Load())
		left -= n
		cell.count.Add(-n)
		w.counter.tidy(p)
	}
	return true
}

// lack is the error of a wait that ended.
func (w *counterWait) lack(cause error) error {
	e := &LackError{Imm: w.counter.imm, Want: uint64(w.n), Cause: cause}
	w.counter.mu.Lock()
	defer w.counter.mu.Unlock()
	if len(w.from) == 0 {
		e.Lacks = []Lack{{Count: uint64(max(w.n-w.counter.total(), 0))}}
	}
	for _, p := range w.from {
		if n := w.n - w.counter.from(p); n > 0 {
			e.Lacks = append(e.Lacks, Lack{Peer: p, Count: uint64(n)})
		}
	}
	return e
}

// counterTable has an engine's counters: those that somebody asked for, and those of immediates that came early.
//
// The worker takes its locks only when a peer sends a value for the first time and when a peer is lost; every other
// immediate is one addition to a cell that the peer's path remembers.
type counterTable struct {
	limit    int // of distinct immediates: of one peer, and of all lost peers together
	stats    *counts
	progress *progress
	waits    spares[counterWait]
	closed   atomic.Bool
	orphans  atomic.Int64 // cells of lost peers that were not taken empty

	mu    sync.Mutex // before any Counter.mu
	byImm map[uint32]*Counter
}

func newCounterTable(limit int, stats *counts) *counterTable {
	return &counterTable{limit: limit, stats: stats, byImm: make(map[uint32]*Counter),
		waits: newSpares[counterWait]()}
}

// claim returns the counter of an immediate for somebody who will wait for it.
func (t *counterTable) claim(imm uint32) *Counter {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counter(imm)
	c.claimed = true
	return c
}

// counter returns the counter of an immediate. Under mu.
func (t *counterTable) counter(imm uint32) *Counter {
	c := t.byImm[imm]
	if c == nil {
		c = &Counter{imm: imm, table: t, cells: make(map[*Peer]*cell)}
		t.byImm[imm] = c
	}
	return c
}

// add makes the cell of an immediate that a peer sends for the first time.
func (t *counterTable) add(p *Peer, imm uint32) *cell {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counter(imm)
	c.mu.Lock()
	defer c.mu.Unlock()
	made := &cell{counter: c}
	c.cells[p] = made
	return made
}

// sweep lets go of the cells of a path that are empty.
func (t *counterTable) sweep(p *path) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.recent = nil
	for imm, cell := range p.cells {
		if cell.count.Load() == 0 {
			delete(p.cells, imm)
			t.drop(cell.counter, p.peer)
		}
	}
}

// drop removes a cell, and its counter if that was never asked for and has no other. Under mu.
func (t *counterTable) drop(c *Counter, p *Peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(p)
	if len(c.cells) == 0 && !c.claimed {
		delete(t.byImm, c.imm)
	}
}

// lose takes in that a peer is lost: its empty cells go, waits that count on it end, and what it had sent is kept unless
// lost peers have left too much.
func (t *counterTable) lose(p *path) {
	t.sweep(p)
	for _, cell := range p.cells {
		cell.counter.mu.Lock()
		cell.orphan = true
		cell.counter.mu.Unlock()
	}
	left := int64(len(p.cells))
	p.cells = nil
	if t.orphans.Add(left) > int64(t.limit) {
		t.dropOrphans()
	}
	t.wake()
}

// dropOrphans forgets the immediates of all lost peers.
func (t *counterTable) dropOrphans() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.byImm {
		c.mu.Lock()
		for p, cell := range c.cells {
			if cell.orphan {
				t.stats.immediatesDropped.Add(uint64(cell.count.Load()))
				t.orphans.Add(-1)
				c.forget(p)
			}
		}
		if len(c.cells) == 0 && !c.claimed {
			delete(t.byImm, c.imm)
		}
		c.mu.Unlock()
	}
}

// wake has every wait look again.
func (t *counterTable) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.byImm {
		c.waiters.wake()
	}
}

// close ends all waits.
func (t *counterTable) close() {
	t.closed.Store(true)
	t.wake()
}
