// Package inbox writes files whose names come from somebody who may mean harm into one folder.
//
// An [os.Root] keeps names from leaving the folder, but it follows links that stay inside, and its Rename replaces what is
// there. So every element of a name is looked at with Lstat, and a link is refused wherever it stands; each folder on the
// way is opened and compared with what Lstat saw, so that it cannot be exchanged in between. The bytes go into a file of a
// random name in the same folder that nobody else can have made (O_EXCL), and the whole file gets its name by a hard link,
// which fails if the name exists. Only an inbox that was opened to replace files renames.
//
// A process that is killed leaves at most the files of random names, which begin with ".weft-".
package inbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Inbox is a folder that takes files. Its methods may be called by several goroutines.
type Inbox struct {
	root    *os.Root
	replace bool
}

// Open opens an inbox on an existing folder. Files that exist are replaced if replace is set, and refused otherwise.
func Open(dir string, replace bool) (*Inbox, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Inbox{root: root, replace: replace}, nil
}

// Close closes the inbox. Files under way are not affected.
func (b *Inbox) Close() error { return b.root.Close() }

// File is a file under way. It has a random name until it is published.
type File struct {
	folder    *os.Root // which has the file
	file      *os.File
	name      string // in the folder, once published
	temporary string // in the folder, until then; empty once neither is there
	shown     string // for errors
	replace   bool
}

// Create begins a file. The name is relative to the inbox, its elements separated by slashes; folders that do not exist
// are made. The mode has permission bits alone, from which the process's umask is taken as usual. Errors wrap fs.ErrExist
// when there is such a file.
//
// The file must be published or discarded.
func (b *Inbox) Create(name string, mode fs.FileMode) (*File, error) {
	elements, err := split(name)
	if err != nil {
		return nil, fmt.Errorf("name %q is refused: %w", name, err)
	}
	f := &File{shown: name, replace: b.replace}
	parents, last := elements[:len(elements)-1], elements[len(elements)-1]
	if f.folder, err = b.descend(parents); err != nil {
		return nil, fmt.Errorf("name %q is refused: %w", name, err)
	}
	f.name = last
	if err = f.begin(mode); err != nil {
		_ = f.folder.Close()
		return nil, fmt.Errorf("create %q: %w", name, err)
	}
	return f, nil
}

// descend opens the folder that the elements lead to, and makes those that are missing.
func (b *Inbox) descend(elements []string) (*os.Root, error) {
	folder, err := b.root.OpenRoot(".")
	for i := 0; err == nil && i < len(elements); i++ {
		above := folder
		folder, err = enter(above, elements[i])
		_ = above.Close()
	}
	return folder, cause(err)
}

// enter opens a folder in a folder.
func enter(above *os.Root, name string) (*os.Root, error) {
	seen, err := above.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err := above.Mkdir(name, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		seen, err = above.Lstat(name)
	}
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

// begin makes the file of the random name.
func (f *File) begin(mode fs.FileMode) error {
	if err := f.checkPlace(); err != nil {
		return err
	}
	f.temporary = ".weft-" + strings.ToLower(rand.Text())
	var err error
	f.file, err = f.folder.OpenFile(f.temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	return cause(err)
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
	if err != nil {
		return n, fmt.Errorf("write %q: %w", f.shown, cause(err))
	}
	return n, nil
}

// Publish gives the whole file its name. If it fails the file is discarded; the error wraps fs.ErrExist when the name was
// taken meanwhile.
func (f *File) Publish() error {
	if err := f.publish(); err != nil {
		return errors.Join(fmt.Errorf("publish %q: %w", f.shown, err), f.Discard())
	}
	f.temporary = ""
	return f.folder.Close()
}

func (f *File) publish() error {
	if err := f.file.Close(); err != nil { // which is when some file systems notice that they are full
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
	f.temporary = ""
	return errors.Join(err, f.folder.Close())
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
