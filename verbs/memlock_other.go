//go:build !linux

package verbs

// memlockLimit: there is no binding here whose registrations could meet a limit.
func memlockLimit() (limit uint64, limited bool) { return 0, false }
