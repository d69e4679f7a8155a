package rdmatest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestChildDiesWithItsParent(t *testing.T) {
	c := StartChild(t, "parent")
	line, err := c.ReadLine(patience)
	require.NoError(t, err)
	pid, err := strconv.Atoi(line)
	require.NoError(t, err)
	grandchild, err := unix.PidfdOpen(pid, 0) // readable once the process has ended, reaped or not
	require.NoError(t, err)
	defer unix.Close(grandchild)

	poll := []unix.PollFd{{Fd: int32(grandchild), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	require.NoError(t, err)
	require.Zero(t, n, "the grandchild ended too early")
	c.Kill()
	n, err = unix.Poll(poll, int(Deadline(patience).Milliseconds()))
	for errors.Is(err, unix.EINTR) { // the runtime's own signals
		n, err = unix.Poll(poll, int(Deadline(patience).Milliseconds()))
	}
	require.NoError(t, err)
	require.Equal(t, 1, n, "the grandchild lives on")
}

// onOtherThread runs f on a thread that ends with it. It holds the main thread, which never ends, where it gets that.
func onOtherThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		defer runtime.UnlockOSThread()
		done := make(chan struct{})
		go func() {
			defer close(done)
			onOtherThread(f)
		}()
		<-done
		return
	}
	f() // never unlocked: the runtime ends the thread with the goroutine
}

// TestChildOutlivesTheThreadThatStartedIt ends the thread that StartChild was called on.
func TestChildOutlivesTheThreadThatStartedIt(t *testing.T) {
	started := make(chan *Child, 1)
	var thread int
	go onOtherThread(func() {
		thread = unix.Gettid()
		started <- StartChild(t, "echo")
	})
	c := <-started
	ctx := Context(t, patience)
	for {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		require.NoError(t, ctx.Err(), "the thread did not end")
		runtime.Gosched()
	}
	require.NoError(t, c.WriteLine("alive", patience))
	line, err := c.ReadLine(patience)
	require.NoError(t, err)
	require.Equal(t, "[] alive", line)
}
