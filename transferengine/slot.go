package transferengine

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/weftrdma/weft/transferengine/rail"
)

// slot has what the worker knows of a transfer to one peer that it has under way, or of what the rail has left of one.
type slot struct {
	index        uint32
	generation   uint32    // of the slot's use, modulo 2^32: what a completion that a rail repeats is told apart by
	transfer     *Transfer // nil once it has ended
	region       *Region   // of a transfer that has ended, whose operations may use it
	plan         *plan     // one of the transfer's
	target       int       // of a scatter
	path         *path
	cursor       cursor
	deadline     int64  // in nanoseconds, as worker.nano
	outstanding  uint64 // operations that the rail has
	acknowledged uint64 // immediates
	posted       bool   // any operation was
	queued       bool   // in the path's queue
	next         *slot  // there
	err          error  // of the first operation that failed: no more are posted
}

// run is the part of a batch that is one transfer's.
type run struct {
	slot  *slot
	n     int    // operations
	after cursor // once all of them are accepted
}

// slotBlock is how many slots are made together.
const slotBlock = 64

// takeSlot returns a free slot. There are as many as were needed at once: what may be under way is bounded for each peer.
func (w *worker) takeSlot() *slot {
	if len(w.free) == 0 {
		block, first := make([]slot, slotBlock), uint32(len(w.slots))
		for i := range block {
			block[i].index = first + uint32(i)
			w.slots = append(w.slots, &block[i])
			w.free = append(w.free, first+slotBlock-1-uint32(i)) // the lowest comes first
		}
	}
	s := w.slots[w.free[len(w.free)-1]]
	w.free = w.free[:len(w.free)-1]
	return s
}

// immToken is set in the token of an operation with an immediate. No slot has so high an index.
const immToken = 1 << 31

// token identifies a use of a slot in a rail's events.
func (s *slot) token() uint64 { return uint64(s.generation)<<32 | uint64(s.index) }

// enqueue puts a slot at the end of its path's queue.
func (w *worker) enqueue(s *slot) {
	p := s.path
	s.queued, s.next = true, nil
	if p.first == nil {
		p.first = s
	} else {
		p.last.next = s
	}
	p.last = s
	if !p.ready {
		p.ready = true
		w.ready = append(w.ready, p)
	}
}

// post posts one batch to every path that has something to post. Whoever came first in one turn comes last in the next,
// since the rail's credit may not suffice for all.
func (w *worker) post() (did int) {
	if n := len(w.ready); n > 1 {
		first := w.ready[0]
		copy(w.ready, w.ready[1:])
		w.ready[n-1] = first
	}
	for i := 0; i < len(w.ready); {
		p := w.ready[i]
		did += w.postTo(p)
		if p.first != nil {
			i++
			continue
		}
		p.ready, p.blocked = false, false
		last := len(w.ready) - 1
		w.ready[i], w.ready[last] = w.ready[last], nil
		w.ready = w.ready[:last]
	}
	return did
}

// postTo posts one batch, of as many transfers as fit in.
func (w *worker) postTo(p *path) (did int) {
	n := w.gather(p)
	accepted := 0
	var err error
	if n > 0 {
		accepted, err = w.rail.Post(p.id, w.batch[:n])
		w.account(w.batch[:accepted])
		if errors.Is(err, rail.ErrNotUp) {
			err = nil // PeerLost is to come, and has the cause
		}
	}
	p.blocked = err == nil && accepted < n
	if p.blocked {
		w.stats.backPressure.Add(1)
	}
	if err != nil {
		w.stats.errors.Add(1)
		did++
	}
	w.accept(p, accepted, err)
	w.settle(p)
	return did + accepted
}

// gather fills the batch from a path's queue.
func (w *worker) gather(p *path) (n int) {
	w.runs = w.runs[:0]
	for s := p.first; s != nil && n < len(w.batch); s = s.next {
		if s.err != nil {
			continue
		}
		k, after := s.plan.fill(s.cursor, w.batch[n:], s.token())
		w.runs = append(w.runs, run{slot: s, n: k, after: after})
		n += k
	}
	return n
}

// accept notes that the rail accepted so many operations of the batch, and what it said about the one after them.
func (w *worker) accept(p *path, accepted int, err error) {
	w.outstanding += accepted
	for i := range w.runs {
		r := &w.runs[i]
		took := min(accepted, r.n)
		accepted -= took
		r.slot.outstanding += uint64(took)
		r.slot.posted = r.slot.posted || took > 0
		if took == r.n {
			r.slot.cursor = r.after
			continue
		}
		_, r.slot.cursor = r.slot.plan.fill(r.slot.cursor, w.batch[:took], 0)
		r.slot.err = err
		return
	}
}

