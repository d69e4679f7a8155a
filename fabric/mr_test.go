package fabric_test

import (
	"errors"
	"syscall"
	"testing"

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
