// Package inbox writes files whose names come from somebody who may mean harm into one folder.
//
// An [os.Root] keeps names from leaving the folder, but it follows links that stay inside, and its Rename replaces what is
// there. So every element of a name is looked at with Lstat, and a link is refused wherever it stands; each folder on the
// way is opened and compared with what Lstat saw, so that it cannot be exchanged in between. The bytes go into a file of a
// random name in the same folder that nobody else can have made (O_EXCL), and the whole file gets its name by a hard link,
// which fails if the name exists. Only an inbox that was opened to replace files renames.
//
// All names that an inbox makes up begin with ".weft-", and names from elsewhere may not. A process that is killed leaves files
// under way; the next inbox on the folder removes them (owner.go), or goes on with them (partial.go).
package inbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Config says how an inbox treats what is there.
type Config struct {
	// Replace lets files that exist be replaced; otherwise they are refused.
	Replace bool
	// Resume keeps what is there of files whose transfers are interrupted, and goes on with it.
	Resume bool
}

// Entry is a file or folder that is to come.
type Entry struct {
	Name    string // relative to the inbox, elements separated by slashes
	Folder  bool
	Size    uint64      // bytes; more than 1<<63-1 if it is not known
	Mode    fs.FileMode // permission bits alone, from which the process's umask is taken as usual
	ModTime time.Time
}

// Inbox is a folder that takes files. Its methods may be called by several goroutines.
type Inbox struct {
	root   *os.Root
	config Config

	mu    sync.Mutex
	owner *owner              // nil until a file comes
	made  map[string]struct{} // folders that were made here and not finished
}

// Open opens an inbox on an existing folder, and removes what others have left there that were killed.
func Open(dir string, config Config) (*Inbox, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	b := &Inbox{root: root, config: config, made: make(map[string]struct{})}
	b.clean()
	return b, nil
}

// Close closes the inbox. There must be no files under way.
func (b *Inbox) Close() (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owner != nil {
		err = b.owner.close(b.root)
	}
	return errors.Join(err, b.root.Close())
}

// own returns the owner of files under way.
func (b *Inbox) own() (_ *owner, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owner == nil {
		b.owner, err = newOwner(b.root)
	}
	return b.owner, err
}

// File is a file under way. It has a random name until it is published.
type File struct {
	owner     *owner
	in        string   // the owner's name of the folder
	folder    *os.Root // which has the file
	file      *os.File
	name      string // in the folder, once published
	temporary string // in the folder, until then; empty once neither is there
	shown     string // for errors
	replace   bool
	modTime   time.Time
	mode      fs.FileMode
	key       string // under which it can be gone on with, empty if it cannot
	offset    int64  // of the next byte
	hole      bool   // which comes behind a hole
}

// Check looks whether an entry could come: its name, and what stands there. It makes nothing. If something is there of the
// file from a transfer that was interrupted it returns that.
func (b *Inbox) Check(e Entry) (*Partial, error) {
	elements, err := split(e.Name)
	if err != nil {
		return nil, refused(err)
	}
	folder, err := b.descend(elements[:len(elements)-1], false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it will be made
	}
	if err != nil {
		return nil, refused(err)
	}
	defer folder.Close()
	f := File{folder: folder, name: elements[len(elements)-1], replace: b.config.Replace}
	if e.Folder {
		return nil, refused(f.checkFolder())
	}
	if err := f.checkPlace(); err != nil {
		return nil, refused(err)
	}
	return b.partial(folder, &e), nil
}

// refused says that it is the name that something is wrong with.
func refused(err error) error {
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return fmt.Errorf("its name is refused: %w", err)
}

// Create begins a file, or goes on with what is there of it. Folders that do not exist are made. Errors wrap fs.ErrExist
// when there is such a file.
//
// The file must be published, suspended or discarded.
func (b *Inbox) Create(e Entry, have *Partial) (*File, error) {
	elements, err := split(e.Name)
	if err != nil {
		return nil, refused(err)
	}
	f := &File{shown: e.Name, replace: b.config.Replace, modTime: e.ModTime, mode: e.Mode}
	parents, last := elements[:len(elements)-1], elements[len(elements)-1]
	if f.folder, err = b.descend(parents, true); err != nil {
		return nil, refused(err)
	}
	f.name = last
	if b.config.Resume && e.Size <= 1<<63-1 {
		f.key = e.key()
	}
	f.in = strings.Join(parents, "/")
	if err = b.begin(f, &e, have); err != nil {
		_ = f.leave()
		return nil, err
	}
	return f, nil
}

// leave says that the file is not under way any more.
func (f *File) leave() error {
	if f.temporary != "" {
		f.owner.leave(f.in)
	}
	f.temporary = ""
	return f.folder.Close()
}

// MakeFolder makes a folder that is not there, and gives one that was made for its entries its mode and time.
func (b *Inbox) MakeFolder(e Entry) error {
	elements, err := split(e.Name)
	if err != nil {
		return refused(err)
	}
	folder, err := b.descend(elements, true)
	if err != nil {
		return refused(err)
	}
	defer folder.Close()
	b.mu.Lock()
	_, made := b.made[e.Name]
	delete(b.made, e.Name)
	b.mu.Unlock()
	if !made {
		return nil // it was there before
	}
	info, err := folder.Stat(".")
	if err == nil {
		err = folder.Chmod(".", info.Mode().Perm()&e.Mode)
	}
	if err == nil {
		err = folder.Chtimes(".", time.Time{}, e.ModTime)
	}
	return cause(err)
}

