package verbsrail

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// thisProcess names this process, or none where /proc does not tell.
func thisProcess() (p process) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return process{}
	}
	boot, err := hex.DecodeString(string(bytes.ReplaceAll(bytes.TrimSpace(text), []byte("-"), nil)))
	var ns unix.Stat_t
	if err != nil || len(boot) != len(p.boot) || unix.Stat("/proc/self/ns/pid", &ns) != nil {
		return process{}
	}
	return process{boot: [16]byte(boot), namespace: ns.Ino, pid: uint32(os.Getpid())}
}

// pidfd is a process descriptor, or gone.
type pidfd int

const gone pidfd = -1

// watch returns a sentinel of a process, nil where the kernel has none.
func watch(p process) sentinel {
	fd, err := unix.PidfdOpen(int(p.pid), 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return gone
	case err != nil:
		return nil
	}
	return pidfd(fd)
}

func (fd pidfd) ended() bool {
	if fd == gone {
		return true
	}
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n == 1
}

func (fd pidfd) close() {
	if fd != gone {
		_ = unix.Close(int(fd))
	}
}
