//go:build !rxe

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
)

// leftovers are the names in a folder that a receiver made up.
func leftovers(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".weft-") {
			names = append(names, e.Name())
		}
	}
	return names
}

// inTheMiddle has a receiver in the middle of a file of a sender that sends no more of it.
func inTheMiddle(t *testing.T, to string, args ...string) (receiver *rdmatest.Child, pid int, sender *rdmatest.Child) {
	t.Helper()
	receiver, pid, address := startReceiver(t, "fabric:tcp", to, append(args, "--window", "64KiB")...)
	sender = rdmatest.StartChild(t, "stuck sender", "fabric:tcp", randomFile(t, t.TempDir(), "file", 4<<20), address)
	readUntil(t, sender, "^(stuck)$")
	return receiver, pid, sender
}

// TestReceiverHungUp: the end of its terminal makes a receiver end in order, with nothing left.
func TestReceiverHungUp(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	to := t.TempDir()
	receiver, pid, _ := inTheMiddle(t, to)
	require.NoError(t, syscall.Kill(pid, syscall.SIGHUP)) // the sender lives on: its death would be another reason
	var r transferResult
	require.NoError(t, json.Unmarshal([]byte(readUntil(t, receiver, `^(\{.*)`)), &r))
	require.Contains(t, r.Error, "its terminal was closed")
	require.Equal(t, 129, r.Status)
	require.ErrorContains(t, receiver.Wait(patience), "exit status 129")
	require.Empty(t, leftovers(t, to))
}

// TestReceiverKilledLeavesNothing for good: the next one cleans up after it, and not after one that lives.
func TestReceiverKilledLeavesNothing(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	to := t.TempDir()
	killed, _, _ := inTheMiddle(t, to)
	_, _, _ = inTheMiddle(t, to)
	require.Len(t, leftovers(t, to), 4, "two owners with one file each")
	killed.Kill()
	require.Error(t, killed.Wait(patience), "until it is gone, and its lock with it")
	_, _, _ = startReceiver(t, "fabric:tcp", to)
	require.Len(t, leftovers(t, to), 2)
}

// TestInterrupted: a sender that Ctrl-C ends says so by its status.
func TestInterrupted(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	receiver := rdmatest.StartChild(t, "stuck receiver", "fabric:tcp")
	address := readUntil(t, receiver, "^listening on (.*)$")
	sender := rdmatest.StartChild(t, "weft", "send", "--json", "--rail", "fabric:tcp", randomFile(t, t.TempDir(), "file", 8<<20), address)
	pid, err := strconv.Atoi(readUntil(t, sender, `^process (\d+)$`))
	require.NoError(t, err)
	readUntil(t, receiver, "^(stuck)$")
	require.NoError(t, syscall.Kill(pid, syscall.SIGINT))
	var r transferResult
	require.NoError(t, json.Unmarshal([]byte(readUntil(t, sender, `^(\{.*)`)), &r))
	require.Equal(t, 130, r.Status)
	require.Contains(t, r.Error, "it was interrupted")
	require.ErrorContains(t, sender.Wait(patience), "exit status 130")
}

// TestStoppedReceiver: one that nobody is using ends well, unless it was to serve one sender.
func TestStoppedReceiver(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	receiver, pid, _ := startReceiver(t, "fabric:tcp", t.TempDir())
	require.NoError(t, syscall.Kill(pid, syscall.SIGINT))
	require.NoError(t, receiver.Wait(patience))
	receiver, pid, _ = startReceiver(t, "fabric:tcp", t.TempDir(), "--once")
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	require.ErrorContains(t, receiver.Wait(patience), "exit status 143")
}

// TestStandardInput arrives under the name that was given, with folders beside it.
func TestStandardInput(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	to, from := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(from, "tree/deep"), 0o755))
	randomFile(t, filepath.Join(from, "tree/deep"), "file", 100_000)
	_, _, address := startReceiver(t, "fabric:tcp", to, "--once")
	stdin, err := os.Open("/proc/self/limits")
	require.NoError(t, err)
	defer stdin.Close()
	a, out, stderr := testApp(false)
	a.stdin = stdin
	require.NoError(t, a.send(rdmatest.Context(t, patience), sendOptions{rail: "fabric:tcp", name: "limits",
		files: []string{"-", filepath.Join(from, "tree")}, to: address}), stderr.String())
	require.Contains(t, out.String(), "4 of 4 files")
	for name, path := range map[string]string{"limits": "/proc/self/limits", "tree/deep/file": filepath.Join(from, "tree/deep/file")} {
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(to, name))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
