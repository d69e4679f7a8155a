package inbox_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/cmd/weft/internal/inbox"
)

// open returns an inbox and its folder. Beside the folder lies a file that nothing may change.
func open(t *testing.T, config inbox.Config) (*inbox.Inbox, string) {
	t.Helper()
	above := t.TempDir()
	dir := filepath.Join(above, "inbox")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(above, "outside"), []byte("outside"), 0o644))
	b, err := inbox.Open(dir, config)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, b.Close())
		requireFile(t, filepath.Join(above, "outside"), "outside")
	})
	return b, dir
}

func put(b *inbox.Inbox, name, text string) error {
	f, err := b.Create(inbox.Entry{Name: name, Mode: 0o644}, nil)
	if err != nil {
		return err
	}
	if _, err := f.Write([]byte(text)); err != nil {
		return errors.Join(err, f.Discard())
	}
	return f.Publish()
}

func requireFile(t *testing.T, path, text string) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

// requireOnly wants nothing in the folder and those below it but the files and folders of the names.
func requireOnly(t *testing.T, dir string, names ...string) {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if path != dir && !strings.HasPrefix(path, dir+"/.weft-owner-") { // which lives as long as the inbox
			found = append(found, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	}))
	require.ElementsMatch(t, names, found)
}

func TestPublish(t *testing.T) {
	b, dir := open(t, inbox.Config{})
	require.NoError(t, put(b, "file", "text"))
	require.NoError(t, put(b, "a/b/file", "below"))
	require.NoError(t, put(b, "a/b/other", ""))
	require.NoError(t, put(b, `back\slash`, "x"))
	require.NoError(t, put(b, "...", "three dots"))
	requireFile(t, filepath.Join(dir, "file"), "text")
	requireFile(t, filepath.Join(dir, "a/b/file"), "below")
	requireFile(t, filepath.Join(dir, "a/b/other"), "")
	requireOnly(t, dir, "file", "a", "a/b", "a/b/file", "a/b/other", `back\slash`, "...")
}

func TestMode(t *testing.T) {
	b, dir := open(t, inbox.Config{})
	for name, mode := range map[string]fs.FileMode{"script": 0o700, "secret": 0o400, "none": 0} {
		f, err := b.Create(inbox.Entry{Name: name, Mode: mode}, nil)
		require.NoError(t, err)
		_, err = f.Write([]byte("text"))
		require.NoError(t, err)
		require.NoError(t, f.Publish())
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode())
	}
	_, err := b.Create(inbox.Entry{Name: "root", Mode: fs.ModeSetuid | 0o755}, nil)
	require.Error(t, err)
	requireOnly(t, dir, "script", "secret", "none")
}

func TestInvisibleUntilPublished(t *testing.T) {
	b, dir := open(t, inbox.Config{})
	f, err := b.Create(inbox.Entry{Name: "file", Mode: 0o644}, nil)
	require.NoError(t, err)
	_, err = f.Write([]byte("half"))
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(dir, "file"))
	require.Len(t, temporaries(t, dir), 1)
	require.Regexp(t, `^\.weft-[a-z2-7]{26}-1-$`, temporaries(t, dir)[0])
	require.NoError(t, f.Discard())
	require.NoError(t, f.Discard(), "again")
	requireOnly(t, dir)
}

func TestHostileNames(t *testing.T) {
	b, dir := open(t, inbox.Config{Replace: true})
	for name, reason := range map[string]string{
		"":                              "it is empty",
		"/etc/passwd":                   "it is absolute",
		"/":                             "it is absolute",
		"..":                            `the element ".."`,
		"../outside":                    `the element ".."`,
		"a/../../outside":               `the element ".."`,
		"a/..":                          `the element ".."`,
		".":                             `the element "."`,
		"./file":                        `the element "."`,
		"a//b":                          `the element ""`,
		"a/":                            `the element ""`,
		"nul\x00":                       "NUL",
		strings.Repeat("x", 256):        "256 bytes, more than 255",
		strings.Repeat("a/", 128) + "b": "129 elements, more than 128",
		".weft-x":                       "the receiver's own",
		"a/.weft-owner-x":               "the receiver's own",
		"a/" + strings.Repeat("y", 256): "256 bytes, more than 255",
	} {
		_, err := b.Create(inbox.Entry{Name: name, Mode: 0o644}, nil)
		require.ErrorContains(t, err, reason, "%q", name)
		_, err = b.Check(inbox.Entry{Name: name})
		require.ErrorContains(t, err, reason, "%q", name)
		require.ErrorContains(t, b.MakeFolder(inbox.Entry{Name: name, Folder: true}), reason, "%q", name)
	}
	requireOnly(t, dir)
	require.NoError(t, put(b, strings.Repeat("x", 255), "longest"))
	_, err := b.Create(inbox.Entry{Name: "x\x1b[2J/..", Mode: 0o644}, nil)
	require.ErrorContains(t, err, `its name is refused: it has the element ".."`)
}

func TestExistingFile(t *testing.T) {
	b, dir := open(t, inbox.Config{})
	require.NoError(t, put(b, "file", "first"))
	_, err := b.Create(inbox.Entry{Name: "file", Mode: 0o644}, nil)
	require.ErrorIs(t, err, fs.ErrExist)
	requireFile(t, filepath.Join(dir, "file"), "first")
	requireOnly(t, dir, "file")

	_, err = b.Create(inbox.Entry{Name: "file/below", Mode: 0o644}, nil)
	require.ErrorContains(t, err, `"file" is not a folder`)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	_, err = b.Create(inbox.Entry{Name: "folder", Mode: 0o644}, nil)
	require.ErrorContains(t, err, "not a file")
}

