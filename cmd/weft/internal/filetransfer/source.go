package filetransfer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
)

// Source is a file, folder or stream to send.
type Source struct {
	Path    string
	Name    string // for the receiver
	Kind    wire.Kind
	Size    uint64 // bytes; 0 of files whose size the system does not know, such as those of /proc
	Mode    fs.FileMode
	ModTime time.Time
	// Stream is read instead of the file of the path, until its end.
	Stream *os.File
	// Err is why it cannot be sent.
	Err error
}

// isFolder tells whether it is one.
func (s *Source) isFolder() bool { return s.Kind == wire.Folder }

// sizeUnknown tells whether the size is known only when everything was read.
func (s *Source) sizeUnknown() bool {
	return s.Stream != nil || s.Kind == wire.RegularFile && s.Size == 0
}

// Sources looks at the files and folders of the paths, and at what is in the folders. Names are the last elements of the
// paths, or with relative set the paths themselves, which then must not lead upwards, and below a folder's name those in
// it. Entries of folders come before their folder.
//
// What can be named and not be sent, such as a link in a folder or a file that does not exist, is among the sources, with
// its error. The error is of paths that cannot go together.
func Sources(paths []string, relative bool) ([]Source, error) {
	l := lister{taken: make(map[string]string)}
	for _, path := range paths {
		name, err := nameOf(path, relative)
		if err != nil {
			return nil, err
		}
		if other, ok := l.taken[name]; ok {
			return nil, fmt.Errorf("%s and %s would both arrive as %s: send them one after the other, or --relative",
				other, path, name)
		}
		l.taken[name] = path
		info, err := os.Stat(path)
		l.add(path, name, info, err)
	}
	return l.sources, nil
}

// nameOf is the name under which a path arrives.
func nameOf(path string, relative bool) (string, error) {
	if relative {
		if !filepath.IsLocal(path) {
			return "", fmt.Errorf("%s leads out of this folder: --relative takes paths below it", path)
		}
		return filepath.ToSlash(filepath.Clean(path)), nil
	}
	name := filepath.Base(path)
	if name == "." || name == ".." || name == string(filepath.Separator) {
		whole, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		if name = filepath.Base(whole); name == string(filepath.Separator) {
			return "", fmt.Errorf("%s has no name to arrive under: name what is in it", path)
		}
	}
	return name, nil
}

// lister collects sources.
type lister struct {
	sources []Source
	taken   map[string]string // paths by the names of those that were given
}

// add adds a file, or a folder with what is in it.
func (l *lister) add(path, name string, info fs.FileInfo, err error) {
	s := Source{Path: path, Name: name}
	if err != nil {
		s.Err = plain(err)
		l.sources = append(l.sources, s)
		return
	}
	s.Mode, s.ModTime = info.Mode().Perm(), info.ModTime()
	switch {
	case len(name) > wire.MaxName:
		s.Err = fmt.Errorf("its name has %d bytes, more than %d", len(name), wire.MaxName)
	case info.IsDir():
		s.Kind = wire.Folder
		if s.Err = l.addFolder(path, name); name == "." && s.Err == nil {
			return // of --relative: the receiver's folder stands for it
		}
	case info.Mode().IsRegular():
		s.Size = uint64(info.Size())
	default:
		s.Err = fmt.Errorf("it is a %s, and only files and folders are sent", kindOf(info.Mode()))
	}
	l.sources = append(l.sources, s)
}

// addFolder adds what is in a folder. Links in it are not followed.
func (l *lister) addFolder(path, name string) error {
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		below := name + "/" + e.Name()
		if name == "." { // of --relative
			below = e.Name()
		}
		info, err := e.Info()
		l.add(filepath.Join(path, e.Name()), below, info, err)
	}
	return plain(err)
}

func kindOf(mode fs.FileMode) string {
	switch mode.Type() {
	case fs.ModeSymlink:
		return "link"
	case fs.ModeNamedPipe:
		return "pipe"
	case fs.ModeSocket:
		return "socket"
	}
	return "device"
}

// plain takes the operation and the path off an error of package os: what it is about is said beside it.
func plain(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// StreamSource is a source that is read from an open file until its end, such as standard input.
func StreamSource(f *os.File, name string) Source {
	return Source{Path: f.Name(), Name: name, Mode: 0o644, ModTime: time.Now(), Stream: f}
}
