//go:build linux && cgo && !noverbs

package verbs_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/verbs"
)

func TestNullRelaxedOrderingIsRememberedAsRefused(t *testing.T) {
	n := newNull(t, func(null *cgotest.Null) { null.RefuseAccess(uint32(verbs.AccessRelaxedOrdering)) })
	mem := make([]byte, 64)
	for i, calls := range []int{2, 3} { // once with and once without it, then without it alone
		mr, err := n.pd.RegMR(mem, verbs.AccessLocalWrite|verbs.AccessRelaxedOrdering)
		require.NoError(t, err)
		require.Equal(t, verbs.AccessLocalWrite, mr.Access())
		require.Equal(t, calls, n.null.Calls("ibv_reg_mr_iova2"), "registration %d", i)
		require.NoError(t, mr.Close())
	}
	refusing := newNull(t, nil) // as a kernel that takes the flag for bad input
	refusing.null.Fail("ibv_reg_mr_iova2", 0, 0, syscall.EINVAL)
	for i, calls := range []int{2, 3} {
		mr, err := refusing.pd.RegMR(mem, verbs.AccessLocalWrite|verbs.AccessRelaxedOrdering)
		require.NoError(t, err)
		require.Equal(t, verbs.AccessLocalWrite, mr.Access())
		require.Equal(t, calls, refusing.null.Calls("ibv_reg_mr_iova2"), "registration %d", i)
		require.NoError(t, mr.Close())
	}
	granting := newNull(t, nil)
	mr, err := granting.pd.RegMR(mem, verbs.AccessLocalWrite|verbs.AccessRelaxedOrdering)
	require.NoError(t, err)
	require.Equal(t, verbs.AccessLocalWrite|verbs.AccessRelaxedOrdering, mr.Access())
	require.NoError(t, mr.Close())
}

// Memory over the device's limit is an error: never cut, never tried.
func TestNullRegistrationIsNeverTruncated(t *testing.T) {
	n := newNull(t, func(null *cgotest.Null) {
		limits := ampleLimits
		limits.MaxMRSize = 4096
		null.SetLimits(limits)
	})
	_, err := n.pd.RegMR(make([]byte, 4097), verbs.AccessLocalWrite)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "null0 takes at most 4096 in one region")
	require.Zero(t, n.null.Calls("ibv_reg_mr_iova2"))
	mr, err := n.pd.RegMR(make([]byte, 4096), verbs.AccessLocalWrite)
	require.NoError(t, err)
	require.Equal(t, uint64(4096), mr.Length())
	require.NoError(t, mr.Close())
}

func TestNullMemoryWindows(t *testing.T) {
	n := newNull(t, nil)
	a, _ := n.connected(t)
	mr, err := n.pd.RegMR(make([]byte, 4096), remoteAccess|verbs.AccessMWBind)
	require.NoError(t, err)
	closeAtEnd(t, mr)
	closed, err := n.pd.RegMR(make([]byte, 4096), remoteAccess)
	require.NoError(t, err)
	closeAtEnd(t, closed)
	for _, typ := range []verbs.MWType{verbs.MWType1, verbs.MWType2} {
		mw, err := n.pd.AllocMW(typ)
		require.NoError(t, err)
		before := mw.RKey()
		cfg := verbs.BindConfig{ID: 5, MR: mr, Addr: mr.Addr() + 64, Length: 64, Access: verbs.AccessRemoteRead, Flags: verbs.SendSignaled}
		key, err := a.BindMW(mw, cfg)
		require.NoError(t, err)
		require.Equal(t, before+1, key, "the low byte counts bindings")
		require.Equal(t, key, mw.RKey())
		wcs := n.take(t)
		require.Len(t, wcs, 1)
		require.Equal(t, verbs.WCBindMW, wcs[0].Opcode)
		n.null.Fail(map[verbs.MWType]string{verbs.MWType1: "bind_mw", verbs.MWType2: "post_send"}[typ], 0, int(syscall.ENOMEM), 0)
		_, err = a.BindMW(mw, cfg)
		require.ErrorIs(t, err, verbs.ErrQueueFull)
		require.Equal(t, key, mw.RKey(), "what was not posted changes nothing")
		again, err := a.BindMW(mw, cfg)
		require.NoError(t, err)
		require.Equal(t, key+1, again)
		n.take(t)
		for _, change := range []func(*verbs.BindConfig){
			func(c *verbs.BindConfig) { c.Length = 4096 },
			func(c *verbs.BindConfig) { c.Addr--; c.Addr -= 64 },
			func(c *verbs.BindConfig) { c.Access = verbs.AccessLocalWrite },
			func(c *verbs.BindConfig) { c.MR = closed },
			func(c *verbs.BindConfig) { c.MR = nil },
		} {
			bad := cfg
			change(&bad)
			_, err := a.BindMW(mw, bad)
			require.ErrorIs(t, err, syscall.EINVAL)
		}
		require.NoError(t, mw.Close())
	}
	_, err = a.BindMW(nil, verbs.BindConfig{MR: mr})
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = n.pd.AllocMW(3)
	require.ErrorIs(t, err, syscall.EINVAL)
}

