package filetransfer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/cmd/weft/internal/filetransfer"
	"github.com/weftrdma/weft/cmd/weft/internal/wire"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/simrail"
)

// inFolder makes the files in a folder that is the working one until the test ends.
func inFolder(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range names {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(name), 0o640))
	}
	return dir
}

// short is what matters of sources: a name, a kind and an error each.
func short(sources []filetransfer.Source) (list []string) {
	for _, s := range sources {
		text := s.Name
		if s.Kind == wire.Folder {
			text += "/"
		}
		if s.Err != nil {
			text += ": " + s.Err.Error()
		}
		list = append(list, text)
	}
	return list
}

func TestSources(t *testing.T) {
	dir := inFolder(t, "a", "b/c", "b/a")
	require.NoError(t, os.Chmod("b/c", fs.ModeSetuid|0o750))
	sources, err := filetransfer.Sources([]string{"a", "./b/c", "b"}, false)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "c", "b/a", "b/c", "b/"}, short(sources))
	require.Equal(t, fs.FileMode(0o750), sources[1].Mode)
	require.EqualValues(t, 3, sources[1].Size)
	info, err := os.Stat("a")
	require.NoError(t, err)
	require.True(t, sources[0].ModTime.Equal(info.ModTime()))
	sources, err = filetransfer.Sources([]string{"a", "./b/../b/a"}, true)
	require.NoError(t, err)
	require.Equal(t, "b/a", sources[1].Name)
	sources, err = filetransfer.Sources([]string{"."}, true)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b/a", "b/c", "b/"}, short(sources), "the receiver's folder stands for this one")
	sources, err = filetransfer.Sources([]string{"."}, false)
	require.NoError(t, err)
	require.Equal(t, filepath.Base(dir)+"/b/c", sources[2].Name)

	for text, c := range map[string]struct {
		paths    []string
		relative bool
	}{
		"a and b/a would both":      {[]string{"a", "b/a"}, false},
		"b/a and b//a would both":   {[]string{"b/a", "b//a"}, true},
		"leads out of this folder":  {[]string{filepath.Join(dir, "a")}, true},
		"leads out of this folder:": {[]string{"../" + filepath.Base(dir) + "/a"}, true},
		"has no name":               {[]string{"/"}, false},
	} {
		_, err := filetransfer.Sources(c.paths, c.relative)
		require.ErrorContains(t, err, text)
	}
}

// TestSourcesThatCannotBeSent are listed with the reason, and stop no others.
func TestSourcesThatCannotBeSent(t *testing.T) {
	inFolder(t, "folder/good", "folder/z")
	require.NoError(t, syscall.Mkfifo("folder/fifo", 0o600))
	require.NoError(t, os.Symlink("good", "folder/link"))
	require.NoError(t, os.Symlink("..", "folder/up"))
	require.NoError(t, os.Symlink("folder/good", "named"))
	sources, err := filetransfer.Sources([]string{"folder", "absent", "named"}, false)
	require.NoError(t, err)
	require.Equal(t, []string{
		"folder/fifo: it is a pipe, and only files and folders are sent", "folder/good",
		"folder/link: it is a link, and only files and folders are sent", "folder/up: it is a link, and only files and folders are sent",
		"folder/z", "folder/", "absent: no such file or directory", "named",
	}, short(sources))

	deep := "folder" + strings.Repeat("/"+strings.Repeat("d", 250), 17)
	for at := 6 + 251; at <= len(deep); at += 251 { // MkdirAll by one long path is refused
		require.NoError(t, os.Mkdir(filepath.Base(deep[:at]), 0o755))
		t.Chdir(filepath.Base(deep[:at]))
	}
}

// TestOneFileFails: a source that changed, is gone or unreadable does not end the transfer; each is in both reports.
func TestOneFileFails(t *testing.T) {
	r := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Once: true})
	grown, touched, gone, good := source(t, "grown", 10), source(t, "touched", 10), source(t, "gone", 10), source(t, "good", 3*window)
	require.NoError(t, os.WriteFile(grown.Path, make([]byte, 11), 0o644))
	require.NoError(t, os.Chtimes(touched.Path, time.Time{}, time.Unix(1, 0)))
	require.NoError(t, os.Remove(gone.Path))
	link := filetransfer.Source{Name: "link", Err: errors.New("it is a link")}
	report, err := r.send("sender", grown, link, touched, gone, good)
	require.NoError(t, err)
	const changed = "it changed since it was listed: send it again"
	for i, text := range []string{changed, "it is a link", changed, "no such file or directory", ""} {
		require.Equal(t, text, report.Files[i].Error)
		require.Equal(t, text == "", report.Files[i].SHA256 != "")
	}
	require.Equal(t, filetransfer.Total{Files: 5, Failed: 4, Bytes: good.Size}, report.Total)
	require.NoError(t, r.result())
	received, err := r.only()
	require.NoError(t, err)
	require.Equal(t, filetransfer.Total{Files: 4, Failed: 3, Bytes: good.Size}, received.Total)
	require.Equal(t, "the sender could not send it: "+changed, received.Files[0].Error)
	r.requireFiles(1)
}

