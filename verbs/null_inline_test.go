//go:build linux && cgo && !noverbs

package verbs_test

import (
	"errors"
	"math"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/verbs"
)

func TestSGEStaysInItsRegion(t *testing.T) {
	n := newNull(t, nil)
	mr, err := n.pd.RegMRIOVA(make([]byte, 4096), 0x10000, verbs.AccessLocalWrite)
	require.NoError(t, err)
	closeAtEnd(t, mr)
	for _, good := range [][2]int{{0, 0}, {0, 4096}, {4095, 1}, {4096, 0}, {100, 200}} {
		got, err := mr.SGE(good[0], good[1])
		require.NoError(t, err, "%v", good)
		require.Equal(t, verbs.SGE{Addr: 0x10000 + uint64(good[0]), Length: uint32(good[1]), LKey: mr.LKey()}, got)
	}
	for _, bad := range [][2]int{{0, 4097}, {4096, 1}, {4097, 0}, {-1, 1}, {1, -1}, {1, math.MaxInt}, {math.MaxInt, 1},
		{math.MaxInt, math.MaxInt}, {math.MinInt, math.MinInt}} {
		_, err := mr.SGE(bad[0], bad[1])
		require.ErrorIs(t, err, syscall.EINVAL, "%v", bad)
	}
	large, err := n.pd.RegDMABuf(3, 0, 1<<33, 0, verbs.AccessLocalWrite)
	require.NoError(t, err)
	closeAtEnd(t, large)
	_, err = large.SGE(1<<32, 1<<32)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "32 bits")
	entry, err := large.SGE(1<<32, 1<<32-1)
	require.NoError(t, err)
	require.Equal(t, verbs.SGE{Addr: 1 << 32, Length: math.MaxUint32, LKey: large.LKey()}, entry)
	none, err := n.pd.AllocNullMR()
	require.NoError(t, err)
	closeAtEnd(t, none)
	_, err = none.SGE(0, 64)
	require.ErrorContains(t, err, "make the entry of its LKey")
}

// The bytes are taken during the post, from memory that no region is for.
func TestPostInlineTakesTheBytes(t *testing.T) {
	n := newNull(t, nil)
	a, _ := n.connected(t)
	data := make([]byte, a.Caps().MaxInline)
	fill(data, 3)
	want := append([]byte{}, data...)
	require.NoError(t, a.PostInline(verbs.SendWR{ID: 7, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, NumSGE: 99}, data))
	clear(data)
	require.Equal(t, want, n.null.Inlined())
	wcs := n.take(t)
	require.Len(t, wcs, 1)
	require.Equal(t, uint64(7), wcs[0].ID)
	require.NoError(t, a.PostInline(verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled}, nil))
	require.Empty(t, n.null.Inlined())
	require.Len(t, n.take(t), 1)

	posts := n.null.Calls("post_send")
	err := a.PostInline(verbs.SendWR{Opcode: verbs.OpSend}, make([]byte, len(data)+1))
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "64")
	require.ErrorIs(t, a.PostInline(verbs.SendWR{Opcode: verbs.OpRead}, data[:8]), syscall.EINVAL, "there is nothing to send")
	require.Equal(t, posts, n.null.Calls("post_send"))
	n.null.Fail("post_send", 0, int(syscall.ENOMEM), 0)
	require.ErrorIs(t, a.PostInline(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}, data[:1]), verbs.ErrQueueFull)
	require.NoError(t, a.Close())
	err = a.PostInline(verbs.SendWR{Opcode: verbs.OpSend}, data[:1])
	require.True(t, errors.Is(err, net.ErrClosed), "%v", err)
}
