//go:build linux || darwin

package mem_test

import (
	"math"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
)

func TestMain(m *testing.M) { rdmatest.Main(m, nil) }

func TestMapGivesExactlyWhatWasAskedFor(t *testing.T) {
	page := os.Getpagesize()
	for _, size := range []int{1, page - 1, page, page + 1, 1 << 20} {
		buffer, err := mem.Map(size)
		require.NoError(t, err)
		b := buffer.Bytes()
		require.Len(t, b, size)
		require.Equal(t, size, cap(b))
		require.Zero(t, uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(page), "at a page boundary")
		for i := range b {
			require.Zero(t, b[i])
			b[i] = byte(i)
		}
		require.Equal(t, byte(size-1), buffer.Bytes()[size-1])
		require.NoError(t, buffer.Close())
	}
}

func TestCloseUnmapsOnce(t *testing.T) {
	buffer, err := mem.Map(1)
	require.NoError(t, err)
	require.Contains(t, life.Live()[0], "memory buffer")
	require.NoError(t, buffer.Close())
	require.NoError(t, buffer.Close())
	require.Nil(t, buffer.Bytes())
	require.Empty(t, life.Live())
}

func TestMapRefusesSizesThatCannotBe(t *testing.T) {
	for _, size := range []int{0, -1, math.MinInt, math.MaxInt} {
		_, err := mem.Map(size)
		require.ErrorIs(t, err, syscall.EINVAL, size)
		require.ErrorContains(t, err, "the size must be from 1 to ")
	}
}

func TestMapReportsTheKernelsRefusal(t *testing.T) {
	_, err := mem.Map(math.MaxInt - os.Getpagesize() + 1) // the largest size allowed, beyond any address space
	require.ErrorIs(t, err, syscall.ENOMEM)
	require.ErrorContains(t, err, "mmap: ")
}
