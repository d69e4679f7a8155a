package inbox_test

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/cmd/weft/internal/inbox"
)

var noon = time.Date(2001, 2, 3, 12, 0, 0, 123456789, time.UTC)

// begin begins a file with a text, and leaves it under way.
func begin(t *testing.T, b *inbox.Inbox, e inbox.Entry, text string) *inbox.File {
	t.Helper()
	f, err := b.Create(e, nil)
	require.NoError(t, err)
	_, err = f.Write([]byte(text))
	require.NoError(t, err)
	return f
}

// temporaries are the names in the folder and those below it that inboxes made up, but for their owners'.
func temporaries(t *testing.T, dir string) (found []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if name := e.Name(); strings.HasPrefix(name, ".weft-") && !strings.HasPrefix(name, ".weft-owner-") {
			found = append(found, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	}))
	return found
}

// TestCleanAfterKilled: the next inbox removes what a killed one has left, wherever it is, and nothing else.
func TestCleanAfterKilled(t *testing.T) {
	killed, dir := openUnclosed(t, inbox.Config{})
	living, err := inbox.Open(dir, inbox.Config{})
	require.NoError(t, err)
	_ = begin(t, killed, inbox.Entry{Name: "top"}, "x")
	_ = begin(t, killed, inbox.Entry{Name: "a/b/deep"}, "x")
	alive := begin(t, living, inbox.Entry{Name: "a/alive", Mode: 0o644}, "alive")
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".weft-mine"), nil, 0o600), "a file of somebody else")
	require.Len(t, temporaries(t, dir), 4)
	killed.Abandon()

	b, err := inbox.Open(dir, inbox.Config{})
	require.NoError(t, err)
	require.Len(t, temporaries(t, dir), 2)
	require.NoError(t, alive.Publish(), "of a living one nothing is touched")
	require.NoError(t, living.Close())
	require.NoError(t, b.Close())
	require.Equal(t, []string{".weft-mine"}, temporaries(t, dir))
	requireFile(t, filepath.Join(dir, "a/alive"), "alive")
	owners, err := filepath.Glob(filepath.Join(dir, ".weft-owner-*"))
	require.NoError(t, err)
	require.Empty(t, owners)
}

// TestCleanFollowsNothing: what stands in an owner's file was written by who knows whom.
func TestCleanFollowsNothing(t *testing.T) {
	_, dir := open(t, inbox.Config{})
	outside := filepath.Dir(dir)
	const id = "abcdefghijklmnopqrstuvwxyz"
	require.NoError(t, os.WriteFile(filepath.Join(outside, ".weft-"+id+"-1-"), nil, 0o600))
	require.NoError(t, os.Symlink("..", filepath.Join(dir, "link")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".weft-owner-"+id), []byte("..\x00link\x00/\x00link/inbox\x00\x00"), 0o600))
	require.NoError(t, os.Symlink("../outside", filepath.Join(dir, ".weft-owner-link")))
	b, err := inbox.Open(dir, inbox.Config{})
	require.NoError(t, err)
	require.NoError(t, b.Close())
	require.FileExists(t, filepath.Join(outside, ".weft-"+id+"-1-"))
	require.NoFileExists(t, filepath.Join(dir, ".weft-owner-"+id))
	requireFile(t, filepath.Join(outside, "outside"), "outside")
}

// openUnclosed is open for an inbox that the test abandons.
func openUnclosed(t *testing.T, config inbox.Config) (*inbox.Inbox, string) {
	t.Helper()
	dir := t.TempDir()
	b, err := inbox.Open(dir, config)
	require.NoError(t, err)
	return b, dir
}

const large = 2 << 20

func largeEntry() inbox.Entry {
	return inbox.Entry{Name: "folder/large", Mode: 0o640, Size: large, ModTime: noon}
}

// TestResume: an inbox that resumes goes on with what is there of a file that was interrupted, or whose receiver was killed.
func TestResume(t *testing.T) {
	for _, how := range []string{"suspended", "killed"} {
		b, dir := openUnclosed(t, inbox.Config{Resume: true})
		half := strings.Repeat("x", large/2)
		f := begin(t, b, largeEntry(), half)
		if how == "killed" {
			b.Abandon()
		} else {
			require.NoError(t, f.Suspend())
			require.NoError(t, b.Close())
		}
		b, err := inbox.Open(dir, inbox.Config{Resume: true})
		require.NoError(t, err)
		other := largeEntry()
		other.ModTime = noon.Add(1)
		have, err := b.Check(other)
		require.NoError(t, err)
		require.Nil(t, have, "of another file")
		have, err = b.Check(largeEntry())
		require.NoError(t, err)
		require.NotNil(t, have, how)
		require.EqualValues(t, large/2, have.Size)
		got, err := io.ReadAll(have)
		require.NoError(t, err)
		require.Equal(t, half, string(got))
		require.NoError(t, have.Close())

		f, err = b.Create(largeEntry(), have)
		require.NoError(t, err)
		_, err = b.Create(largeEntry(), have)
		require.ErrorContains(t, err, "send it again", "somebody else goes on with it")
		_, err = f.Write([]byte(half))
		require.NoError(t, err)
		require.NoError(t, f.Publish())
		requireFile(t, filepath.Join(dir, "folder/large"), half+half)
		require.NoError(t, b.Close())
		requireOnly(t, dir, "folder", "folder/large")
	}
}

