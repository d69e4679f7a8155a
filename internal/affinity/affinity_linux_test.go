package affinity

import (
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestPinBindsTheThreadAlone(t *testing.T) {
	runtime.LockOSThread() // the other thread
	defer runtime.UnlockOSThread()
	var allowed, now, after unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &allowed))
	last := 0
	for i := range maxProcessors {
		if allowed.IsSet(i) {
			last = i
		}
	}
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

func TestPinRefuses(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, processor := range []int{-1, maxProcessors, maxProcessors - 1} { // the last is in range, but not in this machine
		require.ErrorIs(t, Pin(processor), syscall.EINVAL)
	}
}
