package filetransfer

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
	"github.com/weftrdma/weft/transferengine"
)

// Sender says how to send files.
type Sender struct {
	// Engine carries the bytes. Send leaves it shut down, and without regions; its owner closes it.
	Engine *transferengine.Engine
	// Timeouts bound how long the receiver is waited for.
	Timeouts Timeouts
	// Key is the key that the receiver has too, of at least [wire.MinKey] bytes; empty for none.
	Key []byte
	// Redial makes another connection to the receiver, which has closed one before it has answered: under a flood of connections
	// those of honest senders give way too. Nil is never.
	Redial func(context.Context) (net.Conn, error)
	// Waiting is told this sender's place in line while all seats of the receiver are taken; nil for nobody.
	Waiting func(place int)
	// Progress is told each time bytes of a file were read, or were found to be there, and Finished what became of each file;
	// nil for neither. They may be called by several goroutines, one at a time.
	Progress func(file string, bytes int64)
	Finished func(FileReport)
}

// Send sends the files to the receiver at the other end of the connection, and closes it. Files that cannot be sent, or that
// the receiver refuses, are in the report alone, and the others go on; an error ended the transfer and names the receiver.
// The report is valid in any case, and has the files in their order.
func (c Sender) Send(ctx context.Context, conn net.Conn, files []Source) (report Report, err error) {
	s := &sending{session: newSession(ctx, conn, c.Timeouts.withDefaults()), config: c, files: files, report: &report,
		changed: make(chan struct{}, 1)}
	report.begin(s.other(), files)
	defer s.close() // after the writes in flight have ended: the receiver keeps its window until then
	err = s.greet()
	if err != nil {
		err = fail(err, "connect to %s", s.other())
	} else {
		start := time.Now()
		err = s.sendAll()
		report.Seconds = time.Since(start).Seconds()
	}
	if err != nil {
		s.giveUp(err)
	}
	if stopErr := s.stop(); err == nil {
		err = stopErr
	}
	report.end(err)
	report.RDMABytes = c.Engine.Stats().Bytes
	report.ControlBytes = s.conn.Bytes()
	return report, err
}

// sending is a Send at work. One goroutine fills slots of the stage with the files' bytes (the filler), one hashes them, one
// writes them into the receiver's window, and one waits until the receiver has given them back; then they are filled again,
// always in the same order. A fifth takes in the receiver's answers.
type sending struct {
	*session
	config Sender

	peer            *transferengine.Peer
	credits         *buffer // the receiver's writes without bytes go here
	window          transferengine.Descriptor
	slotSize, slots int
	stage           *buffer // what was read and is being written

	// The filler's.
	files     []Source
	announced int         // so many of files
	unsent    []*outgoing // announced
	slot      *stageSlot  // begun, nil if none is

	free, filled, hashed, written chan *stageSlot

	changed chan struct{} // there was news of the receiver
	mu      sync.Mutex
	queue   queue
	report  *Report
}

// stageSlots is how many slots are read ahead.
func (s *sending) stageSlots() int { return min(s.slots, max(stageBytes/s.slotSize, 2)) }

// stageSlot is a slot of the stage.
type stageSlot struct {
	slotWriter
	index    int
	segments []stageSegment
	transfer transferengine.Transfer
}

// stageSegment is a record of a file, for the hasher.
type stageSegment struct {
	segment
	file *outgoing
}

// sendAll sends the files, and waits until the receiver has taken leave.
func (s *sending) sendAll() error {
	slots := s.stageSlots()
	for _, stage := range []*chan *stageSlot{&s.free, &s.filled, &s.hashed, &s.written} {
		*stage = make(chan *stageSlot, slots)
	}
	for i := range slots {
		s.free <- &stageSlot{index: i, slotWriter: slotWriter{memory: s.stage.slot(i, s.slotSize)}}
	}
	var stages sync.WaitGroup
	stages.Go(s.hashSlots)
	stages.Go(s.writeSlots)
	stages.Go(s.reuseSlots)
	s.goroutines.Go(s.listenToAnswers)
	err := s.fill()
	if err != nil {
		s.cancel(err)
	}
	close(s.filled)
	stages.Wait()
	if s.ctx.Err() != nil {
		return fail(context.Cause(s.ctx), "send to %s", s.other())
	}
	if err := s.conn.Send(&wire.End{}); err != nil {
		return fail(s.reason(err), "take leave of %s", s.other())
	}
	select {
	case <-s.deaf:
	case <-time.After(s.timeouts.Handshake): // every file was answered for
	}
	return nil
}

