package rdmatest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// killTimeout bounds how long a killed child may take to disappear: more than a moment only when the kernel holds it.
const killTimeout = 10 * time.Second

// Child is a process that StartChild started. One goroutine at a time may use ReadLine, and one WriteLine.
type Child struct {
	name    string
	cmd     *exec.Cmd
	input   *os.File // the writing end of its standard input
	output  *os.File // the reading end of its standard output
	lines   *bufio.Reader
	partial string // of a line, when ReadLine timed out within one
	stderr  lockedBuffer
	exited  chan struct{}
	err     error // how it ended, once exited is closed
}

// StartChild runs the test binary again as a process that plays the named part of Main's children with the arguments.
// It is killed when the test ends, and on linux when this process dies; its standard error is logged if the test
// failed.
func StartChild(t testing.TB, name string, args ...string) *Child {
	t.Helper()
	if part, ok := os.LookupEnv(ChildVar); ok {
		t.Fatalf("child %q runs tests: TestMain has to call rdmatest.Main", part) // or this would go on without end
	}
	c, err := startChild(name, args)
	if err != nil {
		t.Fatalf("start child %q: %v", name, err)
	}
	t.Cleanup(func() {
		c.Kill()
		_ = c.CloseInput()
		if err := c.Wait(killTimeout); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("kill: %v", err)
		}
		_ = c.output.Close()
		if t.Failed() {
			t.Logf("child %q (%v) wrote to standard error:\n%s", name, c.cmd.ProcessState, c.Stderr())
		}
	})
	return c
}

func startChild(name string, args []string) (*Child, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	stdin, input, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	output, stdout, err := os.Pipe()
	if err != nil {
		_ = input.Close()
		return nil, err
	}
	defer stdout.Close()

	c := &Child{name: name, cmd: exec.Command(binary, args...), input: input, output: output,
		lines: bufio.NewReader(output), exited: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), ChildVar+"="+name)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = stdin, stdout, &c.stderr
	c.cmd.WaitDelay = Deadline(killTimeout) // a grandchild may hold standard error open
	dieWithParent(c.cmd)

	started := make(chan error)
	go c.supervise(started)
	if err := <-started; err != nil {
		_ = input.Close()
		_ = output.Close()
		return nil, err
	}
	return c, nil
}

// supervise starts the process and waits for its end, all on one thread: the kernel counts the death of the thread that
// forked as that of the parent (prctl(2), PR_SET_PDEATHSIG), and a thread of the caller's may end at any time.
func (c *Child) supervise(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err == nil {
		c.err = c.cmd.Wait()
		close(c.exited)
	}
}

// ReadLine returns the next line of the child's standard output, without its end. The error wraps io.EOF at the end of
// the output, and os.ErrDeadlineExceeded when no whole line came within Deadline(timeout); a later call then goes on.
func (c *Child) ReadLine(timeout time.Duration) (string, error) {
	if err := c.output.SetReadDeadline(time.Now().Add(Deadline(timeout))); err != nil {
		return "", fmt.Errorf("read from child %q: %w", c.name, err)
	}
	text, err := c.lines.ReadString('\n')
	c.partial += text
	if err != nil {
		return "", fmt.Errorf("read from child %q after %q: %w", c.name, c.partial, err)
	}
	line := strings.TrimSuffix(c.partial, "\n")
	c.partial = ""
	return line, nil
}

// WriteLine writes a line to the child's standard input. The error wraps os.ErrDeadlineExceeded when the child did not
// take it within Deadline(timeout), and syscall.EPIPE when it reads no more.
func (c *Child) WriteLine(line string, timeout time.Duration) error {
	if err := c.input.SetWriteDeadline(time.Now().Add(Deadline(timeout))); err != nil {
		return fmt.Errorf("write to child %q: %w", c.name, err)
	}
	if _, err := c.input.WriteString(line + "\n"); err != nil {
		return fmt.Errorf("write to child %q: %w", c.name, err)
	}
	return nil
}

// CloseInput ends the child's standard input.
func (c *Child) CloseInput() error { return c.input.Close() }

// Kill ends the child at once, as kill -9 does; Wait tells when it is gone. A child that has ended stays as it was.
func (c *Child) Kill() {
	_ = c.cmd.Process.Kill() // the one error is that it has ended
}

// Wait returns nil when the child exited with status 0 within Deadline(timeout). Otherwise the error wraps the
// *exec.ExitError, or os.ErrDeadlineExceeded if the child still runs.
func (c *Child) Wait(timeout time.Duration) error {
	timeout = Deadline(timeout)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-c.exited:
	case <-timer.C:
		return fmt.Errorf("child %q still runs after %v: %w", c.name, timeout, os.ErrDeadlineExceeded)
	}
	if c.err != nil {
		return fmt.Errorf("child %q: %w", c.name, c.err)
	}
	return nil
}

// Stderr returns what the child has written to standard error; all of it once Wait has returned its end.
func (c *Child) Stderr() string { return c.stderr.String() }

// lockedBuffer is read while the child still writes.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
