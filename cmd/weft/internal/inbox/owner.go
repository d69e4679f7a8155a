package inbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
)

const (
	// reserved begins all names that an inbox makes up. Nobody else may bring one.
	reserved = ".weft-"
	// ownerPrefix begins the name of a file that an inbox holds locked while it is open. In it are the folders in which the
	// inbox has files under way, so that whoever comes after a process that was killed can remove them.
	ownerPrefix = reserved + "owner-"
	// maxIdle is how many folders may be in such a file in which nothing is under way any more: then they are taken out.
	maxIdle = 1000
	// maxOwnerFile is how much is read of such a file: what is longer is none.
	maxOwnerFile = 64 << 20
)

// owner is what tells files under way of a living process from those that a dead one has left: their names have the
// owner's, and the file of the owner is locked as long as its process lives.
type owner struct {
	id   string
	file *os.File // nil where the file system has no locks: then nothing is ever cleaned

	mu      sync.Mutex
	folders map[string]int // that are in the file, with how many files are under way in each
	idle    int            // of these with none
	made    uint64         // files under way so far
}

// newOwner makes the owner's file in the folder and locks it.
func newOwner(root *os.Root) (*owner, error) {
	for {
		o := &owner{id: strings.ToLower(rand.Text()), folders: make(map[string]int)}
		name := ownerPrefix + o.id
		file, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, cause(err)
		}
		// Somebody who cleans up may have the lock for a moment, and then removes the file.
		err = flock(file, syscall.LOCK_EX)
		if isUnsupported(err) {
			return o, errors.Join(cause(root.Remove(name)), file.Close())
		}
		if err != nil {
			return nil, errors.Join(err, cause(root.Remove(name)), file.Close())
		}
		if isStill(root, name, file) {
			o.file = file
			return o, nil
		}
		_ = file.Close()
	}
}

// name makes a name for a file under way in a folder of the inbox. The key is that under which the file can be gone on
// with, empty if it cannot.
func (o *owner) name(folder, key string) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != nil {
		if err := o.enter(folder); err != nil {
			return "", cause(err)
		}
	}
	o.made++
	return fmt.Sprintf("%s%s-%d-%s", reserved, o.id, o.made, key), nil
}

// enter counts a file under way in a folder. Under mu.
func (o *owner) enter(folder string) error {
	n, ok := o.folders[folder]
	if ok && n == 0 {
		o.idle--
	}
	if !ok {
		if o.idle >= maxIdle {
			if err := o.prune(); err != nil {
				return err
			}
		}
		if _, err := o.file.WriteString(folder + "\x00"); err != nil {
			return err
		}
	}
	o.folders[folder] = n + 1
	return nil
}

// leave counts a file in a folder that is not under way any more.
func (o *owner) leave(folder string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return
	}
	if o.folders[folder]--; o.folders[folder] == 0 {
		o.idle++
	}
}

// prune takes the folders out of the file in which nothing is under way: senders choose how many there are. If it is killed half way
// the file has more than it needs, never less. Under mu.
func (o *owner) prune() error {
	maps.DeleteFunc(o.folders, func(_ string, n int) bool { return n == 0 })
	o.idle = 0
	var text []byte
	for folder := range o.folders {
		text = append(text, folder+"\x00"...)
	}
	if _, err := o.file.WriteAt(text, 0); err != nil {
		return err
	}
	if err := o.file.Truncate(int64(len(text))); err != nil {
		return err
	}
	_, err := o.file.Seek(0, io.SeekEnd)
	return err
}

// close removes the owner's file. There must be no files under way.
func (o *owner) close(root *os.Root) error {
	if o.file == nil {
		return nil
	}
	return errors.Join(cause(root.Remove(ownerPrefix+o.id)), o.file.Close())
}

// clean removes what inboxes of this folder have left whose processes are dead; an inbox that resumes keeps what it can go on
// with. Files of living processes, and what others have put there, stay. So does what cannot be removed, such as another
// user's: it does no harm, and the next one tries again.
func (b *Inbox) clean() {
	entries, _ := fs.ReadDir(b.root.FS(), ".")
	for _, e := range entries {
		if id, ok := strings.CutPrefix(e.Name(), ownerPrefix); ok && e.Type().IsRegular() {
			_ = b.cleanAfter(id)
		}
	}
}

// cleanAfter removes what one owner has left, if it is dead.
func (b *Inbox) cleanAfter(id string) error {
	name := ownerPrefix + id
	file, err := b.root.OpenFile(name, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // somebody else's, or cleaned meanwhile
	}
	if err != nil {
		return cause(err)
	}
	defer file.Close()
	if flock(file, syscall.LOCK_EX|syscall.LOCK_NB) != nil || !isStill(b.root, name, file) {
		return nil // it lives
	}
	text, err := io.ReadAll(io.LimitReader(file, maxOwnerFile))
	if err != nil {
		return cause(err)
	}
	var failed error
	for folder := range strings.SplitSeq(strings.TrimSuffix(string(text), "\x00"), "\x00") {
		failed = errors.Join(failed, b.cleanFolder(folder, reserved+id+"-"))
	}
	if failed != nil {
		return failed
	}
	return b.root.Remove(name)
}

// cleanFolder removes the files under way of one owner from a folder.
func (b *Inbox) cleanFolder(folder, prefix string) error {
	var elements []string
	if folder != "" {
		var err error
		if elements, err = split(folder); err != nil {
			return nil // no inbox has written that
		}
	}
	root, err := b.descend(elements, false)
	if err != nil {
		return nil // it is gone, or is a link by now
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return cause(err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), prefix) })
	for _, e := range entries {
		key := e.Name()[strings.LastIndexByte(e.Name(), '-')+1:]
		info, err := e.Info()
		if b.config.Resume && key != "" && err == nil && info.Mode().IsRegular() && info.Size() >= leastPartial {
			err = root.Rename(e.Name(), partialPrefix+key)
		} else {
			err = root.Remove(e.Name())
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cause(err)
		}
	}
	return nil
}

// isStill tells whether the name is that of the open file.
func isStill(root *os.Root, name string, file *os.File) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := root.Lstat(name)
	return err == nil && os.SameFile(opened, there)
}

// flock locks a file for as long as it is open (flock(2)).
func flock(f *os.File, how int) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	if err := raw.Control(func(fd uintptr) {
		for locked = syscall.EINTR; errors.Is(locked, syscall.EINTR); {
			locked = syscall.Flock(int(fd), how)
		}
	}); err != nil {
		return err
	}
	return locked
}

func isUnsupported(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK)
}
