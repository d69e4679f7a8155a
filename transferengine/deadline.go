package transferengine

import (
	"fmt"
	"math"
	"time"
)

// watch ends the transfers whose deadline has passed, and returns how many.
func (w *worker) watch() (ended int) {
	if w.due != 0 && w.nano >= w.due {
		return w.expire()
	}
	return 0
}

// deadlineOf is when a transfer that begins now is to be over. A limit that reaches beyond the clock's range is none.
func (w *worker) deadlineOf(t *Transfer) int64 {
	if limit := int64(t.timeout); limit < math.MaxInt64-w.nano {
		return w.nano + limit
	}
	return math.MaxInt64
}

// dueBy has the deadlines looked at no later than one of them. That of a transfer that ended in time stays, so that those of
// many short ones are not reckoned again and again.
func (w *worker) dueBy(deadline int64) {
	if w.due == 0 || deadline < w.due {
		w.due, w.dueAt = deadline, w.now.Add(time.Duration(deadline-w.nano))
	}
}

// orDue is when the worker must be called again: at the next deadline, or before.
func (w *worker) orDue(next time.Time) time.Time {
	if w.due == 0 || w.underWay() == 0 || !next.IsZero() && next.Before(w.dueAt) {
		return next
	}
	return w.dueAt
}

// expire ends the transfers whose deadline has passed. Operations that the rail still has can only be had back by giving up
// their peer.
func (w *worker) expire() (ended int) {
	w.due = 0
	for _, s := range w.slots {
		switch {
		case s.transfer == nil || s.err != nil && s.outstanding > 0: // the latter ends with its operations
		case s.deadline <= w.nano:
			w.stats.deadlinesMissed.Add(1)
			w.miss(s)
			ended++
		default:
			w.dueBy(s.deadline)
		}
	}
	return ended
}

// miss ends a transfer that missed its deadline, now or with the peer.
func (w *worker) miss(s *slot) {
	p := s.path
	s.err = &deadlineError{timeout: s.transfer.timeout, waited: s.waits()}
	if s.outstanding == 0 {
		w.unqueue(s)
		w.finish(s)
		return
	}
	if p.reason == nil {
		p.reason = fmt.Errorf("this engine gave up the peer, because a %s missed its deadline: %w", s.transfer.op, s.err)
		w.rail.Disconnect(w.now, p.id)
	}
}

// waits says what a transfer waits for.
func (s *slot) waits() string {
	switch {
	case s.outstanding > 0:
		return fmt.Sprintf("%d operations were not acknowledged", s.outstanding)
	case s.path.blocked:
		return "the peer or the NIC accepted no more"
	}
	return "it waited behind other transfers to this peer"
}

// unqueue takes a slot out of its path's queue.
func (w *worker) unqueue(s *slot) {
	p := s.path
	var before *slot
	for q := p.first; q != nil; before, q = q, q.next {
		if q != s {
			continue
		}
		if before == nil {
			p.first = s.next
		} else {
			before.next = s.next
		}
		if p.last == s {
			p.last = before
		}
		break
	}
	s.queued, s.next = false, nil
}
