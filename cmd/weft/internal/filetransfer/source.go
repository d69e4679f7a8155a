package filetransfer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
)

// Source is a file to send.
type Source struct {
	Path string
	Name string // for the receiver
	Size uint64 // bytes
	Mode fs.FileMode
}

// Sources looks at the files of the paths. Their names are the last elements of the paths, or with relative set the paths
// themselves, which then must not lead upwards. Anything but different regular files is an error.
func Sources(paths []string, relative bool) ([]Source, error) {
	sources := make([]Source, 0, len(paths))
	taken := make(map[string]string)
	for _, path := range paths {
		s, err := newSource(path, relative)
		if err != nil {
			return nil, err
		}
		if other, ok := taken[s.Name]; ok {
			return nil, fmt.Errorf("%s and %s would both arrive as %s: send them one after the other, or --relative",
				other, path, s.Name)
		}
		taken[s.Name] = path
		sources = append(sources, s)
	}
	return sources, nil
}

func newSource(path string, relative bool) (Source, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return Source{}, err
	case info.IsDir():
		return Source{}, fmt.Errorf("%s is a folder: make an archive of it, or name its files", path)
	case !info.Mode().IsRegular():
		return Source{}, fmt.Errorf("%s is not a regular file", path)
	}
	s := Source{Path: path, Name: filepath.Base(path), Size: uint64(info.Size()), Mode: info.Mode().Perm()}
	if relative {
		if !filepath.IsLocal(path) {
			return Source{}, fmt.Errorf("%s leads out of this folder: --relative takes paths below it", path)
		}
		s.Name = filepath.ToSlash(filepath.Clean(path))
	}
	if len(s.Name) > wire.MaxName {
		return Source{}, fmt.Errorf("%s: its name has %d bytes, more than %d", path, len(s.Name), wire.MaxName)
	}
	return s, nil
}

// open opens the file, which must be as it was.
func (s *Source) open() (*os.File, error) {
	f, err := os.Open(s.Path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || uint64(info.Size()) != s.Size) {
		err = errors.New("it changed since it was looked at")
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
