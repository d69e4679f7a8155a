package filetransfer_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/cmd/weft/internal/filetransfer"
	"github.com/weftrdma/weft/cmd/weft/internal/inbox"
	"github.com/weftrdma/weft/cmd/weft/internal/wire"
	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/simrail"
)

// TestFolder arrives whole: with what is below it, empty folders, modes and times.
func TestFolder(t *testing.T) {
	inFolder(t, "tree/a", "tree/deep/er/b", "tree/read only/c")
	require.NoError(t, os.Mkdir("tree/empty", 0o755))
	require.NoError(t, os.Chmod("tree/read only", 0o555))
	noon := time.Date(2001, 2, 3, 12, 0, 0, 123456789, time.UTC)
	for _, path := range []string{"tree/a", "tree/deep/er", "tree/deep", "tree/empty", "tree/read only", "tree"} {
		require.NoError(t, os.Chtimes(path, time.Time{}, noon))
	}
	t.Cleanup(func() { _ = os.Chmod("tree/read only", 0o755) })
	sources, err := filetransfer.Sources([]string{"tree"}, false)
	require.NoError(t, err)
	r := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Once: true})
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(r.dir, "tree/read only"), 0o755) })
	report, err := r.send("sender", sources...)
	require.NoError(t, err)
	require.Zero(t, report.Total.Failed, "%+v", report.Files)
	require.NoError(t, r.result())
	var seen int
	require.NoError(t, filepath.WalkDir("tree", func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		seen++
		want, err := e.Info()
		require.NoError(t, err)
		got, err := os.Stat(filepath.Join(r.dir, path))
		require.NoError(t, err)
		require.Equal(t, want.Mode(), got.Mode(), path)
		require.True(t, want.ModTime().Equal(got.ModTime()), "%s: %v, not %v", path, got.ModTime(), want.ModTime())
		return nil
	}))
	require.Equal(t, seen, report.Total.Files)
}

// TestManySmallFiles share slots: they take fewer writes than there are files, and no file waits for an answer.
func TestManySmallFiles(t *testing.T) {
	const files = 3000
	dir := t.TempDir()
	for i := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte(fmt.Sprintf("file %d", i)), 0o600))
	}
	sources, err := filetransfer.Sources([]string{dir}, false)
	require.NoError(t, err)
	r := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Once: true})
	engine := openEngine(t, r.network, "sender")
	report, err := filetransfer.Sender{Engine: engine}.Send(rdmatest.Context(t, patience), r.dial(), sources)
	require.NoError(t, err)
	require.Equal(t, filetransfer.Total{Files: files + 1, Bytes: report.Total.Bytes}, report.Total)
	require.Less(t, engine.Stats().Operations, uint64(files/3)) // a slot goes when there is nothing to put into it
	require.Less(t, report.ControlBytes, int64(files*300))
	got, err := os.ReadFile(filepath.Join(r.dir, filepath.Base(dir), "1234"))
	require.NoError(t, err)
	require.Equal(t, "file 1234", string(got))
}

// TestSparse: holes are neither sent nor stored.
func TestSparse(t *testing.T) {
	const hole = 8 << 20
	path := filepath.Join(t.TempDir(), "sparse")
	f, err := os.Create(path)
	require.NoError(t, err)
	for i, text := range []string{"first", "second"} {
		_, err = f.WriteAt([]byte(text), int64(i+1)*hole)
		require.NoError(t, err)
	}
	require.NoError(t, f.Truncate(4*hole))
	require.NoError(t, f.Close())
	whole := filepath.Join(filepath.Dir(path), "nothing but a hole")
	require.NoError(t, os.WriteFile(whole, nil, 0o644))
	require.NoError(t, os.Truncate(whole, hole))
	r := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Once: true})
	files := []filetransfer.Source{listed(t, path, "sparse"), listed(t, whole, "whole")}
	report, err := r.send("sender", files...)
	require.NoError(t, err)
	require.Zero(t, report.Total.Failed, "%+v", report.Files)
	require.Less(t, report.RDMABytes, uint64(hole))
	for _, s := range files {
		want, err := os.ReadFile(s.Path)
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(r.dir, s.Name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
}

// TestLargeHole: a hole is one record, and takes each end longer to hash than the other one waits.
func TestLargeHole(t *testing.T) {
	const hole = 4 << 30
	path := filepath.Join(t.TempDir(), "sparse")
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	require.NoError(t, os.Truncate(path, hole))
	short := filetransfer.Timeouts{Idle: time.Second} // a busy machine says something within it
	r := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Once: true, Timeouts: short})
	s := filetransfer.Sender{Engine: openEngine(t, r.network, "sender"), Timeouts: short}
	report, err := s.Send(rdmatest.Context(t, 4*patience), r.dial(), []filetransfer.Source{listed(t, path, "sparse")})
	require.NoError(t, err)
	require.Empty(t, report.Files[0].Error)
	require.NoError(t, r.result())
	info, err := os.Stat(filepath.Join(r.dir, "sparse"))
	require.NoError(t, err)
	require.EqualValues(t, hole, info.Size())
}

