// Package affinity binds threads to processors. A thread that polls has its processor to itself only if it stays where it
// is: the kernel's balancing puts two that spin on one processor for milliseconds.
package affinity

import (
	"fmt"
	"syscall"
)

// maxProcessors is the size of glibc's cpu_set_t.
const maxProcessors = 1024

// Pin binds the calling thread to a processor, counted from 0. The goroutine must be locked to its thread
// (runtime.LockOSThread). Without such a processor, or where the process may not use it, the error wraps EINVAL; on
// platforms other than Linux it wraps [errors.ErrUnsupported].
//
// It is for a goroutine that never yields. One that does has to wake another thread each time, which hands the processor back
// to the locked one, when it comes to run: see [PinProcess].
//
// Source: sched_setaffinity(2).
func Pin(processor int) error { return check(processor, pin) }

// PinProcess binds every thread of the process, those to come included, as taskset does; with the errors of [Pin]. Goroutines
// stay free to change between the threads.
func PinProcess(processor int) error { return check(processor, pinProcess) }

func check(processor int, bind func(int) error) error {
	if processor < 0 || processor >= maxProcessors {
		return fmt.Errorf("pin to processor %d: 0 to %d are possible: %w", processor, maxProcessors-1, syscall.EINVAL)
	}
	if err := bind(processor); err != nil {
		return fmt.Errorf("pin to processor %d: %w", processor, err)
	}
	return nil
}
