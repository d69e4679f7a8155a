package transferengine

import (
	"context"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// Counter counts the immediates of one value that arrive at an engine, for each peer. Waits take what they waited for.
type Counter struct {
	// An arrival costs three atomic operations, whoever waits for whatever: a wait says how many have to arrive before it is worth
	// a look, and nobody looks before.

	imm     uint32
	table   *counterTable
	waiters waitlist
	arrived atomic.Uint64 // from all peers, ever; after the cell's count
	wakeAt  atomic.Uint64 // that many wake the waiters
	claimed bool          // somebody has asked for it; under table.mu

	released    atomic.Bool
	mu          sync.Mutex // after table.mu
	taken       uint64     // of those that arrived, by waits or because nobody wants them any more
	cells       map[*Peer]*cell
	spoiled     int   // of these
	first, last *cell // of all cells, in the order in which they were made: what is taken must not be left to chance
}

// cell counts the immediates of one value of one peer that nobody has taken. Workers add to the count; all else of a cell, and
// what takes from the count, is under the counter's mu.
type cell struct {
	counter *Counter
	peer    *Peer
	count   atomic.Int64 // far below zero once the counter has let go of the cell

	known         bool          // a worker has it among its path's
	orphan        bool          // of a peer that is down
	spoil         *SpoiledError // what comes is no more than a part
	waits         int           // so many name the peer
	wait          *counterWait
	want          int // the peer's place in the wants of wait, which is being made
	before, after *cell
}

// gone is the count of a cell that its counter has let go of: what arrives by it is seen to be for another cell.
const gone = math.MinInt64 / 2

// arrive counts an immediate, unless the counter has let go of the cell.
func (c *cell) arrive() bool {
	if c.count.Add(1) < 0 {
		return false
	}
	if k := c.counter; k.arrived.Add(1) >= k.wakeAt.Load() {
		k.wake()
	}
	return true
}

// wake has every wait look. Those that find that it is too early say again when it is not.
func (c *Counter) wake() {
	c.wakeAt.Store(math.MaxUint64)
	c.waiters.wake()
}

// wakeBy has the waiters woken when as many have arrived as that, or before.
func (c *Counter) wakeBy(arrived uint64) {
	for {
		at := c.wakeAt.Load()
		if at <= arrived || c.wakeAt.CompareAndSwap(at, arrived) {
			return
		}
	}
}

// Imm is the value of the immediates that are counted.
func (c *Counter) Imm() uint32 { return c.imm }

// Value returns how many immediates have arrived, and were not taken, from the peers or, if none is named, in total.
func (c *Counter) Value(from ...*Peer) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(from) == 0 {
		return uint64(max(c.total(), 0))
	}
	var n int64
	for _, p := range from {
		if cell := c.cells[p]; cell != nil {
			n += cell.count.Load()
		}
	}
	return uint64(n)
}

// Wait waits until n immediates have arrived in total, from whichever peers, and takes them: all or none.
//
// If the context ends first, the error is a [*MissingError], which says how many are missing. It wraps net.ErrClosed when the
// engine is closed or the counter was released.
func (c *Counter) Wait(ctx context.Context, n uint64) error {
	if err := c.checkWait(n, nil); err != nil || n == 0 {
		return err
	}
	return c.await(ctx, n, nil)
}

// WaitFrom waits until n immediates have arrived from each of the peers, and takes them: all or none. A peer named twice has to
// send twice as many.
//
// If the context ends, or a peer that immediates are missing from is lost, the error is a [*MissingError], which names the peers.
// It wraps net.ErrClosed when the engine is closed or the counter was released.
func (c *Counter) WaitFrom(ctx context.Context, n uint64, from ...*Peer) error {
	if err := c.checkWait(n, from); err != nil || n == 0 || len(from) == 0 {
		return err
	}
	return c.await(ctx, n, from)
}

// TryTake takes n immediates from each of the peers or, if none is named, in total, if they are there: all or none. If they are
// not, and nobody else drives the engine, it does a turn of its work and looks again. Its errors are those of a WaitFrom that
// would end.
func (c *Counter) TryTake(n uint64, from ...*Peer) (took bool, err error) {
	if err := c.checkWait(n, from); err != nil || n == 0 {
		return err == nil, err
	}
	w := c.newWait(n, from)
	defer w.end()
	over, err := w.met()
	if !over {
		c.table.progress.poll()
		over, err = w.met()
	}
	return over && err == nil, err
}