// fill fills slots with all files, and waits until they are answered for.
func (s *sending) fill() error {
	for {
		o, err := s.next()
		if err == nil && o == nil {
			return s.await(func() bool { return len(s.queue.files) == 0 })
		}
		if err == nil {
			err = s.send(o)
		}
		if err != nil {
			return err
		}
	}
}

// begin returns a slot with room for a value of at least n bytes.
func (s *sending) begin(n int) (*stageSlot, error) {
	if s.slot != nil && s.slot.room() < n {
		if err := s.flushSlot(); err != nil {
			return nil, err
		}
	}
	if s.slot == nil {
		select {
		case s.slot = <-s.free:
		case <-s.ctx.Done():
			return nil, context.Cause(s.ctx)
		}
		s.slot.used, s.slot.segments = 0, s.slot.segments[:0]
	}
	return s.slot, nil
}

// add makes the first n bytes of a slot's value a record of the file, and returns it.
func (st *stageSlot) add(o *outgoing, kind recordKind, n int) *segment {
	st.segments = append(st.segments, stageSegment{segment{kind: kind, value: st.slotWriter.add(kind, n)}, o})
	return &st.segments[len(st.segments)-1].segment
}

// flushSlot sends the slot that has begun on its way.
func (s *sending) flushSlot() error {
	if s.slot == nil || s.slot.used == 0 {
		return nil
	}
	s.filled <- s.slot // which has room for all
	s.slot = nil
	return nil
}

// hashSlots hashes what is in the slots, and writes the hashes into the records that end files.
func (s *sending) hashSlots() {
	defer close(s.hashed)
	for st := range s.filled {
		for i := range st.segments {
			g := &st.segments[i]
			if err := s.hashSegment(g.file.hash, &g.segment); err != nil {
				break // the session has ended
			}
			if g.kind == recordWhole {
				sealed := s.conn.Seal(g.file.number, s.sum(g.file))
				copy(g.value, sealed[:])
			}
		}
		s.hashed <- st
	}
}

// writeSlots writes slots into the receiver's window. No more are under way than it has, since the stage has no more.
func (s *sending) writeSlots() {
	defer close(s.written)
	slot := 0
	for st := range s.hashed {
		if s.ctx.Err() != nil {
			continue // until the hasher has ended
		}
		err := s.config.Engine.Write(&st.transfer, transferengine.Write{
			Peer: s.peer, Source: s.stage.region, SourceOffset: uint64(st.index * s.slotSize), Length: uint64(st.finish()),
			Dest: &s.window, DestOffset: uint64(slot * s.slotSize), Imm: uint32(slot), HasImm: true,
		})
		if err != nil {
			s.cancel(s.reason(err))
			continue
		}
		slot = (slot + 1) % s.slots
		s.written <- st
	}
}

// reuseSlots lets slots be filled again that the receiver has given back.
func (s *sending) reuseSlots() {
	for st := range s.written {
		if s.ctx.Err() != nil {
			continue
		}
		ctx, cancel := s.patience()
		err := s.config.Engine.Counter(creditImm).WaitFrom(ctx, 1, s.peer)
		if err == nil {
			err = st.transfer.Wait(ctx)
		}
		cancel()
		if err != nil {
			s.cancel(s.reason(err))
		}
		s.free <- st
	}
}

// stop shuts the engine down, which ends the writes in flight, and frees the memory.
func (s *sending) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	err := s.config.Engine.Shutdown(ctx)
	for _, b := range []*buffer{s.stage, s.credits} {
		if b != nil {
			err = errors.Join(err, b.close())
		}
	}
	return err
}
