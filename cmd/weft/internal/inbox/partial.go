package inbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

const (
	// partialPrefix begins the name of what is there of a file whose transfer was interrupted.
	partialPrefix = reserved + "part-"
	// leastPartial is how many bytes are worth being kept.
	leastPartial = 1 << 20
)

// Partial is what is there of a file whose transfer was interrupted. It has to be read to its end, compared with the file,
// and closed.
type Partial struct {
	Size int64 // bytes
	file *os.File
	info fs.FileInfo
}

// Read reads what is there.
func (p *Partial) Read(b []byte) (int, error) { return p.file.Read(b) }

// Close closes it. It stays where it is.
func (p *Partial) Close() error { return p.file.Close() }

// key names what is there of a file: one of another size or time is another file.
func (e *Entry) key() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %s", e.Size, e.ModTime.UnixNano(), e.Name))
	return hex.EncodeToString(sum[:16])
}

// partial looks for what is there of a file in its folder; nil if there is nothing.
func (b *Inbox) partial(folder *os.Root, e *Entry) *Partial {
	if !b.config.Resume || e.Size < leastPartial || e.Size > 1<<63-1 {
		return nil
	}
	name := partialPrefix + e.key()
	there, err := folder.Lstat(name)
	if err != nil || !there.Mode().IsRegular() || there.Size() == 0 || uint64(there.Size()) > e.Size {
		return nil
	}
	file, err := folder.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	info, err := file.Stat()
	if err != nil || !os.SameFile(info, there) {
		_ = file.Close()
		return nil
	}
	return &Partial{Size: info.Size(), file: file, info: info}
}

// goOn makes what is there the file under way. It must be what was compared.
func (f *File) goOn(e *Entry, have *Partial) (err error) {
	name := partialPrefix + e.key()
	if err := f.folder.Rename(name, f.temporary); err != nil {
		return fmt.Errorf("what was there of it is gone: send it again: %w", cause(err))
	}
	if f.file, err = f.folder.OpenFile(f.temporary, os.O_WRONLY|syscall.O_NONBLOCK, 0); err != nil {
		return errors.Join(cause(err), cause(f.folder.Rename(f.temporary, name)))
	}
	info, err := f.file.Stat()
	if err == nil && (!os.SameFile(info, have.info) || info.Size() != have.Size || !info.ModTime().Equal(have.info.ModTime())) {
		err = errors.New("what was there of it has changed: send it again")
	}
	if err == nil {
		f.offset, err = f.file.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return errors.Join(cause(err), f.file.Close(), cause(f.folder.Remove(f.temporary)))
	}
	return nil
}

// Suspend closes a file whose transfer was interrupted. An inbox that resumes keeps what is there of it; any other removes
// it.
func (f *File) Suspend() error {
	if f.temporary == "" || f.key == "" || f.offset < leastPartial {
		return f.Discard()
	}
	err := f.endHole()
	if closeErr := cause(f.file.Close()); err == nil {
		err = closeErr
	}
	if err == nil {
		err = cause(f.folder.Rename(f.temporary, partialPrefix+f.key))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keep what is there of %q: %w", f.shown, err), f.Discard())
	}
	return f.leave()
}