// settle takes transfers that have nothing to post off the front of a path's queue.
func (w *worker) settle(p *path) {
	for s := p.first; s != nil && (s.err != nil || s.plan.exhausted(s.cursor)); s = p.first {
		p.first = s.next
		s.queued, s.next = false, nil
		w.advance(s)
	}
}

// advance does what comes next for a transfer once all that it had to post has completed.
func (w *worker) advance(s *slot) {
	switch {
	case s.queued || s.outstanding > 0:
	case s.err == nil && s.plan.held(s.cursor):
		s.cursor = cursor{finals: true}
		w.enqueue(s)
	default:
		w.finish(s)
	}
}

// completed takes in the completion of an operation.
func (w *worker) completed(token uint64, err error) {
	imm := token&immToken != 0
	token &^= immToken
	index := uint32(token)
	if index >= uint32(len(w.slots)) {
		w.stats.stray.Add(1)
		return
	}
	s := w.slots[index]
	if s.token() != token || s.outstanding == 0 {
		w.stats.stray.Add(1)
		return
	}
	s.outstanding--
	w.outstanding--
	if s.transfer == nil {
		if s.outstanding == 0 {
			w.letGo(s)
		}
		return
	}
	if imm && err == nil {
		s.acknowledged++
	}
	if s.err == nil {
		s.err = w.because(s.path, err)
	}
	w.advance(s)
}

// because adds the cause to the error of an operation on a path that Peer.Close or Engine.Close gave up: the rail says only that it came
// back.
func (w *worker) because(p *path, err error) error {
	switch {
	case err == nil:
	case w.closing:
		return fmt.Errorf("%w (%w)", closedError{}, err)
	case errors.Is(p.reason, net.ErrClosed):
		return fmt.Errorf("%w (%w)", p.reason, err)
	}
	return err
}

// finish ends what a transfer had to do with one peer, and frees its slot, unless the rail has operations of it: these keep the slot,
// and their memory.
func (w *worker) finish(s *slot) {
	t, p, peer, target := s.transfer, s.path, s.path.peer, s.target
	hasImm, imm := s.plan.hasImm, s.plan.imm
	var err *TransferError
	if s.err != nil {
		outcome := NotDelivered
		if s.posted {
			outcome = MaybeDelivered
		}
		err = w.transferError(t, peer, outcome, s.err)
		err.InFlight = s.outstanding > 0
		if hasImm && !p.lost && !w.closing {
			w.spoilBy(s)
		}
	}
	if s.outstanding == 0 {
		w.freeSlot(s)
	} else {
		w.hold(s)
	}
	if hasImm && len(p.failures) > 0 {
		w.settleFailure(p, imm)
	}
	t.targetDone(peer, target, err)
}

// hold has a slot outlive its transfer.
func (w *worker) hold(s *slot) {
	w.held++
	s.region = s.transfer.region
	s.transfer, s.plan, s.queued, s.next = nil, nil, false, nil
	if s.region != nil {
		s.region.keep()
	}
}

// letGo frees a slot that has outlived its transfer.
func (w *worker) letGo(s *slot) {
	w.held--
	if s.region != nil {
		s.region.letGo()
	}
	w.freeSlot(s)
}

func (w *worker) freeSlot(s *slot) {
	*s = slot{index: s.index, generation: s.generation + 1}
	w.free = append(w.free, s.index)
}

// failAll ends all transfers to a peer that is lost.
func (w *worker) failAll(p *path, err error) {
	p.first, p.last = nil, nil
	for _, s := range w.slots {
		if s.path != p || s.transfer == nil {
			continue
		}
		if s.err == nil {
			s.err = err
		}
		w.finish(s)
	}
}

// comeBack takes it that the rail has no operation of a path any more, as it has promised, or was closed.
func (w *worker) comeBack(p *path) {
	for _, s := range w.slots {
		if s.path != p {
			continue
		}
		w.outstanding -= int(s.outstanding)
		s.outstanding = 0
		if s.transfer == nil {
			w.letGo(s)
		}
	}
}

// account counts operations that the rail accepted.
func (w *worker) account(ops []rail.Op) {
	var bytes, immediates uint64
	for i := range ops {
		bytes += ops[i].Length
		if ops[i].HasImm {
			immediates++
		}
	}
	addTo(&w.stats.operations, uint64(len(ops)))
	addTo(&w.stats.bytes, bytes)
	addTo(&w.stats.immediatesSent, immediates)
}

// addTo adds what is not zero: an atomic addition costs as much as all else in here.
func addTo(total *atomic.Uint64, n uint64) {
	if n > 0 {
		total.Add(n)
	}
}