// interrupted sends half of a file to a receiver with the folder, and is cut off.
func interrupted(t *testing.T, dir string, file filetransfer.Source) {
	t.Helper()
	box, err := inbox.Open(dir, inbox.Config{Resume: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, box.Close()) }()
	var arrived atomic.Int64
	var end *receiverEnd
	end = receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Once: true, Folder: filetransfer.InboxFolder(box),
		Progress: func(_, _ string, _ uint64, n int64) {
			if arrived.Add(n) > int64(file.Size/2) {
				end.stop(errors.New("interrupted"))
			}
		}})
	_, err = end.send("sender", file)
	require.ErrorContains(t, err, "interrupted")
	require.Error(t, end.result())
}

// TestResume: of an interrupted file only the rest is sent, if what is there is the beginning of what is sent.
func TestResume(t *testing.T) {
	file := source(t, "file", 8<<20)
	for _, spoiled := range []bool{false, true} {
		dir := t.TempDir()
		interrupted(t, dir, file)
		partials, err := filepath.Glob(filepath.Join(dir, ".weft-part-*"))
		require.NoError(t, err)
		require.Len(t, partials, 1)
		if spoiled {
			f, err := os.OpenFile(partials[0], os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteAt([]byte("spoiled"), 1<<20)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
		box, err := inbox.Open(dir, inbox.Config{Resume: true})
		require.NoError(t, err)
		end := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Once: true, Folder: filetransfer.InboxFolder(box)})
		report, err := end.send("sender", file)
		require.NoError(t, err)
		require.Empty(t, report.Files[0].Error)
		require.NoError(t, end.result())
		require.Equal(t, !spoiled, report.RDMABytes < file.Size*3/4, "%d", report.RDMABytes)
		want, err := os.ReadFile(file.Path)
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, "file"))
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.NoError(t, box.Close())
	}
}

// TestLimits: what is over a sender's limits is refused, and the rest arrives.
func TestLimits(t *testing.T) {
	from, to, err := os.Pipe()
	require.NoError(t, err)
	defer from.Close()
	go func() {
		_, _ = to.WriteString(strings.Repeat("x", 60<<10))
		_ = to.Close()
	}()
	r := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Once: true, MaxBytes: 100 << 10, MaxFiles: 3})
	report, err := r.send("sender", source(t, "a", 50<<10), source(t, "too large", 51<<10), filetransfer.StreamSource(from, "stream"),
		source(t, "b", 10), source(t, "too many", 10))
	require.NoError(t, err)
	for i, text := range []string{"", "more than 102400 bytes", "more than 102400 bytes", "", "3 files are all that one sender may leave"} {
		require.Contains(t, report.Files[i].Error, text)
		require.Equal(t, text == "", report.Files[i].Error == "", report.Files[i].Name)
	}
	require.NoError(t, r.result())
	r.requireFiles(2)
}

// hostile is a sender that writes into its window what it likes.
type hostile struct {
	t       *testing.T
	conn    *wire.Conn
	engine  *transferengine.Engine
	peer    *transferengine.Peer
	region  *transferengine.Region
	window  transferengine.Descriptor
	written int
}

