package mem

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Words is an array of 64-bit words in a file that processes of one host share, each of which is read and written whole.
type Words struct {
	words  []atomic.Uint64
	mapped []byte
}

const wordSize = 8

// CreateWords makes a file of n zero words that only this user can open, at a path where there is none, and maps it. Whoever
// made it removes it.
func CreateWords(path string, n int) (*Words, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("share words: %w", err)
	}
	if err := file.Truncate(int64(n) * wordSize); err != nil {
		return nil, errors.Join(fmt.Errorf("share words: %w", err), file.Close(), os.Remove(path))
	}
	w, err := mapWords(file, n, true)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return w, nil
}

// OpenWords maps the n words of a file that another made, to be read alone. A file of another size is an error that wraps
// syscall.EINVAL.
func OpenWords(path string, n int) (*Words, error) { return openWords(path, n, os.O_RDONLY) }

// OpenSharedWords maps them to be written too.
func OpenSharedWords(path string, n int) (*Words, error) { return openWords(path, n, os.O_RDWR) }

func openWords(path string, n, mode int) (*Words, error) {
	file, err := os.OpenFile(path, mode|noFollow, 0)
	if err != nil {
		return nil, fmt.Errorf("open shared words: %w", err)
	}
	if info, err := file.Stat(); err != nil || info.Size() != int64(n)*wordSize {
		return nil, errors.Join(fmt.Errorf("open shared words: %s has not %d words: %w", path, n, syscall.EINVAL), err, file.Close())
	}
	return mapWords(file, n, mode == os.O_RDWR)
}

// mapWords closes the file, which the mapping does not need.
func mapWords(file *os.File, n int, writable bool) (*Words, error) {
	mapped, err := mmapFile(file, n*wordSize, writable)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("map %d words of %s: %w", n, file.Name(), err)
	}
	return &Words{words: unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(mapped))), n), mapped: mapped}, nil
}

// Load reads a word.
func (w *Words) Load(i int) uint64 { return w.words[i].Load() }

// Half is the first half of a word, to be written and read by itself: a futex has 32 bits.
func (w *Words) Half(i int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&w.words[i])) }

// Store writes a word, of words that this process created or shares.
func (w *Words) Store(i int, v uint64) { w.words[i].Store(v) }

// Close unmaps the words; none may be read or written any more.
func (w *Words) Close() error { return munmap(w.mapped) }
