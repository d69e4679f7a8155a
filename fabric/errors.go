package fabric

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/weftrdma/weft/internal/cerr"
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
