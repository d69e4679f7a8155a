package verbs_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/verbs"
)

// The manual path: each step with all its attributes, on a queue pair that is connected to itself.
func TestManualBringUp(t *testing.T) {
	n := newNode(t)
	qp := n.queuePair(t, verbs.RC)
	path := verbs.Path{TrafficClass: 104, FlowLabel: 0xabcde, HopLimit: 3}
	attr := verbs.QPAttr{
		State: verbs.QPInit, Port: 1, Access: remoteAccess, PathMTU: 1024, RemoteQPN: qp.Num(), RQPSN: 0x123456, SQPSN: 0x123456,
		Path:        verbs.AHConfig{Port: 1, GIDIndex: n.gid.Index, RemoteGID: n.gid.GID, Path: path},
		MinRNRTimer: 640 * time.Microsecond, Timeout: 67 * time.Millisecond, RetryCount: 6, RNRRetry: 6,
		MaxRdAtomic: 1, MaxDestRdAtomic: 1,
	}
	err := qp.Modify(attr, verbs.AttrState|verbs.AttrPort|verbs.AttrAccess)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "needs PKeyIndex")
	for i, mask := range []verbs.QPAttrMask{
		verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAccess,
		verbs.AttrPath | verbs.AttrPathMTU | verbs.AttrRemoteQPN | verbs.AttrRQPSN | verbs.AttrMaxDestRdAtomic | verbs.AttrMinRNRTimer,
		verbs.AttrTimeout | verbs.AttrRetryCount | verbs.AttrRNRRetry | verbs.AttrSQPSN | verbs.AttrMaxRdAtomic,
	} {
		attr.State = verbs.QPInit + verbs.QPState(i)
		require.NoError(t, qp.Modify(attr, verbs.AttrState|mask))
	}
	got, err := qp.Query(verbs.AttrState | verbs.AttrPath | verbs.AttrPathMTU | verbs.AttrTimeout)
	require.NoError(t, err)
	require.Equal(t, verbs.QPRTS, got.State)
	attr.Path.HopLimit = got.Path.HopLimit // on RoCE the kernel takes that of the route
	require.Equal(t, attr.Path, got.Path)
	require.Equal(t, verbs.MTU(1024), got.PathMTU)
	_, mr := n.region(t, 8192, remoteAccess)
	n.postTo(t, qp, mr)
	require.NoError(t, qp.Modify(verbs.QPAttr{State: verbs.QPError}, verbs.AttrState))
	state, err := qp.State()
	require.NoError(t, err)
	require.Equal(t, verbs.QPError, state)
}

// The handles of peers are made once, and again after a peer is said to have moved.
func TestAHCache(t *testing.T) {
	n := newNode(t)
	cache, err := n.pd.NewAHCache()
	require.NoError(t, err)
	to := verbs.AHConfig{Port: 1, GIDIndex: n.gid.Index, RemoteGID: n.gid.GID}
	first, err := cache.Get(to)
	require.NoError(t, err)
	again, err := cache.Get(to)
	require.NoError(t, err)
	require.Same(t, first, again)
	cache.Forget(n.gid.GID)
	renewed, err := cache.Get(to)
	require.NoError(t, err)
	require.NotSame(t, first, renewed)
	require.NoError(t, cache.Close())
}
