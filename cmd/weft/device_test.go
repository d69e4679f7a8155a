package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/cmd/weft/internal/filetransfer"
	"github.com/weftrdma/weft/cmd/weft/internal/inbox"
	"github.com/weftrdma/weft/internal/rdmatest"
)

// patience is more than any step of these tests takes on an emulated machine.
const patience = 60 * time.Second

// weftChild is a process that prints its number and then runs a command line, all on standard output.
func weftChild(args []string) int {
	fmt.Println("process", os.Getpid())
	return runUntilSignal(args, os.Stdin, os.Stdout, os.Stdout)
}

// readUntil reads a child's lines up to one that matches, and returns what its first group matched.
func readUntil(t *testing.T, c *rdmatest.Child, pattern string) string {
	t.Helper()
	matches := regexp.MustCompile(pattern)
	for {
		line, err := c.ReadLine(patience)
		require.NoError(t, err, "waiting for %s", pattern)
		if m := matches.FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
}

// startReceiver starts a receiver as a process of its own, and returns where it listens.
func startReceiver(t *testing.T, rail, dir string, args ...string) (c *rdmatest.Child, pid int, address string) {
	t.Helper()
	c = rdmatest.StartChild(t, "weft", append([]string{"recv", "--json", "--rail", rail, "--dir", dir,
		"--listen", "127.0.0.1:0"}, args...)...)
	pid, err := strconv.Atoi(readUntil(t, c, `^process (\d+)$`))
	require.NoError(t, err)
	return c, pid, readUntil(t, c, `^weft: listening on (\S+);`)
}

// randomFile makes a file in the folder.
func randomFile(t *testing.T, dir, name string, size int) (path string) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{byte(size), byte(size >> 8), byte(size >> 16)})
	text := make([]byte, size)
	_, _ = random.Read(text)
	path = filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, text, 0o644))
	return path
}

// requireSame wants a file to be in the folder as it was sent.
func requireSame(t *testing.T, dir, sent string) (sum string) {
	t.Helper()
	want, err := os.ReadFile(sent)
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(dir, filepath.Base(sent)))
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), sent)
	hash := sha256.Sum256(want)
	return hex.EncodeToString(hash[:])
}

func requireEntries(t *testing.T, dir string, n int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".weft-owner-") })
	require.Len(t, entries, n)
}

// eachRail runs a test on libfabric's tcp, and on an RDMA device.
func eachRail(t *testing.T, test func(t *testing.T, rail string)) {
	if !rdmatest.DeviceTier {
		t.Run("fabric:tcp", func(t *testing.T) {
			rdmatest.Require(t, rdmatest.Fabric)
			test(t, "fabric:tcp")
		})
	}
	t.Run("verbs", func(t *testing.T) { test(t, "verbs:"+rdmatest.Device(t)) })
}

// TestSendAndReceive moves files of sizes around those of slots and windows between two processes.
func TestSendAndReceive(t *testing.T) { eachRail(t, sendAndReceive) }

func sendAndReceive(t *testing.T, rail string) {
	const window, slot = 64 << 10, 4 << 10
	from, to := t.TempDir(), t.TempDir()
	receiver, _, address := startReceiver(t, rail, to, "--once", "--window", strconv.Itoa(window))
	args := []string{"send", "--json", "--rail", rail}
	var total uint64
	for i, size := range []int{0, 1, slot - 1, slot, slot + 1, window - 1, window, window + 1, 20*window + 7} {
		args = append(args, randomFile(t, from, fmt.Sprintf("file %d", i), size))
		total += uint64(size)
	}
	status, out, stderr := weft(t, append(args, address)...)
	require.Zero(t, status, stderr)
	var sent, received transferResult
	require.NoError(t, json.Unmarshal([]byte(out), &sent))
	require.NoError(t, json.Unmarshal([]byte(readUntil(t, receiver, `^(\{.*)`)), &received))
	require.NoError(t, receiver.Wait(patience), "--once ends it")

	require.Len(t, sent.Files, len(args)-4)
	require.Equal(t, sent.Files, received.Files)
	for i, f := range sent.Files {
		require.Equal(t, requireSame(t, to, args[4+i]), f.SHA256)
		require.Empty(t, f.Error)
	}
	requireEntries(t, to, len(sent.Files))
	for _, r := range []transferResult{sent, received} {
		require.Equal(t, rail, r.Rail)
		require.Equal(t, total, r.Total.Bytes)
		require.GreaterOrEqual(t, r.RDMABytes, total)
		require.Positive(t, r.ControlBytes)
		require.LessOrEqual(t, r.ControlBytes, int64(64<<10+len(r.Files)<<10))
		require.Positive(t, r.BytesPerSecond)
	}
	require.Equal(t, sent.ControlBytes, received.ControlBytes)
}

