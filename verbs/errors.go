package verbs

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/weftrdma/weft/internal/cerr"
)

// Error is a failed call into libibverbs: the function's name and why, usually a [syscall.Errno].
type Error = cerr.Error

var (
	// ErrQueueFull: the queue holds as many work requests as it was made for. Poll its completion queue and post again.
	ErrQueueFull = errors.New("queue is full")

	// ErrFlushed: the work request was posted, and the queue pair went to the error state before it was carried out. The
	// cause is in the first completion with another status, not in this one.
	ErrFlushed = errors.New("flushed after an earlier error")

	// ErrCQFailed: the device reported the completion queue lost, which a full one is. Its queue pairs are lost with it.
	ErrCQFailed = errors.New("completion queue failed, most likely by an overflow")

	// ErrNoUsableGID: no entry of the GID table can be used for RDMA on the port.
	ErrNoUsableGID = errors.New("no usable GID")

	// ErrNoDevice: libibverbs is there and knows no RDMA device, or none of the name that was asked for.
	ErrNoDevice = errors.New("no such RDMA device")

	// ErrNoLibrary: libibverbs cannot be opened.
	ErrNoLibrary = errors.New("libibverbs is not available")

	// ErrMemlock: the limit on locked memory is too low; the error's text has the limit, the need and the fix.
	ErrMemlock = errors.New("limit on locked memory")
)

// foreign is an error about an object that was handed in and is of another context than what it is for: the driver would take
// its memory for that of one of its own.
func foreign(op, field string, of, want *Context) error {
	return invalid("%s: %s is of another context (of %s) than what it is for (of %s); make both on one", op, field, of.name, want.name)
}

// invalid is an error about an argument, before anything was handed to the library.
func invalid(format string, args ...any) error {
	return fmt.Errorf("verbs: "+format+": %w", append(args, syscall.EINVAL)...)
}
