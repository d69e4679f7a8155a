package rdmatest

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the child when the test process dies without running its clean-up functions.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
