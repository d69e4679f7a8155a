package transferengine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weftrdma/weft/transferengine/rail"
)

// A request that fails leaves whoever waits for its immediates with fewer than it waits for, and a repetition would leave it with
// more. So the sender says what has become of them, and both ends keep the value apart until the receiver has forgotten it:
//
//  1. A request fails. The sender tells the target (messageFailed), whose WaitFrom fails, and refuses the value to that peer from
//     then on.
//  2. Counter.Forget at the target asks (messageForget) for word that nothing of the value comes any more. The sender gives it
//     (messageSettled) once none of it is under way. What was acknowledged has been counted when the word comes: a rail's messages do
//     not overtake that.
//  3. The target forgets what came, and says so (messageCleared). The sender takes the value again, and says so (messageLifted):
//     Forget returns.
//
// What the sender knows nothing of, since its write ended with an error, may come at any time while the connection lives: then it is
// the end of the connection that Forget waits for.

// ErrSpoiled is the error of a request with an immediate of which an earlier request to the peer has failed, until the receiver's
// [Counter.Forget]; and, as a [*SpoiledError], of a wait at the receiver.
var ErrSpoiled = errors.New("immediate is spoiled")

// SpoiledError says what has become of the immediates of a value that a peer has sent, or meant to, in requests that failed.
type SpoiledError struct {
	Peer *Peer
	Imm  uint32
	// Acknowledged have arrived. NeverPosted were not sent. Of Unknown it is not known whether they arrived, or will.
	Acknowledged, NeverPosted, Unknown uint64
}

// Error says how many immediates will not come, and what to do.
func (e *SpoiledError) Error() string {
	return fmt.Sprintf("a request of %v with immediate %d has failed: of its immediates %d were acknowledged, %d never sent, and %d may "+
		"have arrived: call Counter.Forget before it is repeated", e.Peer, e.Imm, e.Acknowledged, e.NeverPosted, e.Unknown)
}

// Unwrap returns [ErrSpoiled].
func (e *SpoiledError) Unwrap() error { return ErrSpoiled }

// failure is what the sender of immediates knows of a value whose request failed.
type failure struct {
	imm     uint32
	attempt uint64
	counts  [3]uint64
	wanted  bool // the receiver has asked to forget it
	settled bool // and was told that nothing comes any more
}

const (
	countAcknowledged = iota
	countNever
	countUnknown
)

// spoil is what the receiver of immediates knows of it.
type spoil struct {
	attempt uint64
	err     *SpoiledError
	calls   []*forgetCall
	asked   bool // the sender
	cleared bool // what came is forgotten
}

// spoiledValues are the values that a peer cannot be sent, for those who make requests.
type spoiledValues struct {
	n   atomic.Int64
	mu  sync.Mutex
	set map[uint32]struct{}
}

func (s *spoiledValues) add(imm uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil {
		s.set = make(map[uint32]struct{})
	}
	s.set[imm] = struct{}{}
	s.n.Store(int64(len(s.set)))
}

func (s *spoiledValues) remove(imm uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.set, imm)
	s.n.Store(int64(len(s.set)))
}

func (s *spoiledValues) has(imm uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, has := s.set[imm]
	return has
}

// refuses tells why a plan cannot go to the peer now.
func (p *Peer) refuses(pl *plan) error {
	if p.spoiled.n.Load() == 0 || !pl.hasImm || !p.spoiled.has(pl.imm) {
		return nil
	}
	return fmt.Errorf("an earlier request with immediate %d has failed, and the peer has not forgotten it: its Counter.Forget has to be "+
		"called first: %w", pl.imm, ErrSpoiled)
}

// spoilBy takes account of a request with immediates that failed while its peer is connected.
func (w *worker) spoilBy(s *slot) {
	p, imm := s.path, s.plan.imm
	f := p.failures[imm]
	if f == nil {
		if len(p.failures) >= w.counters.limit {
			w.giveUpFor(p, "requests with more than %d distinct immediates to it have failed that it has not forgotten", w.counters.limit)
			return
		}
		w.attempts++
		f = &failure{imm: imm, attempt: w.attempts}
		if p.failures == nil {
			p.failures = make(map[uint32]*failure)
		}
		p.failures[imm] = f
		p.peer.spoiled.add(imm)
	}
	posted := s.plan.immediates(s.cursor)
	f.counts[countAcknowledged] += s.acknowledged
	f.counts[countNever] += s.plan.shards - posted
	f.counts[countUnknown] += posted - s.acknowledged
	w.say(p, message{kind: messageFailed, imm: imm, attempt: f.attempt, failed: f.counts})
}

// settleFailure tells the receiver who wants to forget a value that nothing of it comes any more, once that is so.
func (w *worker) settleFailure(p *path, imm uint32) {
	f := p.failures[imm]
	if f == nil || !f.wanted || f.settled || f.counts[countUnknown] > 0 {
		return
	}
	for _, s := range w.slots {
		if s.path == p && s.transfer != nil && s.plan.hasImm && s.plan.imm == imm {
			return
		}
	}
	f.settled = true
	w.say(p, message{kind: messageSettled, imm: imm, attempt: f.attempt})
}

// say sends a message to a peer, in a later turn if there is no room.
func (w *worker) say(p *path, m message) {
	if p.lost || p.reason != nil {
		return
	}
	m.sequence = p.said
	p.said++
	if p.mail = append(p.mail, m.append(nil)); len(p.mail) == 1 {
		w.mailing = append(w.mailing, p)
	}
	w.deliver()
}

// deliver hands the rail what waits of messages, as far as there is room.
func (w *worker) deliver() {
	w.mailing = slices.DeleteFunc(w.mailing, func(p *path) bool {
		for len(p.mail) > 0 {
			sent, err := w.rail.Send(p.id, p.mail[0])
			if err != nil { // it is lost
				p.mail = nil
				break
			}
			if !sent {
				return false
			}
			p.mail = p.mail[1:]
		}
		return true
	})
}