func newHostile(t *testing.T, end *receiverEnd, name string, key ...byte) *hostile {
	t.Helper()
	h := &hostile{t: t, conn: wire.NewConn(end.dial(), patience), engine: openEngine(t, end.network, name)}
	memory, err := mem.Map(slot)
	require.NoError(t, err)
	h.region, err = h.engine.Register(memory.Bytes(), transferengine.RemoteWrite)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = h.conn.Close()
		require.NoError(t, h.region.Close())
		require.NoError(t, memory.Close())
	})
	introduce(t, h.conn, key...)
	require.NoError(t, h.conn.Send(request(t, h.engine, h.region)))
	welcome := afterWaiting(t, h.conn).(*wire.Welcome)
	var address transferengine.Address
	require.NoError(t, address.UnmarshalBinary(welcome.Engine))
	require.NoError(t, h.window.UnmarshalBinary(welcome.Window))
	h.peer, err = h.engine.Connect(rdmatest.Context(t, patience), address)
	require.NoError(t, err)
	return h
}

// write writes the next slot.
func (h *hostile) write(b []byte) {
	h.t.Helper()
	copy(h.region.Bytes(), b)
	var transfer transferengine.Transfer
	at := h.written % (window / slot)
	h.written++
	require.NoError(h.t, h.engine.Write(&transfer, transferengine.Write{Peer: h.peer, Source: h.region, Dest: &h.window,
		DestOffset: uint64(at * slot), Length: slot, Imm: uint32(at), HasImm: true}))
	require.NoError(h.t, transfer.Wait(rdmatest.Context(h.t, patience)))
}

// records are records of kinds and values, one behind the other.
func records(parts ...any) (b []byte) {
	for i := 0; i < len(parts); i += 2 {
		var value []byte
		switch v := parts[i+1].(type) {
		case string:
			value = []byte(v)
		case []uint64:
			for _, n := range v {
				value = binary.BigEndian.AppendUint64(value, n)
			}
		}
		b = binary.BigEndian.AppendUint64(b, uint64(parts[i].(int))<<56|uint64(len(value)))
		b = append(b, value...)
	}
	return append(b, make([]byte, slot-len(b))...)
}

// TestHostileRecords end the transfer with a reason, and nothing is left of it.
func TestHostileRecords(t *testing.T) {
	const start, data, hole, whole = 1, 2, 3, 4
	one := []uint64{0, 0}
	end := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window})
	for i, c := range []struct {
		text string
		slot []byte
	}{
		{"a record of kind 6 with 1 bytes", records(6, "x")},
		{"a record of kind 1 with 8 bytes", records(start, []uint64{0})},
		{"a record of kind 4 with 31 bytes", records(start, one, whole, strings.Repeat("x", 31))},
		{"a record of kind 2 with 4294967295 bytes", append([]byte{2, 0, 0, 0, 255, 255, 255, 255}, make([]byte, 8)...)},
		{"a record of kind 2 with 1 bytes", append([]byte{2, 1, 0, 0, 0, 0, 0, 1}, make([]byte, 8)...)},
		{"it sends bytes of no file", records(data, "x")},
		{"it sends file 1, which is not awaited", records(start, []uint64{1, 0})},
		{"it sends file 18446744073709551615", records(start, []uint64{1<<64 - 1, 0})},
		{"it begins a file inside another one", records(start, one, start, one)},
		{"it sends file 0, which is not awaited", records(start, one, whole, strings.Repeat("x", 32), start, one)},
		{"it sends file 0 from byte 5 on, which nobody asked for", records(start, []uint64{0, 5})},
	} {
		h := newHostile(t, end, fmt.Sprintf("hostile %d", i))
		require.NoError(t, h.conn.Send(&wire.File{Name: "file", Size: 100, Mode: 0o600}))
		require.Equal(t, &wire.Accept{}, afterWaiting(t, h.conn))
		h.write(c.slot)
		requireAbort(t, h.conn, c.text)
	}
	h := newHostile(t, end, "more than announced")
	require.NoError(t, h.conn.Send(&wire.File{Name: "file", Size: 100, Mode: 0o600}))
	require.Equal(t, &wire.Accept{}, afterWaiting(t, h.conn))
	h.write(records(start, one, hole, []uint64{101}, whole, strings.Repeat("x", 32)))
	require.Equal(t, &wire.Answer{Refusal: "it has more bytes than the 100 that were announced"}, afterWaiting(t, h.conn))
	require.NoError(t, h.conn.Close())
	require.Eventually(t, func() bool { return len(temporary(t, end.dir)) == 0 }, patience, time.Millisecond)
	end.requireFiles(0)
}

// temporary are the names of files under way.
func temporary(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".weft-") && !strings.HasPrefix(e.Name(), ".weft-owner-") {
			names = append(names, e.Name())
		}
	}
	return names
}