// TestTwoSenders send at once, each a file of its own and one of a name that both use.
func TestTwoSenders(t *testing.T) { eachRail(t, twoSenders) }

func twoSenders(t *testing.T, rail string) {
	to := t.TempDir()
	_, _, address := startReceiver(t, rail, to, "--window", "65536")
	var senders [2]*rdmatest.Child
	var own [2]string
	for i := range senders {
		from := t.TempDir()
		own[i] = randomFile(t, from, fmt.Sprintf("own %d", i), 1<<20+i)
		senders[i] = rdmatest.StartChild(t, "weft", "send", "--json", "--rail", rail, own[i],
			randomFile(t, from, "same", 1<<20+10+i), address)
	}
	inPlace := 0
	for i, s := range senders {
		var r transferResult
		require.NoError(t, json.Unmarshal([]byte(readUntil(t, s, `^(\{.*)`)), &r))
		requireSame(t, to, own[i])
		err := s.Wait(patience)
		if r.Files[1].Error == "" {
			require.NoError(t, err)
			inPlace++
			continue
		}
		require.ErrorContains(t, err, "exit status 1")
		require.Contains(t, r.Files[1].Error, "file already exists")
	}
	require.Equal(t, 1, inPlace)
	requireEntries(t, to, 3)
}

// TestForce: a file that exists is replaced only where that was asked for, and a signal stops a receiver.
func TestForce(t *testing.T) { eachRail(t, force) }

func force(t *testing.T, rail string) {
	from, to := t.TempDir(), t.TempDir()
	path := randomFile(t, from, "file", 10_000)
	require.NoError(t, os.WriteFile(filepath.Join(to, "file"), []byte("old"), 0o644))
	for _, force := range []bool{false, true} {
		receiver, pid, address := startReceiver(t, rail, to, fmt.Sprintf("--force=%v", force))
		status, _, stderr := weft(t, "send", "--rail", rail, path, address)
		if force {
			require.Zero(t, status, stderr)
			requireSame(t, to, path)
		} else {
			require.Equal(t, statusFailed, status)
			require.Equal(t, "weft: file: file already exists\n", stderr[strings.LastIndex(stderr, "weft:"):])
			old, err := os.ReadFile(filepath.Join(to, "file"))
			require.NoError(t, err)
			require.Equal(t, "old", string(old))
		}
		requireEntries(t, to, 1)
		require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
		require.NoError(t, receiver.Wait(patience))
	}
}

// stuckFile takes a first chunk, says so, and no more.
type stuckFile struct{}

func (stuckFile) Write([]byte) (int, error) {
	fmt.Println("stuck")
	select {}
}
func (stuckFile) Hole(int64) error { return nil }
func (stuckFile) Publish() error   { return nil }
func (stuckFile) Discard() error   { return nil }
func (stuckFile) Suspend() error   { return nil }

// stuckFolder has only such files.
type stuckFolder struct{}

func (stuckFolder) Check(inbox.Entry) (*inbox.Partial, error) { return nil, nil }
func (stuckFolder) Create(inbox.Entry, *inbox.Partial) (filetransfer.File, error) {
	return stuckFile{}, nil
}
func (stuckFolder) MakeFolder(inbox.Entry) error { return nil }