// checkWait checks what a wait is for.
func (c *Counter) checkWait(n uint64, from []*Peer) error {
	if n > math.MaxInt32 {
		return fmt.Errorf("counter %d: wait for %d immediates: at most %d are possible: %w", c.imm, n, math.MaxInt32, syscall.EINVAL)
	}
	for _, p := range from {
		if !c.table.progress.worker.owns(p) {
			return fmt.Errorf("counter %d: wait for a peer that is nil or another engine's: %w", c.imm, syscall.EINVAL)
		}
	}
	return nil
}

// await waits for n immediates of each peer, or in total.
func (c *Counter) await(ctx context.Context, n uint64, from []*Peer) error {
	w := c.newWait(n, from)
	defer w.end()
	met, err := c.table.progress.await(ctx, &c.waiters, w)
	if !met {
		err = w.missing(err)
	}
	return err
}

// Release has the engine forget the counter: whoever waits for it is told that it is over, and what has arrived and was not taken
// counts nowhere. Immediates of the value that arrive later are kept for whoever asks for its counter then. An engine keeps every
// counter that was asked for until it is released; release those of values that are used once.
func (c *Counter) Release() {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released.Swap(true) {
		return
	}
	delete(c.table.byImm, c.imm)
	for cell := c.first; cell != nil; cell = c.first {
		c.drop(cell)
	}
	c.wake()
}

// releasedError is a wait for a counter that was released.
type releasedError struct{}

func (releasedError) Error() string {
	return "the counter was released: ask the engine for the value's counter again"
}

func (releasedError) Unwrap() error { return net.ErrClosed }

// total is what is there of all peers; less, for a moment, while an arrival is counted. Under mu.
func (c *Counter) total() int64 { return int64(c.arrived.Load() - c.taken) }

// cell returns the cell of a peer, or makes one. Under mu.
func (c *Counter) cell(p *Peer) *cell {
	if had := c.cells[p]; had != nil {
		return had
	}
	made := &cell{counter: c, peer: p, before: c.last}
	if c.last == nil {
		c.first = made
	} else {
		c.last.after = made
	}
	c.last, c.cells[p] = made, made
	return made
}

// take takes immediates of a cell that has them. Under mu.
func (c *Counter) take(cell *cell, n int64) {
	cell.count.Add(-n)
	c.taken += uint64(n)
}

// takeAny takes n immediates, which are there, of whichever cells. Under mu.
func (c *Counter) takeAny(n int64) {
	for cell := c.first; cell != nil && n > 0; {
		next := cell.after
		took := min(n, cell.count.Load())
		n -= took
		c.take(cell, took)
		c.tidy(cell)
		cell = next
	}
}

// tidy lets go of a cell that nothing comes by any more and nobody waits for, once it is empty. Under mu.
func (c *Counter) tidy(cell *cell) {
	if cell.waits == 0 && cell.spoil == nil && (!cell.known || cell.orphan) && cell.count.Load() == 0 {
		c.drop(cell)
	}
}

// retire lets go of a cell if it is empty and nobody waits for it. Under mu.
func (c *Counter) retire(cell *cell) bool {
	if cell.waits > 0 || cell.spoil != nil || !cell.count.CompareAndSwap(0, gone) {
		return false
	}
	c.unlink(cell)
	return true
}

// drop lets go of a cell with what it has. Under mu.
func (c *Counter) drop(cell *cell) {
	if n := cell.count.Swap(gone); n > 0 {
		c.taken += uint64(n)
		c.table.stats.immediatesDropped.Add(uint64(n))
	}
	c.unlink(cell)
}

func (c *Counter) unlink(cell *cell) {
	delete(c.cells, cell.peer)
	if cell.before == nil {
		c.first = cell.after
	} else {
		cell.before.after = cell.after
	}
	if cell.after == nil {
		c.last = cell.before
	} else {
		cell.after.before = cell.before
	}
	cell.before, cell.after = nil, nil
	if cell.spoil != nil {
		cell.spoil = nil
		c.spoiled--
	}
	if cell.orphan {
		c.table.orphans.Add(-1)
	}
}

