package filetransfer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/cmd/weft/internal/filetransfer"
	"github.com/weftrdma/weft/cmd/weft/internal/inbox"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

const patience = 30 * time.Second

// receiverEnd is a Receiver at work, with its folder.
type receiverEnd struct {
	t       *testing.T
	network *simrail.Network
	address string
	dir     string
	stop    context.CancelCauseFunc
	ended   chan error

	mu      sync.Mutex
	reports []filetransfer.Report
	errs    []error
}

// newNetwork makes a network that delivers in any order.
func newNetwork(t *testing.T, script simrail.Script) *simrail.Network {
	n := simrail.NewNetwork(simrail.Config{Seed: rdmatest.Seed(t), MaxBatch: 8, PartialPosts: true, Script: script})
	t.Cleanup(func() { require.NoError(t, n.Err()) })
	return n
}

// openEngine opens an engine on the network.
func openEngine(t *testing.T, n *simrail.Network, address string) *transferengine.Engine {
	t.Helper()
	e, err := transferengine.Open(transferengine.Config{Rails: []rail.Opener{n.Rail(address)}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// receive starts a receiver; what is not set in it is filled in.
func receive(t *testing.T, n *simrail.Network, r *filetransfer.Receiver) *receiverEnd {
	t.Helper()
	end := &receiverEnd{t: t, network: n, dir: t.TempDir(), ended: make(chan error, 1)}
	box, err := inbox.Open(end.dir, inbox.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, box.Close()) })
	r.Engine = openEngine(t, n, "receiver")
	if r.Folder == nil {
		r.Folder = filetransfer.InboxFolder(box)
	}
	r.Served = func(report filetransfer.Report, err error) {
		end.mu.Lock()
		defer end.mu.Unlock()
		end.reports, end.errs = append(end.reports, report), append(end.errs, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	end.address = l.Addr().String()
	ctx, cancel := context.WithCancelCause(rdmatest.Context(t, patience))
	end.stop = cancel
	go func() { end.ended <- r.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel(errors.New("the test is over"))
		_ = end.result()
	})
	return end
}

// result is what Serve returned.
func (end *receiverEnd) result() error {
	err := <-end.ended
	end.ended <- err
	return err
}

// only is what became of the only sender.
func (end *receiverEnd) only() (filetransfer.Report, error) {
	end.t.Helper()
	end.mu.Lock()
	defer end.mu.Unlock()
	require.Len(end.t, end.reports, 1)
	return end.reports[0], end.errs[0]
}

// dial connects to the receiver.
func (end *receiverEnd) dial() net.Conn {
	end.t.Helper()
	conn, err := net.DialTimeout("tcp", end.address, patience)
	require.NoError(end.t, err)
	return conn
}

// send sends the files with an engine of its own.
func (end *receiverEnd) send(name string, files ...filetransfer.Source) (filetransfer.Report, error) {
	s := filetransfer.Sender{Engine: openEngine(end.t, end.network, name)}
	return s.Send(rdmatest.Context(end.t, patience), end.dial(), files)
}

// source makes a file of random bytes.
func source(t *testing.T, name string, size int) filetransfer.Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "source")
	random := rand.NewChaCha8([32]byte{byte(size), byte(size >> 8), byte(size >> 16)})
	text := make([]byte, size)
	_, _ = random.Read(text)
	require.NoError(t, os.WriteFile(path, text, 0o640))
	return listed(t, path, name)
}

// listed is the source that a path is, under a name.
func listed(t *testing.T, path, name string) filetransfer.Source {
	t.Helper()
	sources, err := filetransfer.Sources([]string{path}, false)
	require.NoError(t, err)
	require.Len(t, sources, 1)
	sources[0].Name = name
	return sources[0]
}

