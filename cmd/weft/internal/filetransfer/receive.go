package filetransfer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/weftrdma/weft/cmd/weft/internal/inbox"
	"github.com/weftrdma/weft/cmd/weft/internal/wire"
	"github.com/weftrdma/weft/transferengine"
)

// Folder takes files; it defends itself against their names. InboxFolder makes one.
type Folder interface {
	// Check looks whether the file could come, before any byte of it is sent. What is there of it from an interrupted
	// transfer has to be closed; nil if there is nothing.
	Check(inbox.Entry) (*inbox.Partial, error)
	// Create begins a file, or goes on with what is there of it if have is not nil.
	Create(e inbox.Entry, have *inbox.Partial) (File, error)
	// MakeFolder makes a folder, whose entries have come before.
	MakeFolder(inbox.Entry) error
}

// File takes the bytes of one file.
type File interface {
	io.Writer
	// Hole leaves a hole.
	Hole(n int64) error
	// Publish puts the whole file in its place. If it fails nothing is left of the file.
	Publish() error
	// Discard removes what was written, unless the file is published.
	Discard() error
	// Suspend keeps what was written for a later transfer, if the folder does so, and is Discard otherwise.
	Suspend() error
}

// receiving is one sender being served. One goroutine takes the slots in the order in which they were written (the taker).
// Two others at once hash and store what is in them; and when both have done so, the finisher puts whole files in place
// and gives the slot back. A fifth takes in what the sender announces.
type receiving struct {
	*session
	receiver  *Receiver
	seat      *waiter
	serving   context.Context // of the receiver
	parted    chan struct{}   // closed when the sender keeps nothing here any more
	hasParted bool

	peer            *transferengine.Peer
	window          *buffer
	slotSize, slots int
	credits         transferengine.Descriptor // of the sender
	taken           []takenSlot               // the window's slots
	current         *incoming                 // the taker's: the file that the last slot ended in
	ended           atomic.Bool               // the sender has no more
	endTaking       context.CancelFunc
	admitted        limits // bytes: under mu

	toHash, toStore, toFinish chan *takenSlot

	mu         sync.Mutex
	report     *Report
	waiting    []*incoming // announced and not answered for
	names      int         // bytes of their names
	nextNumber uint64      // of the file announced next
	nextStart  uint64      // no file before this one may come
}

// takenSlot is a slot of the window.
type takenSlot struct {
	index          int
	bytes          uint64
	copied         []byte // with a key: what was in it when it was taken
	segments       []segment
	files          []*incoming // of each segment
	hashed, stored chan struct{}
	transfer       transferengine.Transfer // by which it is given back
	given          bool                    // the transfer has begun
	idle           chan struct{}           // has an entry while no stage has the slot
}

// receiveAll receives files until the sender has no more.
func (s *receiving) receiveAll() error {
	s.taken = make([]takenSlot, s.slots)
	for i := range s.taken {
		s.taken[i] = takenSlot{index: i, hashed: make(chan struct{}, 1), stored: make(chan struct{}, 1), idle: make(chan struct{}, 1)}
		s.taken[i].idle <- struct{}{}
	}
	s.toHash, s.toStore = make(chan *takenSlot, s.slots), make(chan *takenSlot, s.slots)
	s.toFinish = make(chan *takenSlot, s.slots)
	taking, end := context.WithCancel(s.ctx)
	defer end()
	s.endTaking = end
	var stages sync.WaitGroup
	stages.Go(s.hashSlots)
	stages.Go(s.storeSlots)
	stages.Go(s.finishSlots)
	s.goroutines.Go(s.hear)
	if err := s.take(taking); err != nil {
		s.cancel(err)
	}
	close(s.toHash)
	close(s.toStore)
	close(s.toFinish)
	stages.Wait()
	if s.ctx.Err() != nil {
		return s.abandon(fail(context.Cause(s.ctx), "receive from %s", s.other()))
	}
	return nil
}

// take takes slots until the sender has said that there are no more.
func (s *receiving) take(taking context.Context) error {
	for chunk := uint64(0); ; chunk++ {
		st := &s.taken[chunk%uint64(s.slots)]
		err := s.takeSlot(taking, st)
		if err != nil && s.ended.Load() {
			return nil
		}
		if err == nil {
			err = s.read(st)
		}
		if err != nil {
			return err
		}
		for _, stage := range []chan *takenSlot{s.toHash, s.toStore, s.toFinish} {
			stage <- st // which has room for all slots
		}
	}
}