func TestReplace(t *testing.T) {
	b, dir := open(t, inbox.Config{Replace: true})
	require.NoError(t, put(b, "file", "first"))
	require.NoError(t, put(b, "file", "second"))
	requireFile(t, filepath.Join(dir, "file"), "second")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	_, err := b.Create(inbox.Entry{Name: "folder", Mode: 0o644}, nil)
	require.ErrorContains(t, err, "not a file")
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	_, err = b.Create(inbox.Entry{Name: "fifo", Mode: 0o644}, nil)
	require.ErrorContains(t, err, "not a file")
	requireOnly(t, dir, "file", "folder", "fifo")
}

// TestLinks puts links, to inside and outside, where a name's last and middle elements are. Neither kind of inbox may
// write through one, nor replace one.
func TestLinks(t *testing.T) {
	for _, replace := range []bool{false, true} {
		b, dir := open(t, inbox.Config{Replace: replace})
		require.NoError(t, put(b, "folder/file", "inside"))
		for link, target := range map[string]string{
			"to-file": "folder/file", "to-folder": "folder", "to-outside": "../outside", "to-above": "..",
			"dangling": "nothing", "folder/deep": ".", "absolute": filepath.Dir(dir),
		} {
			require.NoError(t, os.Symlink(target, filepath.Join(dir, link)))
		}
		for _, name := range []string{"to-file", "to-folder", "to-outside", "to-above", "dangling", "folder/deep"} {
			_, err := b.Create(inbox.Entry{Name: name, Mode: 0o644}, nil)
			require.ErrorContains(t, err, "there is a link of that name", name)
			for _, folder := range []bool{false, true} {
				_, err = b.Check(inbox.Entry{Name: name, Folder: folder})
				require.ErrorContains(t, err, "there is a link of that name", name)
			}
		}
		for _, name := range []string{
			"to-folder/file", "to-folder/new", "to-above/outside", "absolute/outside", "dangling/new", "folder/deep/file",
			"folder/deep/deep/new",
		} {
			_, err := b.Create(inbox.Entry{Name: name, Mode: 0o644}, nil)
			require.ErrorContains(t, err, "is a link", name)
			_, err = b.Check(inbox.Entry{Name: name})
			require.ErrorContains(t, err, "is a link", name)
			require.ErrorContains(t, b.MakeFolder(inbox.Entry{Name: name, Folder: true}), "is a link", name)
		}
		requireFile(t, filepath.Join(dir, "folder/file"), "inside")
		requireOnly(t, dir, "folder", "folder/file", "folder/deep", "to-file", "to-folder", "to-outside", "to-above",
			"dangling", "absolute")
	}
}

// TestNameTakenMeanwhile puts something under the name after the file was begun.
func TestNameTakenMeanwhile(t *testing.T) {
	for taken, take := range map[string]func(path string) error{
		"exists":     func(path string) error { return os.WriteFile(path, []byte("other"), 0o644) },
		"not a file": func(path string) error { return os.Mkdir(path, 0o755) },
		"link":       func(path string) error { return os.Symlink("../outside", path) },
	} {
		b, dir := open(t, inbox.Config{})
		f, err := b.Create(inbox.Entry{Name: "file", Mode: 0o644}, nil)
		require.NoError(t, err)
		_, err = f.Write([]byte("mine"))
		require.NoError(t, err)
		require.NoError(t, take(filepath.Join(dir, "file")))
		require.ErrorContains(t, f.Publish(), taken)
		requireOnly(t, dir, "file")
	}
}

// TestTwoOfOneName has many goroutines publish one name at once: one of them wins, and its file is whole.
func TestTwoOfOneName(t *testing.T) {
	b, dir := open(t, inbox.Config{})
	const senders = 8
	files := make([]*inbox.File, senders)
	texts := make([]string, senders)
	for i := range files {
		var err error
		files[i], err = b.Create(inbox.Entry{Name: "folder/file", Mode: 0o644}, nil)
		require.NoError(t, err)
		texts[i] = strings.Repeat(string(rune('a'+i)), 1000)
		_, err = files[i].Write([]byte(texts[i]))
		require.NoError(t, err)
	}
	errs := make([]error, senders)
	var wg sync.WaitGroup
	for i, f := range files {
		wg.Go(func() { errs[i] = f.Publish() })
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		if err == nil {
			require.Equal(t, -1, winner, "two winners")
			winner = i
			continue
		}
		require.ErrorIs(t, err, fs.ErrExist)
	}
	require.NotEqual(t, -1, winner)
	requireFile(t, filepath.Join(dir, "folder/file"), texts[winner])
	requireOnly(t, dir, "folder", "folder/file")
}

// TestFolderExchanged: a file goes into the folder that was looked at, wherever that has gone.
func TestFolderExchanged(t *testing.T) {
	b, dir := open(t, inbox.Config{})
	f, err := b.Create(inbox.Entry{Name: "folder/file", Mode: 0o644}, nil)
	require.NoError(t, err)
	require.NoError(t, os.Rename(filepath.Join(dir, "folder"), filepath.Join(dir, "moved")))
	require.NoError(t, os.Symlink("..", filepath.Join(dir, "folder")))
	require.NoError(t, f.Publish())
	requireOnly(t, dir, "folder", "moved", "moved/file")
}

func TestOpenWants(t *testing.T) {
	_, err := inbox.Open(filepath.Join(t.TempDir(), "absent"), inbox.Config{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err = inbox.Open(file, inbox.Config{})
	require.ErrorContains(t, err, "not a directory")
}
