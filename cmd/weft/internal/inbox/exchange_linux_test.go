package inbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/weftrdma/weft/cmd/weft/internal/inbox"
)

// TestFolderExchangedAllTheTime has a folder and a link to another one change places all the time. Whatever the moment,
// no file may go through the link.
func TestFolderExchangedAllTheTime(t *testing.T) {
	b, dir := open(t, inbox.Config{})
	folder, link := filepath.Join(dir, "folder"), filepath.Join(dir, "link")
	require.NoError(t, os.Mkdir(folder, 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "target"), 0o755))
	require.NoError(t, os.Symlink("target", link))
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
				err = unix.Renameat2(unix.AT_FDCWD, folder, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
		}
		stopped <- err
	}()
	for i := range 4000 {
		if f, err := b.Create(inbox.Entry{Name: fmt.Sprintf("folder/%d", i), Mode: 0o644}, nil); err == nil {
			require.NoError(t, f.Publish())
		}
	}
	close(stop)
	require.NoError(t, <-stopped)
	through, err := os.ReadDir(filepath.Join(dir, "target"))
	require.NoError(t, err)
	require.Empty(t, through)
}
