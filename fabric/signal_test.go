//go:build linux

package fabric_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
)

// playSurvivor opens an endpoint, and then does what Go programs do with signals: it recovers from a nil dereference, and
// is notified of the signals that libraries under libfabric are known to take over.
func playSurvivor(args []string) int {
	var p process
	if err := p.open(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := recovered(); err == nil {
		fmt.Fprintln(os.Stderr, "a nil dereference did not panic")
		return 1
	}
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGABRT, syscall.SIGILL, syscall.SIGBUS, syscall.SIGHUP} {
		if err := notified(s.(syscall.Signal)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := p.stillNamed(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := p.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// playOpeners opens 200 endpoints from several goroutines at once, and then does what playSurvivor does.
func playOpeners(args []string) int {
	if err := openAtOnce(args[0], 4, 50); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return playSurvivor(args)
}

// openAtOnce has goroutines open an endpoint each, at the same time, and close it, over and over.
func openAtOnce(provider string, goroutines, rounds int) error {
	outcomes := make(chan error, goroutines)
	opened := make([]process, goroutines)
	for i := range opened {
		if err := opened[i].openQueue(provider); err != nil {
			return err
		}
	}
	for range rounds {
		var ready atomic.Int32
		for i := range opened {
			go func() {
				ready.Add(1)
				for int(ready.Load()) < goroutines { // closer together than a channel would start them
					runtime.Gosched()
				}
				outcomes <- opened[i].openEndpoint()
			}()
		}
		var err error
		for range opened {
			err = errors.Join(err, <-outcomes)
		}
		for i := range opened {
			if opened[i].ep != nil {
				err = errors.Join(err, opened[i].ep.Close())
			}
		}
		if err != nil {
			return err
		}
	}
	for i := range opened {
		if err := opened[i].close(); err != nil {
			return err
		}
	}
	return nil
}

// TestGoSurvivesEndpointsOpenedAtOnce: signal actions belong to the process, so calls that save and restore them must not
// overlap; Go's handlers would be lost for good.
func TestGoSurvivesEndpointsOpenedAtOnce(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	require.NoError(t, rdmatest.StartChild(t, "openers", "shm").Wait(patience)) // the provider that takes signals over
}

// stillNamed looks whether an endpoint of shm still has its file: the provider's handlers remove it.
func (p *process) stillNamed(provider string) error {
	name, err := p.ep.Name()
	if err != nil || provider != "shm" {
		return err
	}
	_, err = os.Stat(filepath.Join("/dev/shm", strings.TrimPrefix(string(name), "fi_shm://")))
	return err
}

// recovered is what a nil dereference panics with.
func recovered() (err any) {
	defer func() { err = recover() }()
	var p *int
	*p = 1
	return nil
}

func notified(s syscall.Signal) error {
	c := make(chan os.Signal, 1)
	signal.Notify(c, s)
	defer signal.Stop(c)
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		return err
	}
	select {
	case <-c:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("signal.Notify does not tell of %v", s)
	}
}

func TestGoSurvivesLibfabric(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		require.NoError(t, rdmatest.StartChild(t, "survivor", provider).Wait(patience))
	})
}

// TestDefaultActionOfSignalsStays: a process that asks for nothing ends by a signal, as any does.
func TestDefaultActionOfSignalsStays(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	c := rdmatest.StartChild(t, "holder", "shm")
	line, err := c.ReadLine(patience)
	require.NoError(t, err)
	var pid int
	_, err = fmt.Sscan(line, &pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	require.ErrorContains(t, c.Wait(patience), "terminated")
}

// playHolder opens an endpoint, tells its process and name, and holds it until its input ends.
func playHolder(args []string) int {
	var p process
	if err := p.open(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	name, err := p.ep.Name()
	fmt.Println(os.Getpid(), string(name), err)
	bufio.NewScanner(os.Stdin).Scan()
	if err := p.close(); err != nil {
		return 1
	}
	return 0
}

// files are those under /dev/shm of an endpoint of shm.
func files(t *testing.T, name string) []string {
	t.Helper()
	base, _, _ := strings.Cut(strings.TrimPrefix(name, "fi_shm://"), ":")
	require.Contains(t, base, "weft-")
	found, err := filepath.Glob("/dev/shm/" + base + "*")
	require.NoError(t, err)
	return found
}

func TestNamesOfSharedMemoryVanish(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	t.Run("closed", func(t *testing.T) {
		var name string
		t.Run("open", func(t *testing.T) {
			name = string(open(t, "shm", setting{}).name)
			require.Len(t, files(t, name), 2, "the segment and its lock")
		})
		require.Empty(t, files(t, name))
	})
	t.Run("killed", func(t *testing.T) {
		c := rdmatest.StartChild(t, "holder", "shm")
		line, err := c.ReadLine(patience)
		require.NoError(t, err)
		name := strings.Fields(line)[1]
		living := open(t, "shm", setting{}) // removes nothing of a process that lives
		require.Len(t, files(t, name), 2)
		c.Kill()
		require.Error(t, c.Wait(patience))
		open(t, "shm", setting{})
		require.Empty(t, files(t, name), "opening an endpoint removes what a dead process left")
		require.Len(t, files(t, string(living.name)), 2)
	})
}

// TestCleanUpLeavesANameThatWasTakenAgain: three processes start at once. One has opened the lock of a dead process, another
// removes it, and a third takes the name.
func TestCleanUpLeavesANameThatWasTakenAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weft-0-0123456789abcdef.lock")
	create := func() *os.File {
		lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		require.NoError(t, err)
		t.Cleanup(func() { _ = lock.Close() })
		return lock
	}
	stale := create()
	require.NoError(t, os.Remove(path))
	living := create()
	require.NoError(t, syscall.Flock(int(living.Fd()), syscall.LOCK_EX))
	segment := strings.TrimSuffix(path, ".lock") + ":0:0"
	require.NoError(t, os.WriteFile(segment, nil, 0o600))

	require.NoError(t, fabric.RemoveDeadSegment(stale))
	require.FileExists(t, path)
	require.FileExists(t, segment)

	other, err := os.Open(path) // of the living one
	require.NoError(t, err)
	require.NoError(t, fabric.RemoveDeadSegment(other))
	require.FileExists(t, segment)
	require.NoError(t, other.Close())

	require.NoError(t, living.Close())
	require.NoError(t, fabric.RemoveDeadSegment(create()))
	require.NoFileExists(t, path)
	require.NoFileExists(t, segment)
}
