package mem

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// capIPCLock is CAP_IPC_LOCK, which lifts the limit on locked memory (capabilities(7)).
const capIPCLock = 14

// LockLimit returns the limit on locked memory in bytes, and whether it binds this process: registered memory is locked.
func LockLimit() (limit uint64, limited bool) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r); err != nil || r.Cur == unix.RLIM_INFINITY {
		return 0, false
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return r.Cur, true
	}
	_, rest, _ := strings.Cut(string(status), "\nCapEff:\t")
	hex, _, _ := strings.Cut(rest, "\n")
	caps, err := strconv.ParseUint(hex, 16, 64)
	return r.Cur, err != nil || caps&(1<<capIPCLock) == 0
}