// stuckReceiver is a process that receives from one sender over the rail and gets stuck in the first file.
func stuckReceiver(args []string) int {
	engine, _, err := (&app{stderr: os.Stderr}).openEngine(args[0], place{local: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	listener, err := listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("listening on", listener.Addr())
	r := filetransfer.Receiver{Engine: engine, Window: 65536,
		Folder: stuckFolder{}}
	fmt.Println(r.Serve(context.Background(), listener))
	return 1
}

// stuckSender is a process that sends a file to an address over the rail and gets stuck in the middle.
func stuckSender(args []string) int {
	engine, _, err := (&app{stderr: os.Stderr}).openEngine(args[0], place{local: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	files, err := filetransfer.Sources(args[1:2], false)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	conn, err := dial(context.Background(), args[2])
	if err != nil {
		fmt.Println(err)
		return 1
	}
	chunks := 0
	s := filetransfer.Sender{Engine: engine, Progress: func(string, int64) {
		if chunks++; chunks == 20 {
			fmt.Println("stuck")
			select {}
		}
	}}
	_, err = s.Send(context.Background(), conn, files)
	fmt.Println(err)
	return 1
}

// TestReceiverKilled: the sender says who is gone and which file is not there.
func TestReceiverKilled(t *testing.T) { eachRail(t, receiverKilled) }

func receiverKilled(t *testing.T, rail string) {
	receiver := rdmatest.StartChild(t, "stuck receiver", rail)
	address := readUntil(t, receiver, "^listening on (.*)$")
	sender := rdmatest.StartChild(t, "weft", "send", "--json", "--rail", rail,
		randomFile(t, t.TempDir(), "file", 1<<20), address)
	readUntil(t, receiver, "^(stuck)$")
	receiver.Kill()
	var r transferResult
	require.NoError(t, json.Unmarshal([]byte(readUntil(t, sender, `^(\{.*)`)), &r))
	require.Contains(t, r.Error, fmt.Sprintf(`send to %s: `, address))
	require.Equal(t, "not sent to the end: "+r.Error, r.Files[0].Error)
	require.ErrorContains(t, sender.Wait(patience), "exit status 1")
}

// TestSenderKilled: the receiver says who is gone, keeps nothing of the file, and serves the next sender.
func TestSenderKilled(t *testing.T) { eachRail(t, senderKilled) }

func senderKilled(t *testing.T, rail string) {
	to := t.TempDir()
	receiver, _, address := startReceiver(t, rail, to, "--window", "65536")
	path := randomFile(t, t.TempDir(), "file", 1<<20)
	sender := rdmatest.StartChild(t, "stuck sender", rail, path, address)
	readUntil(t, sender, "^(stuck)$")
	sender.Kill()
	var r transferResult
	require.NoError(t, json.Unmarshal([]byte(readUntil(t, receiver, `^(\{.*)`)), &r))
	require.Contains(t, r.Error, fmt.Sprintf(`receive from %s: `, r.Peer))
	requireEntries(t, to, 0)
	status, _, stderr := weft(t, "send", "--rail", rail, path, address)
	require.Zero(t, status, stderr)
	requireSame(t, to, path)
}

// TestNoReceiver: nobody listens, or somebody who is no receiver.
func TestNoReceiver(t *testing.T) { eachRail(t, noReceiver) }

func noReceiver(t *testing.T, rail string) {
	path := randomFile(t, t.TempDir(), "file", 10)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, _ = io.WriteString(conn, "220 example.com ESMTP\r\n")
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	}()
	status, _, stderr := weft(t, "send", "--rail", rail, path, l.Addr().String())
	require.Equal(t, statusFailed, status)
	require.Contains(t, stderr, `starts with "220 "`)
	require.NoError(t, l.Close())
	status, _, stderr = weft(t, "send", "--rail", rail, path, l.Addr().String())
	require.Equal(t, statusFailed, status)
	require.Contains(t, stderr, "connection refused")
}

// TestInfoAndDoctorOnDevice: they show the device, and find nothing broken about it.
func TestInfoAndDoctorOnDevice(t *testing.T) {
	device := rdmatest.Device(t)
	_, out, _ := weft(t, "info")
	require.Contains(t, out, "device "+device+": ")
	require.Contains(t, out, "  * GID ")
	_, out, _ = weft(t, "doctor")
	for line := range strings.Lines(out) {
		if strings.Contains(line, " "+device+"/") {
			require.NotContains(t, line, "broken")
		}
	}
	require.Contains(t, out, "ok       port "+device+"/")
}

// TestAuto: both ends say what they took and why, and it works.
func TestAuto(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	to := t.TempDir()
	receiver := rdmatest.StartChild(t, "weft", "recv", "--once", "--rail", "auto", "--dir", to, "--listen", "127.0.0.1:0")
	chosen := readUntil(t, receiver, `^weft: --rail auto: ((?:verbs|fabric):\S+), since .+`)
	address := readUntil(t, receiver, `^weft: listening on (\S+);`)
	path := randomFile(t, t.TempDir(), "file", 100_000)
	status, out, stderr := weft(t, "send", "--rail", "auto", path, address)
	require.Zero(t, status, stderr)
	require.Contains(t, stderr, "weft: --rail auto: "+chosen+", since ")
	require.Contains(t, out, ", over "+chosen+", with "+address)
	requireSame(t, to, path)
}
