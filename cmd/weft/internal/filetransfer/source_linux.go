package filetransfer

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openFlags keep an open from waiting for the writer of a pipe that took the file's place.
const openFlags = syscall.O_NONBLOCK

// stateOf takes ctime too: whoever writes to a file can set mtime back, but not ctime.
func stateOf(info fs.FileInfo) state {
	s := state{size: info.Size(), modified: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.status = st.Ctim.Nano()
	}
	return s
}

// isSparse tells whether a file has fewer blocks of 512 bytes than its size needs (stat(2)).
func isSparse(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Blocks < st.Size/512
}

// nextData finds the first stored bytes from the offset on, and where they end (lseek(2), SEEK_DATA). The file is then read
// from there. Where there are none, both are the size.
func nextData(f *os.File, offset, size int64) (data, end int64, err error) {
	data, err = f.Seek(offset, unix.SEEK_DATA)
	if errors.Is(err, syscall.ENXIO) {
		data, err = f.Seek(max(size, offset), io.SeekStart)
		return data, data, err
	}
	if err != nil {
		return 0, 0, err
	}
	if end, err = f.Seek(data, unix.SEEK_HOLE); err != nil {
		return 0, 0, err
	}
	_, err = f.Seek(data, io.SeekStart)
	return data, end, err
}
