package fabric

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/weftrdma/weft/internal/cerr"
	"github.com/weftrdma/weft/internal/mem"
)

// Error is a failed call into libfabric: the function's name and why, a [syscall.Errno] or, for libfabric's own reasons, an
// [Errno].
type Error = cerr.Error

// Errno is an error number of libfabric's own, from 256 on; those below are the system's, and [syscall.Errno].
type Errno uint32

// The error numbers of libfabric's own.
const (
	EOther      Errno = 256 // unspecified
	ETooSmall   Errno = 257 // the buffer is too small
	EOpBadState Errno = 258 // not permitted in the current state
	EAvail      Errno = 259 // an error is to be read
	EBadFlags   Errno = 260 // flags that the provider does not have
	ENoEQ       Errno = 261 // no event queue
	EDomain     Errno = 262 // another domain's
	ENoCQ       Errno = 263 // no completion queue
	ECRC        Errno = 264 // corrupted on the way
	ETrunc      Errno = 265 // a message longer than its receive
	ENoKey      Errno = 266 // the key is not available
	ENoAV       Errno = 267 // no address vector
	EOverrun    Errno = 268 // the queue has overrun
	ENoRX       Errno = 269 // the peer has no receive posted
	ENoMR       Errno = 270 // no more registrations
)

// Error gives libfabric's text.
//
// Implements:
//
//	const char *fi_strerror(int errnum)
func (e Errno) Error() string { return cErrorText(int(e)) }

var (
	// ErrQueueFull: the provider takes no more operations for now. Poll the completion queues and post again.
	ErrQueueFull = errors.New("queue is full")

	// ErrMemlock: the limit on locked memory is too low; the error's text has the limit, the need and the fix.
	ErrMemlock = errors.New("limit on locked memory")

	// ErrNoProvider: libfabric is there, and no provider offers what was asked for.
	ErrNoProvider = errors.New("no provider of libfabric offers what was asked for")

	// ErrNoLibrary: libfabric cannot be opened, or is older than the headers that the program was built with.
	ErrNoLibrary = errors.New("libfabric is not available")
)

// reason is an error number as an error.
func reason(errno int) error {
	if errno >= int(EOther) {
		return Errno(errno)
	}
	return syscall.Errno(errno)
}

// failed is the error of a C function that ended with errno; nil for 0.
func failed(op string, errno int) error {
	if errno == 0 {
		return nil
	}
	return &Error{Op: op, Err: reason(errno)}
}

// software are the providers that lock no memory: for them ENOMEM is something else.
var software = []string{"tcp", "udp", "sockets", "net", "shm", "sm2"}

// explainMemlock adds to ENOMEM of a provider what the user needs to know where the limit on locked memory is the likely cause; need
// is how many bytes were to be locked, 0 where only the provider knows.
func explainMemlock(err error, provider string, need, limit uint64, limited bool) error {
	base, _, _ := strings.Cut(provider, ";")
	if !errors.Is(err, syscall.ENOMEM) || !limited || slices.Contains(software, base) {
		return err
	}
	needed := ""
	if need > 0 {
		needed = fmt.Sprintf(", needed are %d KiB and what is registered already", (need+1023)>>10)
	}
	return fmt.Errorf("%w of %d KiB%s: raise it (ulimit -l unlimited; LimitMEMLOCK=infinity in a systemd unit; "+
		"--ulimit memlock=-1 in Docker) or grant CAP_IPC_LOCK: %w", ErrMemlock, limit>>10, needed, err)
}

// explain is explainMemlock with this process's limit.
func (d *Domain) explain(err error, need uint64) error {
	limit, limited := mem.LockLimit()
	return explainMemlock(err, d.told.Provider, need, limit, limited)
}

// invalid is an error about an argument, before anything was handed to the library.
func invalid(format string, args ...any) error {
	return fmt.Errorf("fabric: "+format+": %w", append(args, syscall.EINVAL)...)
}

// closeAfter frees what was made before err and returns err; what freeing says is added to it.
func closeAfter(err error, free func() error) error {
	if freeErr := free(); freeErr != nil {
		return fmt.Errorf("%w (and then: %w)", err, freeErr)
	}
	return err
}