// TestResumeChanged: what is there of a file is not gone on with if it is no longer what was compared.
func TestResumeChanged(t *testing.T) {
	for _, exchanged := range []bool{false, true} {
		b, dir := open(t, inbox.Config{Resume: true})
		require.NoError(t, begin(t, b, largeEntry(), strings.Repeat("x", large/2)).Suspend())
		partial := filepath.Join(dir, temporaries(t, dir)[0])
		require.NoError(t, os.Chtimes(partial, time.Time{}, noon))
		have, err := b.Check(largeEntry())
		require.NoError(t, err)
		require.NoError(t, have.Close())
		after := noon.Add(1) // the clock of a file system may not have ticked meanwhile
		if exchanged {
			require.NoError(t, os.Rename(partial, filepath.Join(dir, "kept")))
			after = noon // another file that looks the same
		}
		require.NoError(t, os.WriteFile(partial, []byte(strings.Repeat("y", large/2)), 0o600))
		require.NoError(t, os.Chtimes(partial, time.Time{}, after))
		_, err = b.Create(largeEntry(), have)
		require.ErrorContains(t, err, "has changed: send it again")
		require.Empty(t, temporaries(t, dir))
	}
}

// TestNotResumed: nothing is kept of small files, of streams, and by inboxes that do not resume.
func TestNotResumed(t *testing.T) {
	b, dir := open(t, inbox.Config{Resume: true})
	require.NoError(t, begin(t, b, largeEntry(), "little of it").Suspend())
	stream := largeEntry()
	stream.Size = 1<<64 - 1
	require.NoError(t, begin(t, b, stream, strings.Repeat("x", large)).Suspend())
	plain, err := inbox.Open(dir, inbox.Config{})
	require.NoError(t, err)
	require.NoError(t, begin(t, plain, largeEntry(), strings.Repeat("x", large/2)).Suspend())
	require.NoError(t, plain.Close())
	require.Empty(t, temporaries(t, dir))
}

// TestTimesAndHoles: a file has the time of the one that was sent, and its holes.
func TestTimesAndHoles(t *testing.T) {
	b, dir := open(t, inbox.Config{})
	f, err := b.Create(inbox.Entry{Name: "sparse", Mode: 0o444, ModTime: noon}, nil)
	require.NoError(t, err)
	const hole = 4 << 20
	require.NoError(t, f.Hole(hole))
	_, err = f.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, f.Hole(hole))
	require.NoError(t, f.Publish())
	path := filepath.Join(dir, "sparse")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 2*hole+1, info.Size())
	require.True(t, info.ModTime().Equal(noon), "%v", info.ModTime())
	require.Equal(t, fs.FileMode(0o444), info.Mode())
	require.Less(t, blocks(info), int64(hole/512))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("\x00", hole)+"x"+strings.Repeat("\x00", hole), string(got))
}

// TestFolders: a folder that was made gets its mode and time after its files came, and one that was there keeps its own.
func TestFolders(t *testing.T) {
	b, dir := open(t, inbox.Config{})
	require.NoError(t, os.Mkdir(filepath.Join(dir, "old"), 0o711))
	for _, name := range []string{"new", "old", "new/below"} {
		require.NoError(t, put(b, name+"/file", "x"))
		folder := inbox.Entry{Name: name, Folder: true, Mode: 0o500, ModTime: noon}
		_, err := b.Check(folder)
		require.NoError(t, err)
		if name != "new" {
			require.NoError(t, b.MakeFolder(folder))
		}
	}
	require.NoError(t, b.MakeFolder(inbox.Entry{Name: "new", Folder: true, Mode: 0o500, ModTime: noon}))
	require.NoError(t, b.MakeFolder(inbox.Entry{Name: "empty", Folder: true, Mode: 0o755, ModTime: noon}))
	for name, mode := range map[string]fs.FileMode{"new": 0o500, "new/below": 0o500, "old": 0o711, "empty": 0o755} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
		require.Equal(t, name != "old", info.ModTime().Equal(noon), name)
	}
	require.NoError(t, os.Chmod(filepath.Join(dir, "new"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(dir, "new/below"), 0o700))
	_, err := b.Check(inbox.Entry{Name: "new/file", Folder: true})
	require.ErrorContains(t, err, "not a folder")
}

// TestResumeBehindAHole: what is there of an interrupted file ends where its last hole does.
func TestResumeBehindAHole(t *testing.T) {
	b, dir := openUnclosed(t, inbox.Config{Resume: true})
	f, err := b.Create(largeEntry(), nil)
	require.NoError(t, err)
	require.NoError(t, f.Hole(large/2))
	require.NoError(t, f.Suspend())
	have, err := b.Check(largeEntry())
	require.NoError(t, err)
	require.NotNil(t, have, "%v", temporaries(t, dir))
	require.EqualValues(t, large/2, have.Size)
	require.NoError(t, have.Close())
	require.NoError(t, b.Close())
}

// TestOwnerFileIsBounded: a receiver keeps no list of all folders that it ever put a file into, and still knows where files are
// under way.
func TestOwnerFileIsBounded(t *testing.T) {
	b, dir := openUnclosed(t, inbox.Config{})
	_ = begin(t, b, inbox.Entry{Name: "first/under way"}, "x")
	long := strings.Repeat("x", 200)
	for i := range 3000 {
		f := begin(t, b, inbox.Entry{Name: fmt.Sprintf("%s/%d/file", long, i)}, "x")
		switch i % 2 {
		case 0:
			require.NoError(t, f.Publish())
		case 1:
			require.NoError(t, f.Discard())
		}
	}
	_ = begin(t, b, inbox.Entry{Name: "last/under way"}, "x")
	owners, err := filepath.Glob(filepath.Join(dir, ".weft-owner-*"))
	require.NoError(t, err)
	require.Len(t, owners, 1)
	info, err := os.Stat(owners[0])
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(2000*len(long)))
	require.Len(t, temporaries(t, dir), 2)
	b.Abandon()
	b, err = inbox.Open(dir, inbox.Config{})
	require.NoError(t, err)
	require.Empty(t, temporaries(t, dir))
	require.NoError(t, b.Close())
}
