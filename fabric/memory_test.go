//go:build linux

package fabric_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// mapAt maps zeroed memory, at an address where nothing is or, with 0, anywhere.
func mapAt(t *testing.T, at uintptr, size int) []byte {
	t.Helper()
	flags := unix.MAP_ANON | unix.MAP_PRIVATE
	if at != 0 {
		flags |= unix.MAP_FIXED_NOREPLACE
	}
	p, err := unix.MmapPtr(-1, 0, *(*unsafe.Pointer)(unsafe.Pointer(&at)), uintptr(size), unix.PROT_READ|unix.PROT_WRITE, flags)
	require.NoError(t, err)
	return unsafe.Slice((*byte)(p), size)
}

func unmap(t *testing.T, memory []byte) {
	t.Helper()
	require.NoError(t, unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(memory)), uintptr(len(memory))))
}
