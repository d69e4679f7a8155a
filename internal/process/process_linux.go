package process

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// This names this process, or none where /proc does not tell.
func This() (p ID) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ID{}
	}
	boot, err := hex.DecodeString(string(bytes.ReplaceAll(bytes.TrimSpace(text), []byte("-"), nil)))
	var ns unix.Stat_t
	if err != nil || len(boot) != len(p.Boot) || unix.Stat("/proc/self/ns/pid", &ns) != nil {
		return ID{}
	}
	return ID{Boot: [16]byte(boot), Namespace: ns.Ino, PID: uint32(os.Getpid())}
}

// pidfd is a process descriptor, or gone.
type pidfd int

const gone pidfd = -1

// Watch returns a sentinel of a process, nil where the kernel has none.
func Watch(p ID) Sentinel {
	fd, err := unix.PidfdOpen(int(p.PID), 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return gone
	case err != nil:
		return nil
	}
	return pidfd(fd)
}

func (fd pidfd) Ended() bool {
	if fd == gone {
		return true
	}
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n == 1
}

func (fd pidfd) Close() {
	if fd != gone {
		_ = unix.Close(int(fd))
	}
}
