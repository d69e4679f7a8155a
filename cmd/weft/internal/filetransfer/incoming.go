package filetransfer

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/weftrdma/weft/cmd/weft/internal/inbox"
	"github.com/weftrdma/weft/cmd/weft/internal/wire"
)

// incoming is a file that was announced.
type incoming struct {
	number uint64
	entry  inbox.Entry
	from   uint64 // its first byte that comes

	file    File        // the storer's, and then the finisher's
	hash    hash.Hash   // the hasher's
	sum     [32]byte    // likewise, once the file is whole
	offset  uint64      // the storer's: of the next byte
	stopped atomic.Bool // it was answered with a refusal: the rest is passed over

	// Under the receiving's mu.
	report   FileReport
	answered bool
	accepted bool // it may come; have and prefix stay as they are from then on

	have   *inbox.Partial // what is there of it
	prefix hash.Hash      // of what is there
}

// limits are what one sender may leave.
type limits struct {
	files int
	bytes uint64
}

// hear takes in what the sender says until the session ends.
func (s *receiving) hear() {
	// The first one is due at once: a seat is not for somebody who says nothing.
	m, err := s.receive(s.timeouts.Handshake)
	if err == nil {
		err = s.heard(m)
	}
	if err != nil {
		s.cancel(err)
		return
	}
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
	}
}

// heard takes in a message, and answers for as many as have come before it sends the answers.
func (s *receiving) heard(m wire.Message) error {
	for {
		switch m := m.(type) {
		case *wire.File:
			if err := s.announced(m); err != nil {
				return err
			}
		case *wire.End:
			s.mu.Lock()
			waiting := len(s.waiting)
			s.mu.Unlock()
			if waiting > 0 {
				return fmt.Errorf("it said that it was done, and owes %d files", waiting)
			}
			s.ended.Store(true)
			s.endTaking()
			return nil
		default:
			return fmt.Errorf("it sent %q where %q was due", wire.NameOf(m), "file")
		}
		select {
		case m = <-s.messages:
		default:
			return s.conn.Flush()
		}
	}
}

// announced decides whether a file may come.
func (s *receiving) announced(m *wire.File) error {
	in := &incoming{entry: inbox.Entry{Name: m.Name, Folder: m.Kind == wire.Folder, Size: m.Size, Mode: fs.FileMode(m.Mode),
		ModTime: time.Unix(0, m.ModTime)}}
	in.report = FileReport{Name: m.Name, Folder: in.entry.Folder}
	if m.Size != wire.UnknownSize {
		in.report.Bytes = m.Size
	}
	if err := s.push(in); err != nil {
		return err
	}
	var have *inbox.Partial
	err := s.allow(in)
	if err == nil {
		have, err = s.receiver.Folder.Check(in.entry)
	}
	if err != nil {
		return s.answer(in, err)
	}
	accept := &wire.Accept{Number: in.number}
	prefix, err := s.hashPartial(have, accept)
	if err != nil {
		return err
	}
	if prefix == nil {
		have = nil
	}
	s.mu.Lock()
	in.have, in.prefix, in.accepted = have, prefix, true
	s.mu.Unlock()
	return s.conn.Queue(accept)
}

// push numbers a file, and lets it wait for its bytes.
func (s *receiving) push(in *incoming) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names += len(in.entry.Name)
	if len(s.waiting) >= maxAhead || len(s.waiting) > 0 && s.names > maxAheadNames {
		return fmt.Errorf("it announces more than %d files ahead, or more than %d bytes of names", maxAhead, maxAheadNames)
	}
	in.number = s.nextNumber
	s.nextNumber++
	s.waiting = append(s.waiting, in)
	return nil
}

// allow holds a file against what one sender may leave here.
func (s *receiving) allow(in *incoming) error {
	if max := s.receiver.MaxFiles; max > 0 && s.admitted.files >= max {
		return fmt.Errorf("%d files are all that one sender may leave here", max)
	}
	if in.entry.Size != wire.UnknownSize {
		if err := s.allowBytes(in.entry.Size); err != nil {
			return err
		}
	}
	s.admitted.files++
	return nil
}

// allowBytes counts bytes of a file.
func (s *receiving) allowBytes(n uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if max := s.receiver.MaxBytes; max > 0 && (n > max || s.admitted.bytes > max-n) {
		return fmt.Errorf("with it the files would have more than %d bytes, which is all that one sender may leave here", max)
	}
	s.admitted.bytes += n
	return nil
}

