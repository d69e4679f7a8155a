//go:build linux

package fabric_test

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/weftrdma/weft/fabric"
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

// A registration cache would go on writing to the pages that were there before: it learns of unmapping from libc, which Go does
// not call. The providers of this machine have none, and this test does not fail with them whatever the user sets: it passes
// with FI_MR_CACHE_MONITOR=memhooks and =userfaultfd and a cache of 1024 regions, where libfabric's log has nothing of a cache
// but that it read these. tcp copies, and shm has the kernel copy, by the address as it is then. It is for providers that pin
// pages; TestVersionsAndVariablesAreTold is what can fail here.
func TestMemoryThatIsMappedAgainIsTheNewOne(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		const size = 1 << 20
		a, b := pair(t, provider, setting{})
		from := a.buffer(size)
		var at uintptr
		for round := byte(1); round <= 3; round++ {
			memory := mapAt(t, at, size)
			at = uintptr(fabric.AddressOf(memory))
			mr, err := b.domain.RegMR(memory, fabric.MRConfig{Access: fabric.AccessAll})
			require.NoError(t, err)
			copy(from.bytes, bytes.Repeat([]byte{round}, size))
			to := buffer{mr, memory}
			a.post(a.ep.Write, []fabric.Op{to.at(fabric.Op{ID: 1, NumSeg: 1, Flags: fabric.FlagDeliveryComplete}, 0)}, from.all(), b)
			a.complete(1, b)
			require.Equal(t, from.bytes, memory)
			// And as the source of a write.
			back := buffer{from.MR, from.bytes}
			copy(memory, bytes.Repeat([]byte{round + 100}, size))
			b.post(b.ep.Write, []fabric.Op{back.at(fabric.Op{ID: 2, NumSeg: 1, Flags: fabric.FlagDeliveryComplete}, 0)}, to.all(), a)
			b.complete(2, a)
			require.Equal(t, memory, from.bytes)
			require.NoError(t, mr.Close())
			unmap(t, memory)
		}
	})
}
