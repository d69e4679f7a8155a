//go:build !rxe

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
)

// attackFor is how long TestAttack goes on: make attack lets it be a minute.
var attackFor = flag.Duration("attack", 3*time.Second, "how long TestAttack attacks")

// footprint is what a receiver takes of its machine.
type footprint struct {
	Descriptors, Goroutines int
	Heap, Resident          uint64   // bytes
	Open                    []string // what the descriptors are of
}

func init() { children["attacked receiver"] = attackedReceiver }

// attackedReceiver is weftChild that has few descriptors, so that it runs out of them, and prints its footprint for each line
// that it reads.
func attackedReceiver(args []string) int {
	const descriptors = 256
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: descriptors, Max: descriptors}); err != nil {
		fmt.Println(err)
		return 1
	}
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			debug.FreeOSMemory()
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			var open []string
			entries, _ := os.ReadDir("/proc/self/fd")
			for _, e := range entries {
				target, _ := os.Readlink("/proc/self/fd/" + e.Name())
				open = append(open, e.Name()+": "+target+socketState(target))
			}
			status, _ := os.ReadFile("/proc/self/statm")
			var total, resident uint64
			_, _ = fmt.Sscan(string(status), &total, &resident)
			_ = json.NewEncoder(os.Stdout).Encode(footprint{len(entries), runtime.NumGoroutine(), memory.HeapAlloc,
				resident * uint64(os.Getpagesize()), open})
		}
	}()
	return weftChild(args)
}

// socketState is what the kernel says of a socket: its addresses and state, in hexadecimal; nothing of one without a connection.
func socketState(target string) string {
	inode, ok := strings.CutPrefix(target, "socket:[")
	table, _ := os.ReadFile("/proc/self/net/tcp")
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); ok && len(f) > 9 && f[9]+"]" == inode {
			return " " + strings.Join(f[1:4], " ")
		}
	}
	return ""
}

// target is a receiver under attack.
type target struct {
	t             *testing.T
	child         *rdmatest.Child
	address, data string
	key           []byte // nil: none
	keyFile       string
	dir           string
	prints        chan footprint

	before  footprint
	served  atomic.Int64
	slowest time.Duration // of the honest senders
}

// newTarget starts a receiver.
func newTarget(t *testing.T, key string) *target {
	t.Helper()
	g := &target{t: t, dir: t.TempDir(), prints: make(chan footprint, 1)}
	args := []string{"recv", "--rail", "fabric:tcp", "--dir", g.dir, "--listen", "127.0.0.1:0", "--window", "65536"}
	if key != "" {
		g.key, g.keyFile = []byte(key), keyFile(t, key)
		args = append(args, "--key-file", g.keyFile)
	}
	g.child = rdmatest.StartChild(t, "attacked receiver", args...)
	line := readUntil(t, g.child, `^weft: listening on (\S+; data on \S+) by fabric:tcp; `)
	g.address, g.data, _ = strings.Cut(line, "; data on ")
	go func() {
		for {
			line, err := g.child.ReadLine(time.Hour)
			if err != nil {
				close(g.prints)
				return
			}
			var print footprint
			if strings.HasPrefix(line, `{"Descriptors"`) && json.Unmarshal([]byte(line), &print) == nil {
				g.prints <- print
			}
		}
	}()
	g.send(rand.New(rand.NewPCG(1, 1))) // after which it has all that it keeps
	g.before = g.footprint()
	return g
}

func (g *target) footprint() footprint {
	g.t.Helper()
	require.NoError(g.t, g.child.WriteLine("", patience))
	select {
	case print, ok := <-g.prints:
		require.True(g.t, ok, "the receiver has ended")
		return print
	case <-time.After(rdmatest.Deadline(patience)):
		require.FailNow(g.t, "the receiver does not answer")
		panic("unreachable")
	}
}

// send is an honest sender.
func (g *target) send(random *rand.Rand) {
	name := fmt.Sprintf("honest %d", g.served.Add(1))
	path := filepath.Join(g.t.TempDir(), name)
	text := make([]byte, random.IntN(512<<10))
	for i := range text {
		text[i] = byte(random.Uint32())
	}
	if !noError(g.t, os.WriteFile(path, text, 0o644)) {
		return
	}
	args := []string{"send", "--rail", "fabric:tcp", path, g.address}
	if g.key != nil {
		args = append(args, "--key-file", g.keyFile)
	}
	var out lockedBuffer
	start := time.Now()
	defer func() { g.slowest = max(g.slowest, time.Since(start)) }()
	if status := run(rdmatest.Context(g.t, patience), args, nil, &out, &out); status != 0 {
		g.t.Errorf("an honest sender was not served: status %d: %s", status, out.String())
		return
	}
	got, err := os.ReadFile(filepath.Join(g.dir, name))
	if noError(g.t, err) && string(got) != string(text) {
		g.t.Errorf("%s arrived spoiled, and nobody noticed", name)
	}
}

// noError is require.NoError for goroutines other than the test's.
func noError(t *testing.T, err error) bool {
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// lockedBuffer is a buffer for the output of a command, which several goroutines write.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// requireAsBefore wants the receiver to take no more of its machine than before the attack, soon after it.
func (g *target) requireAsBefore() {
	g.t.Helper()
	// What allocators keep for the next time, the race detector's among them.
	const heap, resident = 4 << 20, 64 << 20
	var now footprint
	asBefore := func() bool {
		now = g.footprint()
		return now.Descriptors <= g.before.Descriptors && now.Goroutines <= g.before.Goroutines &&
			now.Heap <= g.before.Heap+heap && now.Resident <= g.before.Resident+resident
	}
	require.Eventually(g.t, asBefore, rdmatest.Deadline(patience), 100*time.Millisecond, "before %+v, now %+v", &g.before, &now)
	g.before.Open, now.Open = nil, nil
	g.t.Logf("before %+v, after %+v, %d honest files, the slowest in %v", g.before, now, g.served.Load(), g.slowest)
}

// TestAttack attacks a receiver with a key and one without in every way of attackers_test.go at once. Both serve honest senders
// throughout, and take no more of the machine at the end than at the beginning.
func TestAttack(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	seed := rdmatest.Seed(t)
	targets := []*target{newTarget(t, ""), newTarget(t, "correct horse battery staple")}
	ctx, cancel := context.WithTimeout(context.Background(), *attackFor)
	defer cancel()
	var all sync.WaitGroup
	counts := make([]atomic.Int64, len(attacks)*len(targets))
	for i, a := range attacks {
		for j, g := range targets {
			random := rand.New(rand.NewPCG(seed, uint64(i*len(targets)+j)))
			if a.keyed != nil && *a.keyed != (g.key != nil) || *attackFor < a.lasts {
				continue
			}
			all.Go(func() {
				for ctx.Err() == nil {
					a.attack(g, random)
					counts[i*len(targets)+j].Add(1)
				}
			})
		}
	}
	for j, g := range targets {
		random := rand.New(rand.NewPCG(seed, uint64(1000+j)))
		all.Go(func() {
			for first := true; first || ctx.Err() == nil; first = false {
				g.send(random)
			}
		})
	}
	all.Wait()
	for i, a := range attacks {
		n := int64(0)
		for j := range targets {
			n += counts[i*len(targets)+j].Load()
		}
		require.True(t, n > 0 || *attackFor < a.lasts, "%s never came about", a.name)
		t.Logf("%6d × %s", n, a.name)
	}
	for _, g := range targets {
		g.requireAsBefore()
	}
}
