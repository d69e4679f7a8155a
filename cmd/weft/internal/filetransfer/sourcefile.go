package filetransfer

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
)

// sourceFile is a source being read. Of a folder there is nothing to read.
type sourceFile struct {
	source *Source
	file   *os.File
	before state
	slow   bool   // reads may take as long as they like
	offset uint64 // of the next byte
	stream *stream

	sparse  bool   // it has holes
	dataEnd uint64 // where the bytes at offset end, and a hole begins
}

// state is what changes of a file when somebody writes to it.
type state struct {
	size             int64
	modified, status int64 // in ns: when its bytes were changed, and when anything was, which nobody can set
}

// open opens the source, which must be as it was listed.
func (s *Source) open() (*sourceFile, error) {
	switch {
	case s.Stream != nil:
		return &sourceFile{source: s, slow: true, stream: newStream(s.Stream)}, nil
	case s.Kind == wire.Folder:
		return &sourceFile{source: s}, nil
	}
	file, err := os.OpenFile(s.Path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, plain(err)
	}
	f := &sourceFile{source: s, file: file}
	info, err := file.Stat()
	switch {
	case err != nil:
		err = plain(err)
	case !info.Mode().IsRegular() || uint64(info.Size()) != s.Size || s.Size > 0 && !info.ModTime().Equal(s.ModTime):
		err = fmt.Errorf("it changed since it was listed: send it again")
	default:
		f.before, f.sparse = stateOf(info), isSparse(info)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return f, nil
}

func (f *sourceFile) close() {
	if f.file != nil {
		_ = f.file.Close() // nothing was written
	}
}

// seek goes on at an offset.
func (f *sourceFile) seek(offset uint64) error {
	_, err := f.file.Seek(int64(offset), io.SeekStart)
	if err == nil {
		f.offset, f.dataEnd = offset, min(f.dataEnd, offset)
	}
	return err
}

// hole is how many zeros come next that are not stored, and goes on behind them.
func (f *sourceFile) hole() (uint64, error) {
	if !f.sparse || f.offset < f.dataEnd {
		return 0, nil
	}
	data, end, err := nextData(f.file, int64(f.offset), f.before.size)
	if err != nil { // the file system does not know
		f.sparse = false
		return 0, plain(f.seek(f.offset))
	}
	n := uint64(data) - f.offset
	f.offset, f.dataEnd = uint64(data), uint64(end)
	if f.offset >= uint64(f.before.size) {
		f.sparse = false // only the end is left
	}
	return n, nil
}

// read reads the next bytes. The error is io.EOF at the end.
func (f *sourceFile) read(ctx context.Context, b []byte) (n int, err error) {
	switch {
	case f.stream != nil:
		n, err = f.stream.read(ctx, b)
	case f.file == nil:
		return 0, io.EOF
	default:
		if f.sparse {
			b = b[:min(uint64(len(b)), f.dataEnd-f.offset)]
		}
		n, err = f.file.Read(b)
	}
	f.offset += uint64(n)
	return n, plain(err)
}

// unchanged looks whether the file that was read to its end is still what it was when it was opened. A file whose bytes
// changed meanwhile may have arrived half old and half new.
func (f *sourceFile) unchanged() error {
	if f.file == nil {
		return nil
	}
	info, err := f.file.Stat()
	if err != nil {
		return plain(err)
	}
	after := stateOf(info)
	switch {
	case after.size != f.before.size:
		return fmt.Errorf("it changed while it was sent, from %d to %d bytes: send it again", f.before.size, after.size)
	case after != f.before:
		return fmt.Errorf("it changed while it was sent: send it again")
	}
	return nil
}

// stream reads a file that may block for ever, such as a pipe, beside its reader, who can so be interrupted.
type stream struct {
	file  *os.File
	ready chan []byte
	done  chan []byte
	err   error // once ready is closed
	rest  []byte
	whole []byte // which rest is the end of
}

func newStream(f *os.File) *stream {
	s := &stream{file: f, ready: make(chan []byte), done: make(chan []byte, 2)}
	s.done <- make([]byte, readAtOnce)
	s.done <- make([]byte, readAtOnce)
	go s.run() // until the end of the file, or of the process
	return s
}

func (s *stream) run() {
	defer close(s.ready)
	for b := range s.done {
		n, err := s.file.Read(b[:cap(b)])
		if n > 0 {
			s.ready <- b[:n]
		}
		if err != nil {
			s.err = err
			return
		}
	}
}

func (s *stream) read(ctx context.Context, b []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.whole != nil {
			s.done <- s.whole
			s.whole = nil
		}
		select {
		case got, ok := <-s.ready:
			if !ok {
				return 0, s.err
			}
			s.whole, s.rest = got, got
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
