// Package affinity binds a process to a processor. A program that polls has its processor to itself only if it stays where
// it is: the kernel's balancing puts two that spin on one processor for milliseconds.
package affinity

import (
	"fmt"
	"syscall"
)

// maxProcessors is the size of glibc's cpu_set_t.
const maxProcessors = 1024

// PinProcess binds every thread of the process, those to come included, to a processor, counted from 0: as taskset does.
// Without such a processor, or where the process may not use it, the error wraps EINVAL; on platforms other than Linux it
// wraps [errors.ErrUnsupported].
//
// It is all threads, rather than the one that polls, because the scheduler of Go moves goroutines between them. A goroutine
// that is locked to its thread stays, but each time that it yields, the scheduler has to wake another thread, which hands the
// processor back to the locked one: that costs what yielding was to save.
//
// Source: sched_setaffinity(2).
func PinProcess(processor int) error {
	if processor < 0 || processor >= maxProcessors {
		return fmt.Errorf("pin to processor %d: 0 to %d are possible: %w", processor, maxProcessors-1, syscall.EINVAL)
	}
	if err := pinProcess(processor); err != nil {
		return fmt.Errorf("pin to processor %d: %w", processor, err)
	}
	return nil
}