// requireArrived wants the files in the folder as they were sent, with their hashes in the report, and nothing else there.
func (end *receiverEnd) requireArrived(report filetransfer.Report, files ...filetransfer.Source) {
	end.t.Helper()
	var total uint64
	for i, f := range files {
		sent, err := os.ReadFile(f.Path)
		require.NoError(end.t, err)
		got, err := os.ReadFile(filepath.Join(end.dir, f.Name))
		require.NoError(end.t, err)
		require.True(end.t, bytes.Equal(sent, got), f.Name)
		sum := sha256.Sum256(sent)
		require.Equal(end.t, filetransfer.FileReport{Name: f.Name, Bytes: f.Size, SHA256: hex.EncodeToString(sum[:])},
			report.Files[i])
		total += f.Size
	}
	require.GreaterOrEqual(end.t, report.RDMABytes, total)
	require.LessOrEqual(end.t, report.RDMABytes, total+total/64+uint64(256*len(files)), "records are small")
	require.Equal(end.t, filetransfer.Total{Files: len(files), Bytes: total}, report.Total)
	require.Positive(end.t, report.ControlBytes)
	require.LessOrEqual(end.t, report.ControlBytes, int64(64<<10+len(files)<<10))
	end.requireFiles(len(files))
}

// requireFiles wants so many entries in the folder: no temporary ones are left.
func (end *receiverEnd) requireFiles(n int) {
	end.t.Helper()
	there, err := os.ReadDir(end.dir)
	require.NoError(end.t, err)
	there = slices.DeleteFunc(there, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".weft-owner-") })
	require.Len(end.t, there, n)
}

const (
	window = 64 << 10 // 16 slots of
	slot   = 4 << 10
)

func TestFiles(t *testing.T) {
	r := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Once: true})
	var files []filetransfer.Source
	for _, size := range []int{0, 1, slot - 1, slot, slot + 1, 2*slot - 1, window - 1, window, window + 1, 5*window + 77, 0} {
		files = append(files, source(t, fmt.Sprintf("%d of %d", len(files), size), size))
	}
	report, err := r.send("sender", files...)
	require.NoError(t, err)
	r.requireArrived(report, files...)
	require.NoError(t, r.result())
	received, err := r.only()
	require.NoError(t, err)
	r.requireArrived(received, files...)
	require.Equal(t, report.ControlBytes, received.ControlBytes)
	info, err := os.Stat(filepath.Join(r.dir, files[1].Name))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o640), info.Mode())
}

// TestControlBytes: what goes over TCP depends on the number of files alone.
func TestControlBytes(t *testing.T) {
	n := newNetwork(t, simrail.Script{})
	r := receive(t, n, &filetransfer.Receiver{Window: window})
	small, err := r.send("first", source(t, "file a", 1))
	require.NoError(t, err)
	large, err := r.send("second", source(t, "file b", 16<<20))
	require.NoError(t, err)
	require.GreaterOrEqual(t, large.RDMABytes, uint64(16<<20))
	require.InDelta(t, small.ControlBytes, large.ControlBytes, 4) // the engines' names
	require.Less(t, large.ControlBytes, int64(2<<10))
}

func TestDefaultWindow(t *testing.T) {
	r := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{})
	f := source(t, "file", filetransfer.DefaultWindow+4711)
	report, err := r.send("sender", f)
	require.NoError(t, err)
	r.requireArrived(report, f)
}

// TestManySendersAtOnce have the receiver serve them all at a time, some with one name.
func TestManySendersAtOnce(t *testing.T) {
	r := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Seats: 3})
	const senders = 6
	reports, errs := make([]filetransfer.Report, senders), make([]error, senders)
	var wg sync.WaitGroup
	for i := range senders {
		files := []filetransfer.Source{source(t, fmt.Sprintf("own %d", i), 3*window+i), source(t, "same", 2*window+i)}
		s := filetransfer.Sender{Engine: openEngine(t, r.network, fmt.Sprintf("sender %d", i))}
		conn := r.dial()
		wg.Go(func() { reports[i], errs[i] = s.Send(rdmatest.Context(t, patience), conn, files) })
	}
	wg.Wait()
	winners := 0
	for i, report := range reports {
		require.NoError(t, errs[i])
		require.Empty(t, report.Files[0].Error)
		if report.Files[1].Error == "" {
			winners++
		} else {
			require.Contains(t, report.Files[1].Error, "file already exists")
		}
	}
	require.Equal(t, 1, winners)
	r.requireFiles(senders + 1)
}

