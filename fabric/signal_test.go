//go:build linux

package fabric_test

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