// takeSlot waits until a slot was written.
func (s *receiving) takeSlot(taking context.Context, st *takenSlot) error {
	ctx, cancel := s.patienceOf(taking)
	defer cancel()
	if err := s.receiver.Engine.Counter(uint32(st.index)).WaitFrom(ctx, 1, s.peer); err != nil {
		if s.ended.Load() {
			return err
		}
		return s.reason(err)
	}
	s.seat.progressed()
	select {
	case <-st.idle: // at once, unless the sender writes over a slot that it was not given back
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// read finds the records in a slot, and the files that they are of.
func (s *receiving) read(st *takenSlot) (err error) {
	slot := s.window.slot(st.index, s.slotSize)
	if len(s.receiver.Key) > 0 {
		// Somebody on the wire can write into the window. What is hashed must be what is stored: the window is read once.
		st.copied = append(st.copied[:0], slot...)
		slot = st.copied
	}
	st.segments, err = readRecords(st.segments[:0], slot)
	st.files, st.bytes = st.files[:0], 0
	for i := range st.segments {
		if err != nil {
			break
		}
		g := &st.segments[i]
		if g.kind == recordStart {
			if s.current != nil {
				return errors.New("it begins a file inside another one")
			}
			s.current, err = s.begin(g.number, g.offset)
		}
		if s.current == nil {
			return errors.Join(err, errors.New("it sends bytes of no file"))
		}
		st.files = append(st.files, s.current)
		switch g.kind {
		case recordData:
			st.bytes += uint64(len(g.value))
		case recordWhole, recordFailed:
			s.current = nil
		}
	}
	return err
}

// hashSlots hashes what comes.
func (s *receiving) hashSlots() {
	for st := range s.toHash {
		for i, in := range st.files {
			g := &st.segments[i]
			switch {
			case g.kind == recordStart && in.from > 0:
				in.hash = in.prefix
			case g.kind == recordStart:
				in.hash = sha256.New()
			case g.kind == recordWhole:
				in.sum = [32]byte(in.hash.Sum(nil))
			case !in.stopped.Load():
				if s.hashSegment(in.hash, g) != nil {
					return
				}
			}
		}
		st.hashed <- struct{}{}
	}
}

// storeSlots stores what comes. A file that cannot be stored is refused at once, so that the sender need not send its rest.
func (s *receiving) storeSlots() {
	for st := range s.toStore {
		for i, in := range st.files {
			var err error
			switch g := &st.segments[i]; {
			case in.stopped.Load():
			case g.kind == recordStart:
				err = s.open(in)
			case g.kind == recordData || g.kind == recordHole:
				err = s.store(in, g)
			}
			if err == nil {
				continue
			}
			if in.file != nil {
				err = errors.Join(err, in.file.Discard())
				in.file = nil
			}
			if err := errors.Join(s.answer(in, err), s.conn.Flush()); err != nil {
				s.cancel(s.reason(err))
			}
		}
		st.stored <- struct{}{}
	}
}

// finishSlots puts whole files in place, and gives back slots.
func (s *receiving) finishSlots() {
	for st := range s.toFinish {
		for _, stage := range []chan struct{}{st.hashed, st.stored} {
			select {
			case <-stage:
			case <-s.ctx.Done():
				continue // what is left is abandoned
			}
		}
		if s.ctx.Err() != nil {
			continue
		}
		if err := s.finishSlot(st); err != nil {
			s.cancel(s.reason(err))
		}
	}
}

func (s *receiving) finishSlot(st *takenSlot) error {
	for i, in := range st.files {
		g := &st.segments[i]
		if g.kind != recordWhole && g.kind != recordFailed {
			continue
		}
		var err error
		switch {
		case in.stopped.Load(): // and answered
		case g.kind == recordFailed:
			err = fmt.Errorf("the sender could not send it: %s", wire.Printable(string(g.value)))
		default:
			err = s.finish(in, g.value)
		}
		if in.file != nil {
			err = errors.Join(err, in.file.Discard()) // published ones stay
			in.file = nil
		}
		if err := s.answer(in, err); err != nil {
			return err
		}
	}
	s.report.RDMABytes += st.bytes
	return errors.Join(s.conn.Flush(), s.giveBack(st))
}

// giveBack lets the sender write the slot again.
func (s *receiving) giveBack(st *takenSlot) error {
	ctx, cancel := s.patience()
	defer cancel()
	if st.given {
		if err := st.transfer.Wait(ctx); err != nil {
			return err
		}
	}
	st.given = true
	st.idle <- struct{}{}
	return s.receiver.Engine.Write(&st.transfer, transferengine.Write{Peer: s.peer, Dest: &s.credits, Imm: creditImm, HasImm: true})
}

// abandon reports what was announced and never came, and keeps or removes the file that is under way.
func (s *receiving) abandon(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	why := "not received to the end: " + err.Error()
	for _, in := range s.waiting {
		if in.file != nil { // of a file that was answered for nothing is open
			err = errors.Join(err, in.file.Suspend())
		}
		if !in.answered {
			in.report.Error, in.report.CutOff = why, true
		}
		s.report.add(in.report)
	}
	s.waiting = nil
	return err
}