// TestRefusedFiles: the files that a receiver does not want stop no others.
func TestRefusedFiles(t *testing.T) {
	r := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Once: true})
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "exists"), []byte("old"), 0o644))
	require.NoError(t, os.Symlink("exists", filepath.Join(r.dir, "link")))
	good := source(t, "good", 3*window)
	report, err := r.send("sender", source(t, "exists", window), source(t, "link", window), source(t, "../up", window),
		source(t, "link/below", 10), source(t, "esc\x1b[2J/..", 10), good)
	require.NoError(t, err)
	require.Equal(t, 5, report.Total.Failed)
	for i, text := range []string{"file already exists", "there is a link", `the element ".."`, `"link" is a link`, `the element ".."`} {
		require.Contains(t, report.Files[i].Error, text)
		require.Empty(t, report.Files[i].SHA256)
		require.NotContains(t, report.Files[i].Error, "\x1b")
	}
	require.Less(t, report.RDMABytes, good.Size+window, "of refused files nothing is sent")
	require.Equal(t, good.Size, report.Total.Bytes)
	require.NoError(t, r.result())
	received, err := r.only()
	require.NoError(t, err)
	require.Equal(t, 5, received.Total.Failed)
	got, err := os.ReadFile(filepath.Join(r.dir, "exists"))
	require.NoError(t, err)
	require.Equal(t, "old", string(got))
	r.requireFiles(3)
}

// fullDisk is a file on a disk that has room for so many bytes.
type fullDisk struct {
	filetransfer.File
	room int
}

func (f *fullDisk) Write(p []byte) (int, error) {
	if len(p) > f.room {
		return 0, syscall.ENOSPC
	}
	f.room -= len(p)
	return f.File.Write(p)
}

// folder is a Folder that makes files of a test's own.
type folder struct {
	filetransfer.Folder
	create func(inbox.Entry) (filetransfer.File, error)
}

func (f folder) Check(e inbox.Entry) (*inbox.Partial, error) {
	if f.Folder == nil {
		return nil, nil
	}
	return f.Folder.Check(e)
}

func (f folder) Create(e inbox.Entry, _ *inbox.Partial) (filetransfer.File, error) {
	return f.create(e)
}

// TestOutOfSpace: the receiver's disk is full at the first byte, when the window was full once, and in the middle. That ends the
// file, which is not sent to its end, and nothing else.
func TestOutOfSpace(t *testing.T) {
	for _, room := range []int{0, window, 5*window + 100} {
		dir := t.TempDir()
		box, err := inbox.Open(dir, inbox.Config{})
		require.NoError(t, err)
		in := filetransfer.InboxFolder(box)
		r := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Once: true,
			Folder: folder{in, func(e inbox.Entry) (filetransfer.File, error) {
				f, err := in.Create(e, nil)
				return &fullDisk{File: f, room: room}, err
			}}})
		report, err := r.send("sender", source(t, "big", 100*window), source(t, "empty", 0))
		require.NoError(t, err)
		require.Equal(t, "no space left on device", report.Files[0].Error)
		require.Empty(t, report.Files[0].SHA256)
		require.Empty(t, report.Files[1].Error)
		require.Less(t, report.RDMABytes, uint64(100*window))
		require.NoError(t, r.result())
		received, err := r.only()
		require.NoError(t, err)
		require.Equal(t, "no space left on device", received.Files[0].Error)
		require.NoError(t, box.Close())
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, left, 1)
	}
}

// TestSpoiledBytes: what arrives is not what was sent.
func TestSpoiledBytes(t *testing.T) {
	n := newNetwork(t, simrail.Script{Operation: func(o simrail.Operation) simrail.Fault {
		return simrail.Fault{Corrupt: o.From == "sender" && o.N == 1} // in the middle of a slot that is full of bytes
	}})
	r := receive(t, n, &filetransfer.Receiver{Window: window, Once: true})
	report, err := r.send("sender", source(t, "first", 3*window), source(t, "empty", 0))
	require.NoError(t, err)
	require.Regexp(t, "^what arrived is not what was sent: its SHA-256 is [0-9a-f]{64} ", report.Files[0].Error)
	require.Empty(t, report.Files[1].Error)
	require.NoError(t, r.result())
	r.requireFiles(1)
}
