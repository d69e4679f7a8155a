package filetransfer_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/cmd/weft/internal/filetransfer"
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

func TestSources(t *testing.T) {
	dir := inFolder(t, "a", "b/c", "b/a")
	require.NoError(t, os.Chmod("b/c", fs.ModeSetuid|0o750))
	sources, err := filetransfer.Sources([]string{"a", "./b/c"}, false)
	require.NoError(t, err)
	require.Equal(t, []filetransfer.Source{
		{Path: "a", Name: "a", Size: 1, Mode: 0o640}, {Path: "./b/c", Name: "c", Size: 3, Mode: 0o750},
	}, sources)
	sources, err = filetransfer.Sources([]string{"a", "./b/../b/a"}, true)
	require.NoError(t, err)
	require.Equal(t, "b/a", sources[1].Name)

	require.NoError(t, syscall.Mkfifo("fifo", 0o600))
	long := strings.Repeat("deep/", 102)
	require.NoError(t, os.MkdirAll(long, 0o755))
	require.NoError(t, os.WriteFile(long+"long", nil, 0o644))
	for text, c := range map[string]struct {
		paths    []string
		relative bool
	}{
		"no such file":              {[]string{"absent"}, false},
		"b is a folder":             {[]string{"b"}, false},
		"fifo is not a regular":     {[]string{"fifo"}, false},
		"a and b/a would both":      {[]string{"a", "b/a"}, false},
		"b/a and b//a would both":   {[]string{"b/a", "b//a"}, true},
		"leads out of this folder":  {[]string{filepath.Join(dir, "a")}, true},
		"leads out of this folder:": {[]string{"../" + filepath.Base(dir) + "/a"}, true},
		"its name has 514 bytes":    {[]string{long + "long"}, true},
	} {
		_, err := filetransfer.Sources(c.paths, c.relative)
		require.ErrorContains(t, err, text)
	}
}

// TestSourceChanged: a file that is not what it was when it was looked at is not sent.
func TestSourceChanged(t *testing.T) {
	r := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window})
	grown, gone := source(t, "grown", 10), source(t, "gone", 10)
	require.NoError(t, os.WriteFile(grown.Path, make([]byte, 11), 0o644))
	require.NoError(t, os.Remove(gone.Path))
	_, err := r.send("first", grown)
	require.ErrorContains(t, err, `send "grown" to `)
	require.ErrorContains(t, err, "it changed since it was looked at")
	_, err = r.send("second", gone)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestSourceCutShort: a file becomes shorter while it is being sent.
func TestSourceCutShort(t *testing.T) {
	r := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Once: true})
	file := source(t, "file", 20*window)
	s := filetransfer.Sender{Engine: openEngine(t, r.network, "sender"), Progress: func(int) { _ = os.Truncate(file.Path, slot) }}
	_, err := s.Send(rdmatest.Context(t, patience), r.dial(), []filetransfer.Source{file})
	require.ErrorContains(t, err, "which became shorter")
	require.ErrorContains(t, r.result(), "it gave up: read it, which became shorter")
	r.requireFiles(0)
}
