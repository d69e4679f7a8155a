package filetransfer

import (
	"context"
	"fmt"
	"hash"
	"sync/atomic"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
)

const (
	// maxAhead is how many files may be announced and not yet answered for, and maxAheadNames how many bytes their names may
	// have together: enough that small files never wait for an answer, and no more than a receiver can be made to keep.
	maxAhead      = 1024
	maxAheadNames = 256 << 10
)

// outgoing is a file on its way.
type outgoing struct {
	source *Source
	number uint64
	report *FileReport

	// Under the sending's mu.
	accepted *wire.Accept
	answered bool
	whole    bool  // its last record is in a slot
	failed   error // at this end: what the receiver answers then is not worth a word

	refused atomic.Bool // answered with a refusal, perhaps in the middle
	hash    hash.Hash   // belongs to whoever fills slots until the file's start is in one, and then to the hasher
}

// queue has the files that were announced and not yet answered for, in the order of their numbers.
type queue struct {
	files []*outgoing
	next  uint64 // number of the file announced next
	names int    // bytes of their names
}

// room tells whether one more file may be announced.
func (q *queue) room(name string) bool {
	return len(q.files) == 0 || len(q.files) < maxAhead && q.names+len(name) <= maxAheadNames
}

func (q *queue) push(o *outgoing) {
	o.number = q.next
	q.next++
	q.files = append(q.files, o)
	q.names += len(o.source.Name)
}

// find returns the file of a number, nil if none is waiting.
func (q *queue) find(number uint64) *outgoing {
	first := q.next - uint64(len(q.files))
	if number < first || number >= q.next {
		return nil
	}
	return q.files[number-first]
}

// popAnswered takes the files off the front that are answered for.
func (q *queue) popAnswered() (done []*outgoing) {
	for len(q.files) > 0 && q.files[0].answered {
		done = append(done, q.files[0])
		q.names -= len(q.files[0].source.Name)
		q.files = q.files[1:]
	}
	return done
}

// announce tells the receiver of as many files as may be ahead. Files that cannot be sent are reported and left out.
func (s *sending) announce() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; s.announced < len(s.files); s.announced++ {
		o := &outgoing{source: &s.files[s.announced], report: &s.report.Files[s.announced]}
		if o.source.Err != nil {
			o.failed = o.source.Err
			s.finished(o)
			continue
		}
		if !s.queue.room(o.source.Name) {
			break
		}
		s.queue.push(o)
		s.unsent = append(s.unsent, o)
		if err := s.conn.Queue(o.source.announcement()); err != nil {
			return err
		}
	}
	return s.conn.Flush()
}

// next is the file to be sent next, nil after the last one.
func (s *sending) next() (*outgoing, error) {
	if len(s.unsent) < maxAhead/2 { // not for each file a message of its own
		if err := s.announce(); err != nil {
			return nil, s.reason(err)
		}
	}
	if len(s.unsent) == 0 && s.announced < len(s.files) {
		// As many as may be are sent, and none is answered for.
		if err := s.await(func() bool { return len(s.queue.files) < maxAhead/2 || len(s.unsent) > 0 }); err != nil {
			return nil, err
		}
	}
	if len(s.unsent) == 0 {
		return nil, nil
	}
	o := s.unsent[0]
	s.unsent = s.unsent[1:]
	return o, nil
}

// listenToAnswers takes in what the receiver says of the files until the session ends.
func (s *sending) listenToAnswers() {
	for {
		select {
		case m := <-s.messages:
			if err := s.heard(m); err != nil {
				s.cancel(err)
				return
			}
		case <-s.ctx.Done():
			return
		}
		select {
		case s.changed <- struct{}{}:
		default: // there is news already
		}
	}
}

// heard takes in an Accept or Answer.
func (s *sending) heard(m wire.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m := m.(type) {
	case *wire.Accept:
		o := s.queue.find(m.Number)
		if o == nil || o.accepted != nil || o.answered {
			return fmt.Errorf("it accepts file %d, which is not the one that waits", m.Number)
		}
		o.accepted = m
	case *wire.Answer:
		o := s.queue.find(m.Number)
		if o == nil || o.answered || m.Refusal == "" && !o.whole {
			return fmt.Errorf("it answers for file %d, which it was not sent", m.Number)
		}
		o.answered = true
		if m.Refusal != "" {
			o.report.Error = wire.Printable(m.Refusal)
		}
		o.refused.Store(m.Refusal != "")
		for _, o := range s.queue.popAnswered() {
			s.finished(o)
		}
	default:
		return fmt.Errorf("it sent %q where %q was due", wire.NameOf(m), "answer")
	}
	return nil
}

// finished reports a file that is answered for. Under mu.
func (s *sending) finished(o *outgoing) {
	o.report.done = true
	if o.failed != nil {
		o.report.Error = o.failed.Error()
	}
	if s.config.Finished != nil {
		s.config.Finished(*o.report)
	}
}

// verdict waits until the receiver has accepted a file, or answered for it.
func (s *sending) verdict(o *outgoing) (*wire.Accept, error) {
	decided := func() bool { return o.accepted != nil || o.answered }
	if err := s.await(decided); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.answered {
		return nil, nil
	}
	return o.accepted, nil
}

// await waits until what is looked at under mu is so. Nothing that the receiver needs for it may be held back: slots that
// have begun are sent first.
func (s *sending) await(so func() bool) error {
	met := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return so()
	}
	if met() {
		return nil
	}
	if err := s.flushSlot(); err != nil {
		return err
	}
	for {
		if err := s.announce(); err != nil {
			return s.reason(err)
		}
		if met() {
			return nil
		}
		ctx, cancel := s.patience()
		select {
		case <-s.changed:
		case <-ctx.Done():
			cancel()
			return context.Cause(ctx)
		}
		cancel()
	}
}