func TestNullMemoryOfOtherKinds(t *testing.T) {
	n := newNull(t, nil)
	mr, err := n.pd.RegMRIOVA(make([]byte, 4096), 0x10000, verbs.AccessLocalWrite)
	require.NoError(t, err)
	require.Equal(t, uint64(0x10000), mr.Addr())
	key := mr.LKey()
	require.NoError(t, mr.ChangeAccess(remoteAccess))
	require.Equal(t, remoteAccess, mr.Access())
	require.NotEqual(t, key, mr.LKey())
	require.NoError(t, mr.ChangePD(n.pd))
	n.null.Fail("ibv_rereg_mr", 0, -1, syscall.EINVAL)
	require.ErrorContains(t, mr.ChangeAccess(verbs.AccessLocalWrite), "unchanged")
	n.null.Fail("ibv_rereg_mr", 0, -4, syscall.ENOMEM)
	err = mr.ChangeAccess(verbs.AccessLocalWrite)
	require.ErrorIs(t, err, syscall.ENOMEM)
	require.ErrorContains(t, err, "of no use")
	require.ErrorIs(t, mr.ChangePD(nil), syscall.EINVAL)
	for flush, want := range map[bool]uint32{false: 0, true: 1} {
		require.NoError(t, n.pd.Advise(verbs.AdvicePrefetchWrite, flush, []verbs.SGE{sge(mr, 0, 64)}))
		advice, flags := n.null.Advised()
		require.Equal(t, []uint32{uint32(verbs.AdvicePrefetchWrite), want}, []uint32{advice, flags})
	}
	require.ErrorIs(t, n.pd.Advise(verbs.AdvicePrefetch, true, nil), syscall.EINVAL)
	require.NoError(t, mr.Close())

	buf, err := n.pd.RegDMABuf(3, 0, 1<<20, 0x200000, remoteAccess)
	require.NoError(t, err)
	require.Equal(t, uint64(0x200000), buf.Addr())
	require.NoError(t, buf.Close())
	n.null.Fail("ibv_reg_dmabuf_mr", 0, 0, syscall.EOPNOTSUPP)
	_, err = n.pd.RegDMABuf(3, 0, 1<<20, 0, remoteAccess)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

// TestNullRegionsFromZero: most drivers do not look at the flag, so the address says it too.
func TestNullRegionsFromZero(t *testing.T) {
	n := newNull(t, nil)
	const zeroBased = verbs.AccessLocalWrite | verbs.AccessZeroBased
	buffer, err := mem.Map(8192)
	require.NoError(t, err)
	closeAtEnd(t, buffer)
	mr, err := n.pd.RegMR(buffer.Bytes(), zeroBased)
	require.NoError(t, err)
	closeAtEnd(t, mr)
	addr, length, iova, access := n.null.Registered()
	require.Equal(t, []any{mem.Addr(buffer.Bytes()), uint64(8192), uint64(0), uint32(zeroBased)}, []any{addr, length, iova, access})
	require.Zero(t, mr.Addr())
	entry, err := mr.SGE(4096, 64)
	require.NoError(t, err)
	require.Equal(t, verbs.SGE{Addr: 4096, Length: 64, LKey: mr.LKey()}, entry)
	require.ErrorIs(t, mr.ChangeAccess(verbs.AccessLocalWrite), syscall.EINVAL, "its addresses would be others")
	for name, register := range map[string]func() (*verbs.MR, error){
		"begins at a page": func() (*verbs.MR, error) { return n.pd.RegMR(buffer.Bytes()[1:], zeroBased) },
		"iova 0":           func() (*verbs.MR, error) { return n.pd.RegMRIOVA(buffer.Bytes(), 4096, zeroBased) },
		"iova of 0":        func() (*verbs.MR, error) { return n.pd.RegDMABuf(3, 0, 4096, 4096, zeroBased) },
	} {
		_, err := register()
		require.ErrorIs(t, err, syscall.EINVAL, name)
		require.ErrorContains(t, err, "AccessZeroBased", name)
	}
}

// A registration that fails says what a user can do about it.
func TestNullRegistrationErrorsNameTheRemedy(t *testing.T) {
	n := newNull(t, nil)
	mem := make([]byte, 64)
	for errno, remedy := range map[syscall.Errno]string{
		syscall.EINVAL: "RDMAV_HUGEPAGES_SAFE=1",
		syscall.EFAULT: "RegDMABuf",
	} {
		n.null.Fail("ibv_reg_mr_iova2", 0, 0, errno)
		_, err := n.pd.RegMR(mem, verbs.AccessLocalWrite)
		require.ErrorIs(t, err, errno)
		require.ErrorContains(t, err, remedy)
	}
	n.null.Fail("ibv_reg_mr_iova2", 0, 0, syscall.ENOSPC)
	_, err := n.pd.RegMR(mem, verbs.AccessLocalWrite)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NotContains(t, err.Error(), "RDMAV_HUGEPAGES_SAFE")
}

// TestNullADMABufWithAnOffset: addresses of the region begin at iova, wherever in the buffer it begins.
func TestNullADMABufWithAnOffset(t *testing.T) {
	n := newNull(t, nil)
	const iova, offset, length = 0x100000, 0x2000, 0x1000
	mr, err := n.pd.RegDMABuf(3, offset, length, iova, remoteAccess|verbs.AccessMWBind)
	require.NoError(t, err)
	closeAtEnd(t, mr)
	require.Equal(t, cgotest.Registration{FD: 3, Offset: offset, Length: length, IOVA: iova}, n.null.LastDMABuf())
	entry, err := mr.SGE(0, length)
	require.NoError(t, err)
	require.Equal(t, verbs.SGE{Addr: iova, Length: length, LKey: mr.LKey()}, entry)
	_, err = mr.SGE(offset, length)
	require.ErrorIs(t, err, syscall.EINVAL)
	qp, _ := n.connected(t)
	mw, err := n.pd.AllocMW(verbs.MWType1)
	require.NoError(t, err)
	closeAtEnd(t, mw)
	for addr, fits := range map[uint64]bool{iova - 1: false, iova: true, iova + length - 64: true, iova + length: false, iova + offset: false} {
		_, err := qp.BindMW(mw, verbs.BindConfig{MR: mr, Addr: addr, Length: 64, Flags: verbs.SendSignaled})
		require.Equal(t, fits, err == nil, "%#x: %v", addr, err)
	}
}
