package transferengine

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
)

// spinUntil returns when the condition holds, which another goroutine brings about.
func spinUntil(what string, holds func() bool) {
	for end := time.Now().Add(rdmatest.Deadline(20 * time.Second)); !holds(); runtime.Gosched() {
		if time.Now().After(end) {
			panic("not in time: " + what)
		}
	}
}

// OpenUndriven opens an engine whose turns the test does.
func OpenUndriven(config Config) (*Engine, error) { return open(config) }

// TurnUndriven does one turn of an engine that nobody drives.
func (e *Engine) TurnUndriven(now time.Time) (did int, next time.Time) { return e.worker.Turn(now) }

// StartConnect queues a Connect; the result is nil until it has ended.
func (e *Engine) StartConnect(address Address) (ended func() (*Peer, bool, error), err error) {
	return e.startMeeting(address, false)
}

// StartExpect queues an Expect.
func (e *Engine) StartExpect(address Address) (ended func() (*Peer, bool, error), err error) {
	return e.startMeeting(address, true)
}

func (e *Engine) startMeeting(address Address, expect bool) (ended func() (*Peer, bool, error), err error) {
	call, err := e.startConnect(context.Background(), address, expect)
	return func() (*Peer, bool, error) {
		if !call.done.Load() {
			return nil, false, nil
		}
		return call.peer, true, call.err
	}, err
}

// Finished tells whether the transfer is done, without doing any work.
func (t *Transfer) Finished() bool { return t.state.Load() == finished }

// Drive makes the caller the driver, until it leaves.
func (e *Engine) Drive() (leave func()) {
	if !e.progress.take() {
		panic("somebody drives")
	}
	return e.progress.leave
}

// TurnHeld does a turn of an engine that the caller drives.
func (e *Engine) TurnHeld() { e.progress.turn(e.progress.epoch.Add(e.progress.clock())) }

// AwaitSleep returns when the back-up goroutine relies on being woken.
func (e *Engine) AwaitSleep() {
	spinUntil("the back-up goroutine sleeps", e.progress.asleep.Load)
}

// AwaitWaiters returns when n goroutines sleep until they may drive.
func (e *Engine) AwaitWaiters(n int32) {
	spinUntil("goroutines wait", func() bool { return e.progress.hot.length.Load() >= n })
}

// Claimed is how many counters the engine keeps.
func (e *Engine) Claimed() int {
	e.counters.mu.Lock()
	defer e.counters.mu.Unlock()
	return len(e.counters.byImm)
}

// Cells is how many values of a peer's immediates its path remembers.
func (e *Engine) Cells(p *Peer) int { return len(p.path.cells) }

// Arrive has an immediate of a peer arrive at an engine that nobody drives, and Sweep sweeps the peer's cells.
func (e *Engine) Arrive(p *Peer, imm uint32) { e.worker.arrived(p.path.id, imm) }
func (e *Engine) Sweep(p *Peer)              { e.counters.sweep(p.path, true) }

// StartedWait is a wait that looks when it is told to.
type StartedWait struct {
	*counterWait
	looked int
}

// StartWait begins one.
func (c *Counter) StartWait(n uint64, from ...*Peer) *StartedWait {
	return &StartedWait{counterWait: c.newWait(n, from)}
}

// Met looks, if it is worth it.
func (w *StartedWait) Met() bool {
	if w.due() {
		w.looked += len(w.short)
	}
	met, _ := w.met()
	return met
}

// Looked is how many counts of peers Met has looked at, but for those of the last look.
func (w *StartedWait) Looked() int { return w.looked }

// Awaited tells whether a goroutine waits that was not woken.
func (c *Counter) Awaited() bool { return c.waiters.head.Load() != nil }

// Layout is a request without an engine.
type Layout struct {
	Length, MaxLength         uint64
	LocalPages, RemotePages   []uint32
	LocalStride, RemoteStride uint64
	Shards                    uint64
	HasImm, Ordered           bool
}

// Writes lays out a request in batches, of which accept says how many writes are accepted; phases are the writes that may
// be posted before, and after, the others completed.
func (l Layout) Writes(batch int, accept func(n int) int) (phases [][]rail.Op) {
	p := plan{shards: l.Shards, maxLength: l.MaxLength, hasImm: l.HasImm, ordered: l.Ordered, imm: 7}
	if l.LocalPages == nil {
		p.cutBytes(l.Length)
	} else {
		p.localStride, p.remoteStride = l.LocalStride, l.RemoteStride
		p.cutPages(l.LocalPages, l.RemotePages, l.Length)
	}
	writes := make([]rail.Op, batch)
	var c cursor
	immediates := uint64(0)
	for {
		var phase []rail.Op
		for !p.exhausted(c) {
			n, after := p.fill(c, writes, 0)
			if took := accept(n); took < n {
				_, after = p.fill(c, writes[:took], 0)
				n = took
			}
			phase = append(phase, writes[:n]...)
			for _, w := range writes[:n] {
				if w.HasImm {
					immediates++
				}
			}
			if c = after; l.HasImm && p.immediates(c) != immediates {
				panic(fmt.Sprintf("%d immediates before %+v of %+v, not %d", p.immediates(c), c, p, immediates))
			}
		}
		phases = append(phases, phase)
		if !p.held(c) {
			return phases
		}
		c = cursor{finals: true}
	}
}

// SpinsFor is how long a driver that finds nothing goes on before it sleeps.
func (e *Engine) SpinsFor() time.Duration { return e.progress.patience.get() }

// Closed tells whether requests that use the region are refused.
func (r *Region) Closed() bool { return r.uses.Load() < 0 }

// SetGenerations makes it so often that each slot was used.
func (e *Engine) SetGenerations(generation uint32) {
	for _, s := range e.worker.slots {
		s.generation = generation
	}
}

// StartForget queues a Forget.
func (e *Engine) StartForget(c *Counter, p *Peer) (ended func() (bool, error), err error) {
	call := &forgetCall{counter: c, peer: p}
	return call.met, e.forget(call)
}

// Messages are the engine's messages in the wire format, by the names of their golden files.
func Messages() map[string][]byte {
	failed := message{kind: messageFailed, sequence: 3, imm: 7, attempt: 2, failed: [3]uint64{4, 3, 1}}
	forget := message{kind: messageForget, imm: 7, attempt: 2}
	return map[string][]byte{"message-failed.golden": failed.append(nil), "message-forget.golden": forget.append(nil)}
}

// ParseMessage reads one and writes it again.
func ParseMessage(data []byte) ([]byte, error) {
	m, err := parseMessage(data)
	return m.append(nil), err
}
