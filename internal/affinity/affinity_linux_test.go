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

func TestPinProcessBindsEveryThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var allowed unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &allowed))
	last := 0
	for i := range maxProcessors {
		if allowed.IsSet(i) {
			last = i
		}
	}
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

func TestPinProcessRefuses(t *testing.T) {
	for _, processor := range []int{-1, maxProcessors, maxProcessors - 1} { // the last is in range, but not in this machine
		require.ErrorIs(t, PinProcess(processor), syscall.EINVAL)
	}
}
