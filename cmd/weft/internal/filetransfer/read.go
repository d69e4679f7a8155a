package filetransfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"time"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
)

const (
	// leastRead is how much room a slot must have for more bytes of a file to be read into it, unless it is empty.
	leastRead = 1024
	// readAtOnce is how many bytes are hashed at once while nothing is sent.
	readAtOnce = 256 << 10
)

// send puts one file into slots, if the receiver accepts it. That it cannot be sent is in its report; an error ends the
// transfer.
func (s *sending) send(o *outgoing) error {
	accepted, err := s.verdict(o)
	if err != nil || accepted == nil {
		return err
	}
	o.hash = sha256.New()
	f, err := o.source.open()
	if err != nil {
		if err := s.startFile(o, 0); err != nil {
			return err
		}
		return s.fail(o, err)
	}
	defer f.close()
	offset, err := s.resume(o, f, accepted)
	if err != nil {
		return err
	}
	if err := s.startFile(o, offset); err != nil {
		return err
	}
	if err := s.copy(o, f); err != nil {
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		return s.fail(o, err)
	}
	st, err := s.begin(sha256.Size)
	if err != nil {
		return err
	}
	s.mu.Lock()
	o.whole, o.report.Bytes = true, f.offset
	s.mu.Unlock()
	st.add(o, recordWhole, sha256.Size)
	return nil
}

// startFile puts the beginning of a file into a slot. From then on its hash is the hasher's.
func (s *sending) startFile(o *outgoing, offset uint64) error {
	st, err := s.begin(startSize)
	if err != nil {
		return err
	}
	g := st.add(o, recordStart, startSize)
	binary.BigEndian.PutUint64(g.value, o.number)
	binary.BigEndian.PutUint64(g.value[8:], offset)
	return nil
}

// fail puts the end of a file into a slot that cannot be sent, and why.
func (s *sending) fail(o *outgoing, err error) error {
	s.mu.Lock()
	if !o.answered {
		o.failed = err
	}
	s.mu.Unlock()
	text := wire.Text(err)
	st, err := s.begin(len(text))
	if err != nil {
		return err
	}
	copy(st.value(), text)
	st.add(o, recordFailed, len(text))
	return nil
}

// copy puts the bytes of a file into slots, from where it is read to its end.
func (s *sending) copy(o *outgoing, f *sourceFile) error {
	for !o.refused.Load() {
		hole, err := f.hole()
		if err != nil {
			return err
		}
		if hole > 0 {
			st, err := s.begin(holeSize)
			if err != nil {
				return err
			}
			g := st.add(o, recordHole, holeSize)
			g.number = hole
			binary.BigEndian.PutUint64(g.value, hole)
			s.progress(o, int64(hole))
			continue
		}
		if f.slow {
			if err := s.flushSlot(); err != nil { // nothing waits for what comes when it likes
				return err
			}
		}
		n, err := s.readSlot(o, f)
		if n > 0 {
			s.progress(o, int64(n))
		}
		switch {
		case errors.Is(err, io.EOF):
			return f.unchanged()
		case err != nil:
			return err
		}
	}
	return errRefused
}

// readSlot reads once into a slot.
func (s *sending) readSlot(o *outgoing, f *sourceFile) (int, error) {
	st, err := s.begin(1)
	if err == nil && st.used > 0 && st.room() < leastRead {
		if err = s.flushSlot(); err == nil {
			st, err = s.begin(1)
		}
	}
	if err != nil {
		return 0, err
	}
	var n int
	read := func() error {
		n, err = f.read(s.ctx, st.value())
		return err
	}
	if f.slow {
		err = s.whileWorking(read)
	} else {
		err = read()
	}
	if n > 0 {
		st.add(o, recordData, n)
	}
	return n, err
}

func (s *sending) progress(o *outgoing, bytes int64) {
	if s.config.Progress != nil {
		s.config.Progress(o.source.Name, bytes)
	}
}

// errRefused ends the reading of a file that the receiver does not want any more; its answer says why.
var errRefused = errors.New("the receiver has refused it meanwhile")

// resume compares what the receiver has of the file with the file, and returns where to go on: behind it, or at the start.
func (s *sending) resume(o *outgoing, f *sourceFile, accepted *wire.Accept) (uint64, error) {
	if accepted.Have == 0 || f.slow || accepted.Have > o.source.Size {
		return 0, nil
	}
	if err := s.flushSlot(); err != nil {
		return 0, err
	}
	prefix := sha256.New()
	var n int64
	err := s.whileWorking(func() (err error) {
		n, err = copyHash(s.ctx, prefix, io.NewSectionReader(f.file, 0, int64(accepted.Have)))
		return err
	})
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	if err != nil || uint64(n) < accepted.Have || !bytes.Equal(prefix.Sum(nil), accepted.SHA256[:]) {
		return 0, nil // another file, or unreadable, which reading from the start will tell
	}
	if err := f.seek(accepted.Have); err != nil {
		return 0, nil
	}
	o.hash = prefix
	s.progress(o, n)
	return accepted.Have, nil
}

// copyHash hashes everything that can be read, until the context ends.
func copyHash(ctx context.Context, h hash.Hash, r io.Reader) (n int64, err error) {
	buffer := make([]byte, readAtOnce)
	for ctx.Err() == nil {
		m, err := r.Read(buffer)
		_, _ = h.Write(buffer[:m]) // a hash never fails
		n += int64(m)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, context.Cause(ctx)
}

// hashSegment hashes what a record brings of its file. The error is that the session has ended. A hole is one record, and to hash
// it may take longer than the other end waits.
func (s *session) hashSegment(h hash.Hash, g *segment) error {
	switch g.kind {
	case recordData:
		_, _ = h.Write(g.value) // a hash never fails
	case recordHole:
		return s.whileWorking(func() error { return s.hashZeros(h, g.number) })
	}
	return nil
}

// hashZeros hashes n zeros. The other end may have nothing to do before this one has done so: what waits for it here goes on waiting.
func (s *session) hashZeros(h hash.Hash, n uint64) error {
	for n > 0 {
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		s.alive.Store(int64(time.Since(s.began)))
		now := min(n, uint64(len(zeros)))
		_, _ = h.Write(zeros[:now]) // a hash never fails
		n -= now
	}
	return nil
}

// sum is the hash of the whole file, which it leaves in the report.
func (s *sending) sum(o *outgoing) [sha256.Size]byte {
	sum := [sha256.Size]byte(o.hash.Sum(nil))
	s.mu.Lock()
	defer s.mu.Unlock()
	o.report.SHA256 = hex.EncodeToString(sum[:])
	return sum
}

// announcement is what the receiver is told of a source.
func (s *Source) announcement() *wire.File {
	m := &wire.File{Name: s.Name, Kind: s.Kind, Size: s.Size, Mode: uint32(s.Mode.Perm()), ModTime: s.ModTime.UnixNano()}
	if s.sizeUnknown() {
		m.Size = wire.UnknownSize
	}
	return m
}
