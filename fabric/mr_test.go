package fabric_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
)

func TestModeBitsDecideAddressAndKey(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		x := open(t, provider, setting{})
		b := x.buffer(4096)
		require.Equal(t, uint64(4096), b.Length())
		require.Equal(t, fabric.AddressOf(b.bytes), b.Local())
		if x.info.MRMode&fabric.MRVirtAddr != 0 {
			require.Equal(t, b.Local(), b.Addr())
		} else {
			require.Zero(t, b.Addr())
		}
		require.NotNil(t, b.Raw())
		other := x.buffer(4096)
		require.NotEqual(t, b.RKey(), other.RKey(), "drawn at random")
		require.NotEqual(t, b.LKey(), other.LKey())
		mr := opened[*fabric.MR](t)(x.domain.RegMR(make([]byte, 64), fabric.MRConfig{Key: 42, Access: fabric.AccessRemote}))
		require.Equal(t, uint64(42), mr.RKey())
		_, err := x.domain.RegMR(make([]byte, 64), fabric.MRConfig{Key: 42})
		require.ErrorIs(t, err, fabric.ENoKey)
	})
}

// A key that is used again is not that of the region before.
func TestLocalKeysAreNotReused(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	x := open(t, "shm", setting{})
	memory := make([]byte, 64)
	seen := map[uint32]bool{}
	for range 100 {
		mr, err := x.domain.RegMR(memory, fabric.MRConfig{})
		require.NoError(t, err)
		require.False(t, seen[mr.LKey()])
		seen[mr.LKey()] = true
		require.NoError(t, mr.Close())
	}
	mrs := make([]*fabric.MR, 3000) // more than one chunk of the table
	for i := range mrs {
		mrs[i] = opened[*fabric.MR](t)(x.domain.RegMR(memory, fabric.MRConfig{}))
		require.False(t, seen[mrs[i].LKey()])
		seen[mrs[i].LKey()] = true
	}
	peer := x.meet(x.name)
	x.recv(1, []fabric.Seg{mrs[2999].Seg(32, 8)})
	memory[0] = 9
	x.post(x.ep.Send, []fabric.Op{{ID: 2, NumSeg: 1, Peer: peer}}, []fabric.Seg{mrs[1500].Seg(0, 8)})
	x.message()
	require.Equal(t, byte(9), memory[32])
}

func TestPiecesAreOneRegionForPeers(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	x := open(t, "shm", setting{})
	pieces := [][]byte{make([]byte, 64), make([]byte, 32)}
	mr := opened[*fabric.MR](t)(x.domain.RegMRV(pieces, fabric.MRConfig{Access: fabric.AccessAll}))
	require.Equal(t, uint64(96), mr.Length())
	require.Zero(t, mr.LKey())
	require.Equal(t, fabric.AddressOf(pieces[0]), mr.Local())
	_, err := x.domain.RegMRV(make([][]byte, 100), fabric.MRConfig{})
	require.ErrorIs(t, err, syscall.EINVAL)
}

// What no provider of this machine has is asked for, and refused by it or by the shim in a way that a caller can tell.
func TestWhatRegionsLackHereIsAnError(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	x := open(t, "shm", setting{})
	b := x.buffer(4096)
	counter := opened[*fabric.Counter](t)(x.domain.OpenCounter(fabric.CounterConfig{}))
	_, _, err := b.RawKey()
	require.Error(t, err)
	_, err = x.domain.MapKey(0, []byte{1, 2, 3, 4})
	require.Error(t, err)
	require.Error(t, x.domain.UnmapKey(3))
	require.Error(t, b.Enable())
	require.Error(t, b.Refresh(0, 8))
	require.Error(t, b.BindEndpoint(x.ep))
	_ = b.BindCounter(counter) // shm takes it, and counts nothing
	mr, err := x.domain.RegDMABuf(0, 0, 4096, 0, fabric.MRConfig{})
	if v := fabric.Headers(); !v.AtLeast(1, 20) {
		require.ErrorIs(t, err, errors.ErrUnsupported)
	} else if err == nil { // shm of 2.x looks at the descriptor when it is used
		require.NoError(t, mr.Close())
	}
}

func TestRegionCountsWhatPeersWrite(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	events := func(h *fabric.Hints) { h.Provider, h.Caps = sockets, h.Caps|fabric.CapRMAEvent }
	a, b := pair(t, sockets, setting{hints: events})
	counter := opened[*fabric.Counter](t)(b.domain.OpenCounter(fabric.CounterConfig{Wait: fabric.WaitUnspec}))
	from, to := a.buffer(64), b.buffer(64)
	require.NoError(t, to.BindCounter(counter))
	require.ErrorIs(t, counter.Close(), syscall.EBUSY)
	for range 3 {
		a.post(a.ep.Write, []fabric.Op{to.at(fabric.Op{ID: 1, NumSeg: 1}, 0)}, from.all(), b)
		a.complete(1, b)
	}
	require.NoError(t, counter.Wait(rdmatest.Context(t, patience), 3))
}

