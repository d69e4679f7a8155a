//go:build !linux

package mem

// LockLimit: there is no binding here whose registrations could meet a limit.
func LockLimit() (limit uint64, limited bool) { return 0, false }
