package fabricrail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/mem"
)

// A keyTable has the keys of a rail's registrations, for peers of the same host to look at before they post.
//
// shm of libfabric 1.17 checks a key and bounds at the target, and drops what is refused without a word: the operation never
// completes, and a small one leaves the initiator's endpoint unable to post (seen). So it is not asked for what would be
// refused. The table lies beside the endpoint's own memory in /dev/shm, whose name it bears, and goes when the rail is closed. A
// registration that is closed while an operation on it is under way costs what it would without.
//
// For each number of a key there are two words: the key, 0 where there is no such registration, and its length.
type keyTable struct {
	words *mem.Words
	path  string // of one that this rail made
}

const sharedMemory = "/dev/shm"

// keyTablePath is where the table of the endpoint of that name lies. Package fabric removes what begins with a segment's name
// and a colon, with the segment, or when its process has died.
func keyTablePath(name string) (string, error) { return besideSegment(name, ":keys") }

func besideSegment(name, suffix string) (string, error) {
	segment, _, found := strings.Cut(strings.TrimPrefix(name, "fi_shm://"), ":")
	if !found || !filepath.IsLocal(segment) || filepath.Base(segment) != segment {
		return "", fmt.Errorf("%q is no endpoint of shm that has files beside it: %w", name, syscall.EINVAL)
	}
	return filepath.Join(sharedMemory, segment+suffix), nil
}

func createKeyTable(name string) (*keyTable, error) {
	path, err := keyTablePath(name)
	if err != nil {
		return nil, err
	}
	words, err := mem.CreateWords(path, 2*keyNumbers)
	if err != nil {
		return nil, err
	}
	return &keyTable{words, path}, nil
}

// openKeyTable opens the table of a peer. There is none once the peer's endpoint is closed.
func openKeyTable(name string) (*keyTable, error) {
	path, err := keyTablePath(name)
	if err != nil {
		return nil, err
	}
	words, err := mem.OpenWords(path, 2*keyNumbers)
	if err != nil {
		return nil, err
	}
	return &keyTable{words: words}, nil
}

// isThere tells whether an endpoint of shm can be reached: its library would follow the address of one that was closed in
// this process.
func isThere(name string) bool {
	path, err := keyTablePath(name)
	if err == nil {
		_, err = os.Stat(path)
	}
	return err == nil
}

// lock is the lock of the endpoint's segment, by which package fabric knows whose it is.
func (t *keyTable) lock() string { return strings.TrimSuffix(t.path, ":keys") + ".lock" }

func keyNumber(key uint64) int { return int(key >> keyAddressBits % keyNumbers) }

// add tells peers of a registration. It returns false if there is another one with the key's number.
func (t *keyTable) add(mr *fabric.MR) bool {
	at := 2 * keyNumber(mr.RKey())
	if t.words.Load(at) != 0 {
		return false
	}
	t.words.Store(at+1, mr.Length())
	t.words.Store(at, mr.RKey())
	return true
}

func (t *keyTable) remove(key uint64) { t.words.Store(2*keyNumber(key), 0) }

// covers tells whether length bytes behind offset are within the registration of the key.
func (t *keyTable) covers(key, offset, length uint64) bool {
	at := 2 * keyNumber(key)
	if t.words.Load(at) != key {
		return false
	}
	whole := t.words.Load(at + 1)
	return offset <= whole && length <= whole-offset && t.words.Load(at) == key
}

func (t *keyTable) close() error {
	if t == nil {
		return nil
	}
	return closeWords(t.words, t.path)
}

// closeWords removes the file too, where this rail made it.
func closeWords(words *mem.Words, path string) error {
	if path != "" {
		if err := os.Remove(path); err != nil {
			return errors.Join(err, words.Close())
		}
	}
	return words.Close()
}
