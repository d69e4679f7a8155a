// Package cerr has the one error type for calls into C libraries and the kernel. Each binding aliases it, so that one
// errors.As target serves the whole module.
package cerr

import (
	"errors"
	"syscall"
)

// Error is a failed call of a C function.
//
// errors.Is reaches Err: errors.Is(err, syscall.ENOMEM) holds for a call that failed with ENOMEM, and errors.Is(err,
// errors.ErrUnsupported) for one that failed with EOPNOTSUPP or ENOSYS.
type Error struct {
	Op  string // the C function, for example "ibv_reg_mr"
	Err error  // why it failed: a syscall.Errno, or the library's own error code
}

// Error gives the C function and the reason, for example "ibv_reg_mr: cannot allocate memory".
func (e *Error) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is find errors.ErrUnsupported where package syscall does not.
func (e *Error) Is(target error) bool {
	return target == errors.ErrUnsupported && (e.Err == syscall.EPROTONOSUPPORT || e.Err == syscall.ENOPROTOOPT)
}

// New returns an *Error for the C function op that ended with errno, or nil when errno is 0. Its result is an error,
// not an *Error, so that a nil stays nil when a caller returns it.
func New(op string, errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return &Error{Op: op, Err: errno}
}
