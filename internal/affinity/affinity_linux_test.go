package affinity

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// usable is the processors that the calling thread may use, and the last of them.
func usable(t *testing.T) (allowed unix.CPUSet, last int) {
	require.NoError(t, unix.SchedGetaffinity(0, &allowed))
	for i := range maxProcessors {
		if allowed.IsSet(i) {
			last = i
		}
	}
	return allowed, last
}

func TestPinBindsTheThreadAlone(t *testing.T) {
	runtime.LockOSThread() // the other thread
	defer runtime.UnlockOSThread()
	allowed, last := usable(t)
	var now, after unix.CPUSet
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := Pin(last)
		if err == nil {
			err = unix.SchedGetaffinity(0, &now)
		}
		done <- err
	}()
	require.NoError(t, <-done)
	require.Equal(t, 1, now.Count())
	require.True(t, now.IsSet(last))
	require.NoError(t, unix.SchedGetaffinity(0, &after))
	require.Equal(t, allowed, after)
}

func TestPinProcessBindsEveryThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	allowed, last := usable(t)
	defer onEveryThread(t, func(id int) { _ = unix.SchedSetaffinity(id, &allowed) }) // a thread may have ended

	// Threads that are there before, one of them asleep, and one that is made after.
	end := make(chan struct{})
	defer close(end)
	other := func() {
		started := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(started)
			<-end
		}()
		<-started
	}
	other()
	require.NoError(t, PinProcess(last))
	other()
	threads := 0
	onEveryThread(t, func(id int) {
		var now unix.CPUSet
		if unix.SchedGetaffinity(id, &now) == nil {
			require.Equal(t, 1, now.Count(), "thread %d", id)
			require.True(t, now.IsSet(last), "thread %d", id)
			threads++
		}
	})
	require.GreaterOrEqual(t, threads, 3)
}

func onEveryThread(t *testing.T, f func(id int)) {
	threads, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		require.NoError(t, err)
		f(id)
	}
}

func TestPinRefuses(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, processor := range []int{-1, maxProcessors, maxProcessors - 1} { // the last is in range, but not in this machine
		require.ErrorIs(t, Pin(processor), syscall.EINVAL)
		require.ErrorIs(t, PinProcess(processor), syscall.EINVAL)
	}
}
