package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// tree is a copy of the working tree, in which faults are planted.
type tree struct{ root string }

// copyTree copies what git tracks or would track below the folder.
func copyTree(ctx context.Context, folder string) (tree, error) {
	list := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = folder
	names, err := list.Output()
	if err != nil {
		return tree{}, fmt.Errorf("list the tree's files: %w", err)
	}
	root, err := os.MkdirTemp("", "weft-mutants.")
	if err != nil {
		return tree{}, err
	}
	t := tree{root}
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		if err := t.take(folder, name); err != nil {
			t.remove()
			return tree{}, err
		}
	}
	return t, nil
}

// take copies one file, with its mode. One that git tracks and that is gone stays gone.
func (t tree) take(folder, name string) error {
	from, to := filepath.Join(folder, name), filepath.Join(t.root, name)
	info, err := os.Lstat(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}

func (t tree) remove() { _ = os.RemoveAll(t.root) }

// attempt plants the fault, runs its command, and takes the fault away again. The verdict is found, survived, hung, or invalid
// when the tree does not compile with the fault, which shows nothing.
func (t tree) attempt(ctx context.Context, m mutant) (verdict string, found bool, err error) {
	undo := map[string][]byte{}
	defer func() {
		for name, text := range undo {
			err = errors.Join(err, os.WriteFile(name, text, 0o644)) // the file exists: its mode stays
		}
	}()
	for _, c := range m.changes {
		name := filepath.Join(t.root, c.file)
		text, err := os.ReadFile(name)
		if err != nil {
			return "", false, fmt.Errorf("%s: %s: %w", m.list, m.title, err)
		}
		changed, err := c.apply(text)
		if err != nil {
			return "", false, fmt.Errorf("%s: %s: %w", m.list, m.title, err)
		}
		if undo[name] == nil {
			undo[name] = text
		}
		if err := os.WriteFile(name, changed, 0o644); err != nil {
			return "", false, err
		}
	}
	output, failure := t.command(ctx, m.run)
	switch {
	case failure == nil:
		return "SURVIVED", false, nil
	case errors.Is(failure, context.DeadlineExceeded):
		return "HUNG", false, nil
	case notBuilt.Match(output):
		return "INVALID", false, nil
	}
	return "found", true, nil
}

// notBuilt is in the output of a command whose tree did not compile.
var notBuilt = regexp.MustCompile(`(?m)\[(build|setup) failed\]|^\S+\.[ch]:\d+:\d+: (fatal )?error:`)

// command runs a shell command in the copy, with everything that it starts ended at its end.
func (t tree) command(ctx context.Context, line string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", line)
	c.Dir = t.root
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 10 * time.Second
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	err := c.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return output.Bytes(), err
}

// tail returns the last lines of a command's output.
func tail(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
