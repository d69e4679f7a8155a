package filetransfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
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
	// Waiting is told this sender's place in line while all seats of the receiver are taken; nil for nobody.
	Waiting func(place int)
	// Progress is told each time bytes were handed to the engine, and Finished what became of each file; nil for neither.
	Progress func(bytes int)
	Finished func(FileReport)
}

// Send sends the files to the receiver at the other end of the connection, and closes it. Files that the receiver refuses
// are in the report alone, and the others go on; an error ended the transfer and names the receiver and the file. The
// report is valid in any case.
func (c Sender) Send(ctx context.Context, conn net.Conn, files []Source) (report Report, err error) {
	s := &sending{session: newSession(ctx, conn, c.Timeouts.withDefaults()), config: c}
	report.Peer = s.other()
	defer s.close() // after the writes in flight have ended: the receiver keeps its window until then
	err = s.greet()
	if err != nil {
		err = fail(err, "greet %s", s.other())
	} else {
		start := time.Now()
		err = s.sendAll(files, &report)
		report.Seconds = time.Since(start).Seconds()
	}
	if err != nil {
		s.giveUp(err)
	}
	if stopErr := s.stop(); err == nil {
		err = stopErr
	}
	report.RDMABytes = c.Engine.Stats().Bytes
	report.ControlBytes = s.conn.Bytes()
	return report, err
}

// sending is a Send at work.
type sending struct {
	*session
	config Sender

	peer            *transferengine.Peer
	credits         *buffer // the receiver's writes without bytes go here
	window          transferengine.Descriptor
	slotSize, slots int
	stage           *buffer // what was read and is being written
	transfers       []transferengine.Transfer

	chunk   uint64 // the next one's number
	allowed uint64 // chunks below this one have a free slot
}

// sendAll sends the files, and waits until the receiver has taken leave.
func (s *sending) sendAll(files []Source, report *Report) error {
	for i := range files {
		done := FileReport{Name: files[i].Name, Bytes: files[i].Size}
		err := s.send(&files[i], &done)
		if err != nil {
			err = fail(err, "send %q to %s", files[i].Name, s.other())
			done.Error = err.Error()
		}
		report.Files = append(report.Files, done)
		if s.config.Finished != nil {
			s.config.Finished(done)
		}
		if err != nil {
			return err
		}
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

// send sends one file. That the receiver refused it is in done.
func (s *sending) send(file *Source, done *FileReport) error {
	f, err := file.open()
	if err != nil {
		return err
	}
	defer f.Close()
	refusal, err := s.ask(&wire.File{Name: file.Name, Size: file.Size, Mode: uint32(file.Mode.Perm())})
	if err != nil || refusal != "" {
		done.Error = refusal
		return err
	}
	hash := sha256.New()
	for offset := uint64(0); offset < file.Size; {
		n := chunkSize(file.Size, offset, s.slotSize)
		if err := s.write(f, n, hash); err != nil {
			return err
		}
		offset += uint64(n)
	}
	digest := [sha256.Size]byte(hash.Sum(nil))
	done.SHA256 = hex.EncodeToString(digest[:])
	done.Error, err = s.ask(&wire.Digest{SHA256: digest})
	return err
}

// ask sends a message that the receiver answers.
func (s *sending) ask(m wire.Message) (refusal string, err error) {
	if err := s.conn.Send(m); err != nil {
		return "", s.reason(err)
	}
	answer, err := expect[*wire.Answer](s.session, s.timeouts.Idle)
	if err != nil {
		return "", err
	}
	return wire.Printable(answer.Refusal), nil
}

// write reads the next n bytes and writes them to the next slot.
func (s *sending) write(f io.Reader, n int, hash io.Writer) error {
	ctx, cancel := s.patience()
	defer cancel()
	stage := int(s.chunk % uint64(len(s.transfers)))
	t := &s.transfers[stage]
	if s.chunk >= uint64(len(s.transfers)) {
		if err := t.Wait(ctx); err != nil {
			return s.reason(err)
		}
	}
	bytes := s.stage.slot(stage, s.slotSize)[:n]
	if _, err := io.ReadFull(f, bytes); err != nil {
		return fmt.Errorf("read it, which became shorter or unreadable: %w", err)
	}
	_, _ = hash.Write(bytes) // a hash never fails
	if s.chunk == s.allowed {
		if err := s.config.Engine.Counter(creditImm).Wait(ctx, 1, s.peer); err != nil {
			return s.reason(err)
		}
		s.allowed++
	}
	slot := s.chunk % uint64(s.slots)
	err := s.config.Engine.Write(t, transferengine.Write{
		Peer: s.peer, Source: s.stage.region, SourceOffset: uint64(stage * s.slotSize),
		Dest: &s.window, DestOffset: slot * uint64(s.slotSize), Length: uint64(n), Imm: uint32(slot), HasImm: true,
	})
	if err != nil {
		return s.reason(err)
	}
	s.chunk++
	if s.config.Progress != nil {
		s.config.Progress(n)
	}
	return nil
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
