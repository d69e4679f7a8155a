package affinity

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func pin(processor int) error { return bind(0, processor) }

func bind(thread, processor int) error {
	var set unix.CPUSet
	set.Set(processor)
	return unix.SchedSetaffinity(thread, &set)
}

// pinProcess goes through the threads until it finds none that it has not bound: a thread has the processors of the one that
// starts it, which may not have been bound at that moment.
func pinProcess(processor int) error {
	bound := make(map[string]bool)
	for more := true; more; {
		more = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, thread := range threads {
			if bound[thread.Name()] {
				continue
			}
			id, err := strconv.Atoi(thread.Name())
			if err != nil {
				return err
			}
			if err := bind(id, processor); err != nil && !errors.Is(err, syscall.ESRCH) { // it has ended
				return err
			}
			bound[thread.Name()], more = true, true
		}
	}
	return nil
}