func TestAccessThatWasNotGivenIsRefused(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a, b := pair(t, "tcp", setting{})
	from := a.buffer(64)
	mr := opened[*fabric.MR](t)(b.domain.RegMR(make([]byte, 64), fabric.MRConfig{Access: fabric.CapRemoteRead}))
	op := fabric.Op{ID: 1, NumSeg: 1, RemoteAddr: mr.Addr(), RemoteKey: mr.RKey(), Flags: fabric.FlagDeliveryComplete}
	a.post(a.ep.Write, []fabric.Op{op}, from.all(), b)
	c := a.take(func(c *fabric.Completion) bool { return c.ID == 1 }, b)
	require.True(t, c.Failed())
}

// forget registers Go memory that nothing refers to afterwards but the region, and counts its collection.
//
//go:noinline
func forget(t *testing.T, pieces int, collected *atomic.Int32, reg func([][]byte) (*fabric.MR, error)) (*fabric.MR, error) {
	t.Helper()
	all := make([][]byte, pieces)
	for i := range all {
		all[i] = make([]byte, 1<<16)
		runtime.AddCleanup(&all[i][0], func(int) { collected.Add(1) }, 0)
	}
	return reg(all)
}

// TestRegistrationKeepsItsMemory: while a region is open its memory stays, although nothing in Go refers to it, since a peer may
// write there. It goes with the region, and with a registration that failed.
func TestRegistrationKeepsItsMemory(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	x := open(t, "shm", setting{})
	for name, c := range map[string]struct {
		pieces int
		reg    func([][]byte, fabric.MRConfig) (*fabric.MR, error)
	}{
		"RegMR":  {1, func(m [][]byte, cfg fabric.MRConfig) (*fabric.MR, error) { return x.domain.RegMR(m[0], cfg) }},
		"RegMRV": {3, x.domain.RegMRV},
	} {
		t.Run(name, func(t *testing.T) {
			var collected atomic.Int32
			gone := func() bool { rdmatest.Collect(); return collected.Load() == int32(c.pieces) }
			mr, err := forget(t, c.pieces, &collected, func(m [][]byte) (*fabric.MR, error) {
				return c.reg(m, fabric.MRConfig{Access: fabric.AccessAll})
			})
			require.NoError(t, err)
			for range 3 {
				rdmatest.Collect()
			}
			require.Zero(t, collected.Load(), "memory of an open region was collected")
			require.NoError(t, mr.Close())
			require.Eventually(t, gone, rdmatest.Deadline(patience), time.Millisecond, "memory of a closed region is kept")

			collected.Store(0)
			_, err = forget(t, c.pieces, &collected, func(m [][]byte) (*fabric.MR, error) {
				return c.reg(m, fabric.MRConfig{Access: fabric.CapMsg})
			})
			require.ErrorIs(t, err, syscall.EINVAL)
			require.Eventually(t, gone, rdmatest.Deadline(patience), time.Millisecond, "memory that was not registered is kept")
		})
	}
}

// playLeak loses a region over a Go slice with everything that refers to it, and collects.
func playLeak([]string) int {
	collected := make(chan struct{})
	if err := leakRegion(collected); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	rdmatest.Collect()
	<-collected
	fmt.Println("alive")
	return 0
}

//go:noinline
func leakRegion(collected chan struct{}) error {
	var p process
	if err := p.openQueue("shm"); err != nil {
		return err
	}
	mr, err := p.domain.RegMR(make([]byte, 1<<16), fabric.MRConfig{})
	runtime.AddCleanup(mr, func(gone chan struct{}) { close(gone) }, collected)
	return err
}

// TestLeakedRegionDoesNotEndTheProcess: the memory stays pinned, since the provider still knows it.
func TestLeakedRegionDoesNotEndTheProcess(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	c := rdmatest.StartChild(t, "leak")
	line, err := c.ReadLine(patience)
	require.NoError(t, err)
	require.Equal(t, "alive", line)
	require.ErrorContains(t, c.Wait(patience), "exit status 1")
	require.Contains(t, c.Stderr(), "memory region created by\n")
}

// TestSameMemoryTwiceIsTwoRegions: there is no cache of registrations by address, which would go on with the pages of before when
// memory was unmapped and mapped again.
func TestSameMemoryTwiceIsTwoRegions(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a, b := pair(t, provider, setting{})
		from, to := a.buffer(8), b.buffer(8)
		again := opened[*fabric.MR](t)(b.domain.RegMR(to.bytes, fabric.MRConfig{Access: fabric.AccessAll}))
		require.NotEqual(t, to.LKey(), again.LKey())
		require.NotEqual(t, to.RKey(), again.RKey())
		require.NotEqual(t, to.Raw(), again.Raw())
		require.NoError(t, to.MR.Close())
		from.bytes[0] = 5
		a.post(a.ep.Write, []fabric.Op{buffer{again, to.bytes}.at(fabric.Op{ID: 1, NumSeg: 1}, 0)}, from.all(), b)
		a.complete(1, b)
		a.until(func() bool { return to.bytes[0] == 5 }, b)
	})
}
