package filetransfer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
	"github.com/weftrdma/weft/transferengine"
)

// File takes the bytes of one file.
type File interface {
	io.Writer
	// Publish puts the whole file in its place. If it fails nothing is left of the file.
	Publish() error
	// Discard removes what was written, unless the file is published.
	Discard() error
}

// receiving is one sender being served.
type receiving struct {
	*session
	receiver *Receiver

	peer            *transferengine.Peer
	window          *buffer
	slotSize, slots int
	credits         transferengine.Descriptor // of the sender
	transfers       []transferengine.Transfer // by which slots were given back
	chunk           uint64                    // the next one's number
	report          *Report
}

// receiveAll receives files until the sender has no more.
func (s *receiving) receiveAll() error {
	for {
		m, err := s.receive(s.timeouts.Idle)
		if err != nil {
			return fail(err, "wait for a file of %s", s.other())
		}
		switch m := m.(type) {
		case *wire.End:
			return nil
		case *wire.File:
			done := FileReport{Name: m.Name, Bytes: m.Size}
			err := s.file(m, &done)
			if err != nil {
				err = fail(err, "receive %q from %s", m.Name, s.other())
				done.Error = err.Error()
			}
			s.report.Files = append(s.report.Files, done)
			if s.receiver.Received != nil {
				s.receiver.Received(s.other(), done)
			}
			if err != nil {
				return err
			}
		default:
			return fail(fmt.Errorf("it sent %q where \"file\" was due", wire.Kind(m)), "wait for a file of %s", s.other())
		}
	}
}

// file receives one file. That it was refused is in done, and the sender knows; an error ends the transfer.
func (s *receiving) file(m *wire.File, done *FileReport) (err error) {
	f, err := s.receiver.Create(m.Name, fs.FileMode(m.Mode))
	if err != nil {
		return s.refuse(done, err)
	}
	defer func() { err = errors.Join(err, f.Discard()) }() // published ones stay
	if err := s.conn.Send(new(wire.Answer)); err != nil {
		return s.reason(err)
	}
	hash := sha256.New()
	for offset := uint64(0); offset < m.Size; {
		n := chunkSize(m.Size, offset, s.slotSize)
		if err := s.take(n, f, hash); err != nil {
			return err
		}
		offset += uint64(n)
	}
	return s.finish(f, hash, done)
}

// take takes the next chunk out of its slot, and gives the slot back.
func (s *receiving) take(n int, f io.Writer, hash io.Writer) error {
	ctx, cancel := s.patience()
	defer cancel()
	slot := int(s.chunk % uint64(s.slots))
	if err := s.receiver.Engine.Counter(uint32(slot)).Wait(ctx, 1, s.peer); err != nil {
		return s.reason(err)
	}
	bytes := s.window.slot(slot, s.slotSize)[:n]
	_, _ = hash.Write(bytes) // a hash never fails
	if _, err := f.Write(bytes); err != nil {
		return err
	}
	s.report.RDMABytes += uint64(n)
	t := &s.transfers[slot]
	if s.chunk >= uint64(s.slots) {
		if err := t.Wait(ctx); err != nil {
			return s.reason(err)
		}
	}
	s.chunk++
	err := s.receiver.Engine.Write(t, transferengine.Write{Peer: s.peer, Dest: &s.credits, Imm: creditImm, HasImm: true})
	if err != nil {
		return s.reason(err)
	}
	return nil
}

// finish compares the hashes and puts the file in its place.
func (s *receiving) finish(f File, hash hash.Hash, done *FileReport) error {
	digest, err := expect[*wire.Digest](s.session, s.timeouts.Idle)
	if err != nil {
		return err
	}
	sum := hash.Sum(nil)
	done.SHA256 = hex.EncodeToString(sum)
	if !bytes.Equal(sum, digest.SHA256[:]) {
		return s.refuse(done, fmt.Errorf("what arrived has the SHA-256 %x, what was sent %x", sum, digest.SHA256))
	}
	if err := f.Publish(); err != nil {
		return s.refuse(done, err)
	}
	return s.conn.Send(new(wire.Answer))
}

// refuse tells the sender that a file will not be in its place, and goes on.
func (s *receiving) refuse(done *FileReport, err error) error {
	done.Error = err.Error()
	if err := s.conn.Send(&wire.Answer{Refusal: wire.Text(err)}); err != nil {
		return s.reason(err)
	}
	return nil
}