// heardOf takes a message of a peer. One that is none, or of a kind that this version does not know, is counted.
func (w *worker) heardOf(id rail.PeerID, data []byte) {
	p := w.paths[id]
	m, err := parseMessage(data)
	if err != nil || p == nil || p.peer == nil {
		w.stats.stray.Add(1)
		return
	}
	if m.sequence != p.heard {
		if m.sequence < p.heard || len(p.early) >= w.counters.limit {
			w.stats.stray.Add(1)
			return
		}
		if p.early == nil {
			p.early = make(map[uint64]message)
		}
		p.early[m.sequence] = m
		return
	}
	for ok := true; ok; m, ok = p.early[p.heard] {
		delete(p.early, p.heard)
		p.heard++
		w.obey(p, m)
	}
}

// obey does what a message says.
func (w *worker) obey(p *path, m message) {
	f, s := p.failures[m.imm], p.spoils[m.imm]
	ours, theirs := f != nil && f.attempt == m.attempt, s != nil && s.attempt == m.attempt
	switch {
	case m.kind == messageFailed:
		w.spoiled(p, m)
	case m.kind == messageForget && ours:
		f.wanted = true
		w.settleFailure(p, m.imm)
	case m.kind == messageSettled && theirs && s.asked:
		w.counters.forgetFrom(p.peer, m.imm)
		s.cleared = true
		w.say(p, message{kind: messageCleared, imm: m.imm, attempt: m.attempt})
	case m.kind == messageCleared && ours && f.settled:
		delete(p.failures, m.imm)
		p.peer.spoiled.remove(m.imm)
		w.say(p, message{kind: messageLifted, imm: m.imm, attempt: m.attempt})
	case m.kind == messageLifted && theirs && s.cleared:
		delete(p.spoils, m.imm)
		s.finish()
	default:
		w.stats.stray.Add(1)
	}
}

// spoiled takes in that a peer's immediates of a value will not all come.
func (w *worker) spoiled(p *path, m message) {
	s := p.spoils[m.imm]
	if s == nil || s.attempt != m.attempt {
		if len(p.spoils) >= w.counters.limit {
			w.giveUpFor(p, "it says of more than %d distinct immediates that they failed", w.counters.limit)
			return
		}
		s = &spoil{attempt: m.attempt}
		if p.spoils == nil {
			p.spoils = make(map[uint32]*spoil)
		}
		p.spoils[m.imm] = s
	}
	s.err = &SpoiledError{Peer: p.peer, Imm: m.imm, Acknowledged: m.failed[countAcknowledged],
		NeverPosted: m.failed[countNever], Unknown: m.failed[countUnknown]}
	for c := p.cells[m.imm]; c == nil || !w.counters.spoil(c, s.err); {
		if c = w.newCell(p, m.imm); c == nil {
			return // the peer is given up
		}
	}
}

// forget begins a Forget.
func (w *worker) forget(call *forgetCall) {
	p, imm := call.peer.path, call.counter.imm
	if w.paths[p.id] != p { // nothing comes from it any more
		w.counters.forgetFrom(call.peer, imm)
		call.finish()
		return
	}
	s := p.spoils[imm]
	if s == nil {
		call.finish()
		return
	}
	s.calls = append(s.calls, call)
	if !s.asked {
		s.asked = true
		w.say(p, message{kind: messageForget, imm: imm, attempt: s.attempt})
	}
}

// endSpoils ends what a peer that is down had to do with failed immediates.
func (w *worker) endSpoils(p *path) {
	for _, imm := range slices.Sorted(maps.Keys(p.spoils)) {
		s := p.spoils[imm]
		if s.asked && !s.cleared {
			w.counters.forgetFrom(p.peer, imm)
		}
		s.finish()
	}
	p.spoils, p.failures, p.early, p.mail = nil, nil, nil, nil
	w.mailing = slices.DeleteFunc(w.mailing, func(q *path) bool { return q == p })
}

// finish ends the Forgets of a value.
func (s *spoil) finish() {
	for _, c := range s.calls {
		c.finish()
	}
	s.calls = nil
}

// forgetCall is a Forget on its way through the worker.
type forgetCall struct {
	counter *Counter
	peer    *Peer
	waiters waitlist
	done    atomic.Bool
}

// met tells whether the value is forgotten.
func (c *forgetCall) met() (bool, error) { return c.done.Load(), nil }

// forget hands the worker a forget call.
func (e *Engine) forget(call *forgetCall) error {
	if err := e.requests.Enter(); err != nil {
		return err
	}
	defer e.requests.Exit()
	return e.submit(submission{forget: call}, false)
}

func (c *forgetCall) finish() {
	c.done.Store(true)
	c.waiters.wake()
}

// Forget takes away what has arrived of a value that a peer's failed request has spoiled, and lets the peer send the value again. It
// waits until nothing of that request can arrive any more: until the peer has no such request under way or, where it does not know
// what became of some, its connection has ended; and until the peer has heard of it. If nothing is spoiled it does nothing.
//
// If the context ends first, the error wraps its error; what was begun goes on.
func (c *Counter) Forget(ctx context.Context, peer *Peer) error {
	if err := c.checkWait(0, []*Peer{peer}); err != nil {
		return err
	}
	call := &forgetCall{counter: c, peer: peer}
	err := peer.engine.forget(call)
	if err == nil {
		_, err = c.table.progress.await(ctx, &call.waiters, call)
	}
	if err != nil {
		return fmt.Errorf("counter %d: forget what %v sent: %w", c.imm, peer, err)
	}
	return nil
}
