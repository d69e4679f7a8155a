package mem_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/mem"
)

func TestWordsAreShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	mine, err := mem.CreateWords(path, 1000)
	require.NoError(t, err)
	theirs, err := mem.OpenWords(path, 1000)
	require.NoError(t, err)
	require.Zero(t, theirs.Load(999))
	const word = uint64(1<<63 | 5)
	mine.Store(999, word)
	require.Equal(t, word, theirs.Load(999))

	_, err = mem.CreateWords(path, 1000)
	require.ErrorIs(t, err, os.ErrExist)
	_, err = mem.OpenWords(path, 1001)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.NoError(t, os.Symlink(path, path+".link"))
	_, err = mem.OpenWords(path+".link", 1000)
	require.ErrorIs(t, err, syscall.ELOOP)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())

	shared, err := mem.OpenSharedWords(path, 1000)
	require.NoError(t, err)
	mine.Store(3, 0)
	shared.Half(3).Store(7)
	require.EqualValues(t, 7, mine.Half(3).Load())
	require.NoError(t, shared.Close())

	require.NoError(t, mine.Close())
	require.Equal(t, word, theirs.Load(999), "it lives as long as somebody maps it")
	require.NoError(t, os.Remove(path))
	require.NoError(t, theirs.Close())
	_, err = mem.OpenWords(path, 1000)
	require.ErrorIs(t, err, os.ErrNotExist)
}