// counterTable has an engine's counters: those that somebody asked for, and those of immediates that came early.
//
// A worker takes its locks only when a peer sends a value for the first time and when a peer is lost.
type counterTable struct {
	limit    int // of distinct immediates: of one peer, and of all lost peers together
	stats    *counts
	progress *progress
	waits    spares[counterWait]
	closed   atomic.Bool
	losses   atomic.Uint64 // of peers: a wait that names some looks again
	orphans  atomic.Int64  // cells of lost peers

	mu    sync.Mutex
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
		c.wakeAt.Store(math.MaxUint64)
		t.byImm[imm] = c
	}
	return c
}

// add returns the cell of an immediate that a peer sends for the first time.
func (t *counterTable) add(p *Peer, imm uint32) *cell {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counter(imm)
	c.mu.Lock()
	defer c.mu.Unlock()
	made := c.cell(p)
	made.known = true
	return made
}

// sweep takes out of a path's cells those that their counters have let go of, and has counters let go of those that are empty: of
// values that nobody asked for or, if there are too many, of all.
func (t *counterTable) sweep(p *path, all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.recent = nil
	for imm, cell := range p.cells {
		c := cell.counter
		c.mu.Lock()
		if cell.count.Load() < 0 || (all || !c.claimed) && c.retire(cell) {
			delete(p.cells, imm)
		}
		t.forget(c)
		c.mu.Unlock()
	}
}

// forget removes a counter that nobody asked for and that has no cell. Under mu and the counter's.
func (t *counterTable) forget(c *Counter) {
	if c.first == nil && !c.claimed && t.byImm[c.imm] == c {
		delete(t.byImm, c.imm)
	}
}

// lost takes in that a peer is lost: waits that count on it end.
func (t *counterTable) lost() {
	t.losses.Add(1)
	t.wake()
}

// spoil has waits for what a peer sends of a value fail, unless they have enough. False says that the counter has let go of the cell.
func (t *counterTable) spoil(cell *cell, err *SpoiledError) bool {
	c := cell.counter
	c.mu.Lock()
	defer c.mu.Unlock()
	if cell.count.Load() < 0 {
		return false
	}
	if cell.spoil == nil {
		c.spoiled++
	}
	cell.spoil = err
	t.losses.Add(1)
	c.wake()
	return true
}

// forgetFrom takes away what has arrived from a peer of a value that was spoiled.
func (t *counterTable) forgetFrom(p *Peer, imm uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.byImm[imm]
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cell := c.cells[p]
	if cell == nil || cell.spoil == nil {
		return
	}
	cell.spoil = nil
	c.spoiled--
	n := cell.count.Load()
	c.take(cell, n)
	t.stats.immediatesDropped.Add(uint64(n))
	c.tidy(cell)
}

// orphan takes in that nothing comes from a peer any more: its empty cells go, and what it had sent is kept unless lost peers have
// left too much.
func (t *counterTable) orphan(p *path) {
	t.sweep(p, true)
	for _, cell := range p.cells {
		cell.counter.mu.Lock()
		if cell.count.Load() >= 0 { // or it was released since
			cell.orphan = true
			t.orphans.Add(1)
			cell.counter.tidy(cell)
		}
		cell.counter.mu.Unlock()
	}
	p.cells = nil
	if t.orphans.Load() > int64(t.limit) {
		t.dropOrphans()
	}
}

// dropOrphans forgets the immediates of all lost peers.
func (t *counterTable) dropOrphans() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.byImm {
		c.mu.Lock()
		for cell := c.first; cell != nil; {
			next := cell.after
			if cell.orphan && cell.waits == 0 {
				c.drop(cell)
			}
			cell = next
		}
		t.forget(c)
		c.mu.Unlock()
	}
}

// wake has every wait look again.
func (t *counterTable) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.byImm {
		c.wake()
	}
}

// close ends all waits.
func (t *counterTable) close() {
	t.closed.Store(true)
	t.wake()
}