// descend opens the folder that the elements lead to, and makes those that are missing if that is asked for.
func (b *Inbox) descend(elements []string, make bool) (*os.Root, error) {
	folder, err := b.root.OpenRoot(".")
	for i := 0; err == nil && i < len(elements); i++ {
		above := folder
		if make {
			err = b.makeFolder(above, elements[:i+1])
		}
		if err == nil {
			folder, err = enter(above, elements[i])
		}
		_ = above.Close()
	}
	return folder, cause(err)
}

// maxMade is how many folders that are not finished are remembered; the others keep the mode and time that they were made
// with.
const maxMade = 100_000

// makeFolder makes a folder in a folder unless something is there.
func (b *Inbox) makeFolder(above *os.Root, elements []string) error {
	name := elements[len(elements)-1]
	if _, err := above.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return nil // enter looks at it
	}
	err := above.Mkdir(name, 0o777)
	if err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.made) < maxMade {
		b.made[strings.Join(elements, "/")] = struct{}{}
	}
	return nil
}

// enter opens a folder in a folder.
func enter(above *os.Root, name string) (*os.Root, error) {
	seen, err := above.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case seen.Mode().Type() == fs.ModeSymlink:
		return nil, fmt.Errorf("%q is a link", name)
	case !seen.IsDir():
		return nil, fmt.Errorf("%q is not a folder", name)
	}
	folder, err := above.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := folder.Stat(".")
	if err == nil && !os.SameFile(seen, opened) {
		err = fmt.Errorf("%q was exchanged meanwhile", name)
	}
	if err != nil {
		_ = folder.Close()
		return nil, err
	}
	return folder, nil
}

// begin makes the file under way.
func (b *Inbox) begin(f *File, e *Entry, have *Partial) (err error) {
	if err := f.checkPlace(); err != nil {
		return err
	}
	if f.owner, err = b.own(); err == nil {
		f.temporary, err = f.owner.name(f.in, f.key)
	}
	if err != nil {
		return err
	}
	if have != nil {
		return f.goOn(e, have)
	}
	f.file, err = f.folder.OpenFile(f.temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, e.Mode|0o200)
	return cause(err)
}

// checkFolder looks at what stands under the name of a folder.
func (f *File) checkFolder() error {
	there, err := f.folder.Lstat(f.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return cause(err)
	case there.Mode().Type() == fs.ModeSymlink:
		return errors.New("there is a link of that name")
	case !there.IsDir():
		return errors.New("there is something of that name that is not a folder")
	}
	return nil
}

// checkPlace looks at what stands under the file's name.
func (f *File) checkPlace() error {
	there, err := f.folder.Lstat(f.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return cause(err)
	case there.Mode().Type() == fs.ModeSymlink:
		return errors.New("there is a link of that name")
	case !there.Mode().IsRegular():
		return errors.New("there is something of that name that is not a file")
	case !f.replace:
		return fs.ErrExist
	}
	return nil
}

// Write writes the next bytes.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.file.Write(p)
	f.offset += int64(n)
	f.hole = false
	return n, cause(err)
}

// Hole leaves the next n bytes zero, as a hole where the file system has such.
func (f *File) Hole(n int64) (err error) {
	f.offset, err = f.file.Seek(n, io.SeekCurrent)
	f.hole = true
	return cause(err)
}

// endHole makes the file as long as it is with the hole at its end, which nothing was written behind.
func (f *File) endHole() error {
	if !f.hole {
		return nil
	}
	return cause(f.file.Truncate(f.offset))
}

// Publish gives the whole file its name. If it fails the file is discarded; the error wraps fs.ErrExist when the name was
// taken meanwhile.
func (f *File) Publish() error {
	if err := f.publish(); err != nil {
		return errors.Join(err, f.Discard())
	}
	return f.leave()
}

func (f *File) publish() error {
	if err := f.endHole(); err != nil {
		return err
	}
	if f.mode&0o200 == 0 {
		if info, err := f.file.Stat(); err != nil || f.file.Chmod(info.Mode().Perm()&f.mode) != nil {
			return errors.New("its mode cannot be set")
		}
	}
	if err := f.file.Close(); err != nil { // which is when some file systems notice that they are full
		return cause(err)
	}
	if err := f.folder.Chtimes(f.temporary, time.Time{}, f.modTime); err != nil {
		return cause(err)
	}
	if err := f.checkPlace(); err != nil {
		return err
	}
	if f.replace {
		return cause(f.folder.Rename(f.temporary, f.name))
	}
	err := cause(f.folder.Link(f.temporary, f.name))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w: the file system has no hard links; a receiver that may replace files needs none", err)
	}
	if err != nil {
		return err
	}
	return cause(f.folder.Remove(f.temporary))
}

// Discard removes the file, unless it is published.
func (f *File) Discard() error {
	if f.temporary == "" {
		return nil
	}
	_ = f.file.Close()
	err := cause(f.folder.Remove(f.temporary))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, f.leave())
}

// cause takes the operation and the path off an error of package os: they are those of the random name.
func cause(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}