// TestSourceChanges: a file that is written to, cut short or touched while it is sent does not arrive, however quickly.
func TestSourceChanges(t *testing.T) {
	for what, change := range map[string]func(path string) error{
		"cut short": func(path string) error { return os.Truncate(path, slot) },
		"written to, with the time of before": func(path string) error {
			before, err := os.Stat(path)
			if err != nil {
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("torn"), 0)
			return errors.Join(err, f.Close(), os.Chtimes(path, time.Time{}, before.ModTime()))
		},
		"touched": func(path string) error { return os.Chtimes(path, time.Time{}, time.Unix(1, 0)) },
	} {
		r := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Once: true})
		file, next := source(t, "file", 20*window), source(t, "next", 10)
		var once sync.Once
		s := filetransfer.Sender{Engine: openEngine(t, r.network, "sender"), Progress: func(string, int64) {
			once.Do(func() { assert.NoError(t, change(file.Path)) })
		}}
		report, err := s.Send(rdmatest.Context(t, patience), r.dial(), []filetransfer.Source{file, next})
		require.NoError(t, err)
		require.Contains(t, report.Files[0].Error, "it changed while it was sent", what)
		require.Empty(t, report.Files[1].Error)
		require.NoError(t, r.result())
		r.requireFiles(1)
	}
}

// TestFileOfUnknownSize: files of /proc have no size, and content.
func TestFileOfUnknownSize(t *testing.T) {
	r := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Once: true})
	sources, err := filetransfer.Sources([]string{"/proc/self/limits", "/proc/version"}, false)
	if len(sources) > 0 && sources[0].Err != nil {
		sources = nil // not on Linux
	}
	require.NoError(t, err)
	report, err := r.send("sender", sources...)
	require.NoError(t, err)
	require.Zero(t, report.Total.Failed)
	for i, s := range sources {
		want, err := os.ReadFile(s.Path)
		require.NoError(t, err)
		require.NotEmpty(t, want)
		got, err := os.ReadFile(filepath.Join(r.dir, s.Name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
		require.EqualValues(t, len(want), report.Files[i].Bytes)
	}
	require.NoError(t, r.result())
}

// TestStream: a pipe is sent as it comes, and what was written arrives before the pipe ends.
func TestStream(t *testing.T) {
	arrived := make(chan string, 100)
	r := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Once: true,
		Timeouts: filetransfer.Timeouts{Idle: time.Second}, // less than the pipe says nothing
		Progress: func(_, file string, _ uint64, n int64) { arrived <- fmt.Sprintf("%d of %s", n, file) }})
	from, to, err := os.Pipe()
	require.NoError(t, err)
	defer from.Close()
	sent := make(chan error, 1)
	s := filetransfer.Sender{Engine: openEngine(t, r.network, "sender"), Timeouts: filetransfer.Timeouts{Idle: time.Second}}
	var report filetransfer.Report
	go func() {
		var err error
		report, err = s.Send(rdmatest.Context(t, patience), r.dial(), []filetransfer.Source{filetransfer.StreamSource(from, "name")})
		sent <- err
	}()
	_, err = to.WriteString("first")
	require.NoError(t, err)
	select {
	case first := <-arrived:
		require.Equal(t, "5 of name", first)
	case err := <-sent:
		require.FailNow(t, "the transfer ended before anything arrived", "%v", err)
	}
	select {
	case err := <-sent:
		require.FailNow(t, "the transfer ended while the pipe was silent", "%v", err)
	case <-time.After(3 * time.Second): // several times Idle
	}
	large := strings.Repeat("x", 5*window)
	_, err = to.WriteString(large)
	require.NoError(t, err)
	require.NoError(t, to.Close())
	require.NoError(t, <-sent)
	require.EqualValues(t, 5+len(large), report.Files[0].Bytes)
	got, err := os.ReadFile(filepath.Join(r.dir, "name"))
	require.NoError(t, err)
	require.Equal(t, "first"+large, string(got))
	require.NoError(t, r.result())
}

// TestStreamInterrupted: a pipe that says nothing keeps nobody from ending.
func TestStreamInterrupted(t *testing.T) {
	r := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Once: true})
	from, to, err := os.Pipe()
	require.NoError(t, err)
	defer to.Close()
	defer from.Close()
	ctx, cancel := context.WithCancelCause(rdmatest.Context(t, patience))
	defer cancel(nil)
	s := filetransfer.Sender{Engine: openEngine(t, r.network, "sender"), Progress: func(string, int64) { cancel(errors.New("interrupted")) }}
	_, err = to.WriteString("x")
	require.NoError(t, err)
	_, err = s.Send(ctx, r.dial(), []filetransfer.Source{filetransfer.StreamSource(from, "name")})
	require.ErrorContains(t, err, "interrupted")
	require.ErrorContains(t, r.result(), "it gave up: interrupted")
	r.requireFiles(0)
}
