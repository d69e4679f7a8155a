//go:build linux && cgo && !noverbs

package verbs_test

import (
	"errors"
	"math"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/verbs"
)

// Memory is registered on demand only where the device says that it can, by regions or as a whole.
func TestOnDemandNeedsTheCapability(t *testing.T) {
	mem := make([]byte, 64)
	for caps, want := range map[verbs.ODPCaps]struct{ region, implicit bool }{
		0:                                    {false, false},
		verbs.ODPSupport:                     {true, false},
		verbs.ODPImplicit:                    {false, false},
		verbs.ODPSupport | verbs.ODPImplicit: {true, true},
	} {
		n := newNull(t, func(null *cgotest.Null) {
			limits := ampleLimits
			limits.ODP, limits.MaxMRSize = uint64(caps), 1<<40
			null.SetLimits(limits)
		})
		check := func(allowed bool, mr *verbs.MR, err error) {
			t.Helper()
			if !allowed {
				require.ErrorIs(t, err, errors.ErrUnsupported, "%b", caps)
				require.ErrorContains(t, err, "null0 has no on-demand paging")
				return
			}
			require.NoError(t, err, "%b", caps)
			require.NoError(t, mr.Close())
		}
		mr, err := n.pd.RegMR(mem, verbs.AccessLocalWrite|verbs.AccessOnDemand)
		check(want.region, mr, err)
		before := n.null.Calls("ibv_reg_mr_iova2")
		mr, err = n.pd.RegImplicit(verbs.AccessLocalWrite)
		check(want.implicit, mr, err)
		if !want.implicit {
			require.Equal(t, before, n.null.Calls("ibv_reg_mr_iova2"))
		}
	}
}

func TestRegImplicitIsTheWholeAddressSpace(t *testing.T) {
	n := newNull(t, func(null *cgotest.Null) {
		limits := ampleLimits
		limits.ODP, limits.MaxMRSize = 3, 1<<40
		null.SetLimits(limits)
	})
	mr, err := n.pd.RegImplicit(remoteAccess)
	require.NoError(t, err)
	closeAtEnd(t, mr)
	require.Equal(t, []any{uint64(0), uint64(math.MaxUint64), remoteAccess | verbs.AccessOnDemand},
		[]any{mr.Addr(), mr.Length(), mr.Access()})
	addr, length, _, access := n.null.Registered()
	require.Equal(t, []any{uint64(0), uint64(math.MaxUint64), uint32(remoteAccess | verbs.AccessOnDemand)}, []any{addr, length, access})
	entry, err := mr.SGE(0x7f00_1234_5678, 64)
	require.NoError(t, err)
	require.Equal(t, verbs.SGE{Addr: 0x7f00_1234_5678, Length: 64, LKey: mr.LKey()}, entry)
	_, err = n.pd.RegImplicit(verbs.AccessRemoteWrite)
	require.ErrorIs(t, err, syscall.EINVAL, "a remote write needs the local one")
	n.null.Fail("query_device_ex", 0, int(syscall.EOPNOTSUPP), 0)
	_, err = n.pd.RegImplicit(verbs.AccessLocalWrite)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	n.null.Fail("query_device_ex", 0, int(syscall.EIO), 0)
	_, err = n.pd.RegImplicit(verbs.AccessLocalWrite)
	require.ErrorIs(t, err, syscall.EIO)
}