// hashPartial hashes what is there of a file, and says so in the message; the hash is nil if nothing is there. What cannot be
// read is as if it was not there.
func (s *receiving) hashPartial(have *inbox.Partial, accept *wire.Accept) (prefix hash.Hash, err error) {
	if have == nil {
		return nil, nil
	}
	defer have.Close()
	if err := s.conn.Flush(); err != nil {
		return nil, err
	}
	prefix = sha256.New()
	var n int64
	err = s.whileWorking(func() (err error) {
		n, err = copyHash(s.ctx, prefix, have)
		return err
	})
	if s.ctx.Err() != nil {
		return nil, context.Cause(s.ctx)
	}
	if err != nil || n != have.Size {
		return nil, nil
	}
	accept.Have, accept.SHA256 = uint64(n), [32]byte(prefix.Sum(nil))
	return prefix, nil
}

// answer answers for a file, once: it is in place, or why not.
func (s *receiving) answer(in *incoming, err error) error {
	s.mu.Lock()
	if in.answered {
		s.mu.Unlock()
		return nil
	}
	in.answered = true
	m := &wire.Answer{Number: in.number}
	if err != nil {
		in.stopped.Store(true)
		in.report.Error, in.report.SHA256, m.Refusal = err.Error(), "", wire.Text(err)
	}
	for len(s.waiting) > 0 && s.waiting[0].answered {
		done := s.waiting[0]
		s.names -= len(done.entry.Name)
		s.waiting = s.waiting[1:]
		s.report.add(done.report)
		if s.receiver.Received != nil {
			s.receiver.Received(s.other(), done.report)
		}
	}
	s.mu.Unlock()
	return s.conn.Queue(m)
}

// begin finds the file of a number. Files come in their order; those that were refused do not.
func (s *receiving) begin(number, offset uint64) (*incoming, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.nextNumber - uint64(len(s.waiting))
	if number < first || number >= s.nextNumber || number < s.nextStart {
		return nil, fmt.Errorf("it sends file %d, which is not awaited", number)
	}
	in := s.waiting[number-first]
	switch stopped := in.stopped.Load(); {
	case in.answered && !stopped:
		return nil, fmt.Errorf("it sends file %d again", number)
	case !in.accepted && !stopped:
		return nil, fmt.Errorf("it sends file %d before that was accepted", number)
	}
	if offset != 0 && (in.have == nil || offset != uint64(in.have.Size)) {
		return nil, fmt.Errorf("it sends file %d from byte %d on, which nobody asked for", number, offset)
	}
	s.nextStart = number + 1
	in.from, in.offset = offset, offset
	return in, nil
}

// open makes the file, or goes on with what is there of it.
func (s *receiving) open(in *incoming) error {
	have := in.have
	if in.from == 0 {
		have = nil
	}
	if in.entry.Folder {
		return nil
	}
	var err error
	in.file, err = s.receiver.Folder.Create(in.entry, have)
	return err
}

// store writes the next bytes of a file.
func (s *receiving) store(in *incoming, g *segment) error {
	n := uint64(len(g.value))
	if g.kind == recordHole {
		n = g.number
	}
	switch {
	case in.entry.Folder:
		return errors.New("a folder came with bytes")
	case n > wire.MaxSize-in.offset:
		return fmt.Errorf("it has more than %d bytes", uint64(wire.MaxSize))
	case in.entry.Size == wire.UnknownSize:
		if err := s.allowBytes(n); err != nil {
			return err
		}
	case n > in.entry.Size-min(in.offset, in.entry.Size):
		return fmt.Errorf("it has more bytes than the %d that were announced", in.entry.Size)
	}
	in.offset += n
	s.progress(in, int64(n))
	if g.kind == recordHole {
		return in.file.Hole(int64(n))
	}
	_, err := in.file.Write(g.value)
	return err
}

// finish puts a whole file in place, unless its hash is another one than the sender's.
func (s *receiving) finish(in *incoming, sealed []byte) error {
	own := s.conn.Seal(in.number, in.sum)
	if !hmac.Equal(own[:], sealed) {
		return fmt.Errorf("what arrived is not what was sent: its SHA-256 is %x (memory, or a NIC, is at fault; send it again)", in.sum)
	}
	s.mu.Lock()
	in.report.Bytes, in.report.SHA256 = in.offset, hex.EncodeToString(in.sum[:])
	s.mu.Unlock()
	if in.entry.Folder {
		return s.receiver.Folder.MakeFolder(in.entry)
	}
	return in.file.Publish()
}

func (s *receiving) progress(in *incoming, bytes int64) {
	if s.receiver.Progress != nil {
		s.receiver.Progress(s.other(), in.entry.Name, in.entry.Size, bytes)
	}
}
