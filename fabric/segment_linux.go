package fabric

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// segment is the name of an endpoint of shm, which has its memory in a file of that name. A provider's own removal of the
// files of a process that dies is by signal handlers, which would break a Go process and are taken away; so that process
// may leave its files behind. Beside them is a lock, held as long as the process lives, also one of another PID namespace:
// what has a lock that nobody holds belongs to nobody.
type segment struct {
	name string
	lock *os.File
}

const (
	segmentFolder = "/dev/shm"
	segmentPrefix = "weft-"
	lockSuffix    = ".lock"
)

// newSegment removes what is left of dead processes, and takes a new name.
func newSegment() (*segment, error) {
	if err := removeDeadSegments(); err != nil {
		return nil, err
	}
	var random [8]byte
	rand.Read(random[:])
	name := fmt.Sprintf("%s%d-%s", segmentPrefix, os.Getuid(), hex.EncodeToString(random[:]))
	path := filepath.Join(segmentFolder, name+lockSuffix)
	for {
		lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("name an endpoint of shm: %w", err)
		}
		s := &segment{name, lock}
		// Between its creation and the lock another process may take the file for a dead one's, and remove it.
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && s.isThere() {
			return s, nil
		}
		_ = lock.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
}

// isThere tells whether the lock's path is still that of the file which is locked.
func (s *segment) isThere() bool {
	locked, err := s.lock.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(s.lock.Name())
	return err == nil && os.SameFile(locked, named)
}

// address is the source address that gives an endpoint the name.
func (s *segment) address() string { return "fi_shm://" + s.name }

// remove gives the name back, with whatever the provider has left of it.
func (s *segment) remove() error {
	if s == nil {
		return nil
	}
	return errors.Join(removeFiles(s.lock.Name()), s.lock.Close())
}

// removeFiles removes the files of a name, the lock last: without it nobody would find the others.
func removeFiles(lock string) error {
	files, err := filepath.Glob(strings.TrimSuffix(lock, lockSuffix) + ":*")
	for _, file := range append(files, lock) {
		if removed := os.Remove(file); removed != nil && !errors.Is(removed, os.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}

// removeDeadSegments removes the files whose lock nobody holds. Other users' are theirs to remove.
func removeDeadSegments() error {
	locks, err := filepath.Glob(filepath.Join(segmentFolder, segmentPrefix+"*"+lockSuffix))
	if err != nil {
		return err
	}
	for _, path := range locks {
		lock, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue // gone, or another user's
		}
		s := &segment{lock: lock}
		if err := errors.Join(s.removeDead(), lock.Close()); err != nil {
			return fmt.Errorf("remove what a dead process left: %w", err)
		}
	}
	return nil
}

// removeDead removes the files of the name if nobody holds its lock. Between the opening of the lock and here another process may
// have removed the dead one's files and a living one taken the name: then the lock that nobody holds is no longer the name's, and
// the files are the living one's.
func (s *segment) removeDead() error {
	if unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || !s.isThere() {
		return nil
	}
	return removeFiles(s.lock.Name())
}
