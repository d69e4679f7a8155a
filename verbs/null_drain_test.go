//go:build linux && cgo && !noverbs

package verbs_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

func TestNullDrain(t *testing.T) {
	n := newNull(t, nil)
	a, b := n.connected(t)
	n.null.Hold()
	_, err := a.PostSend(sends(64), nil) // full, so that the last request has to wait for room
	require.NoError(t, err)
	_, err = a.PostRecv([]verbs.RecvWR{{ID: 2000}}, nil)
	require.NoError(t, err)
	require.NoError(t, n.null.Complete(n.cq.Raw(), cgotest.Completion{ID: 1000, QPN: b.Num()}))
	seen := drained(t, a)
	require.Len(t, seen, 66)
	require.Contains(t, seen, uint64(1000), "a completion of another queue pair is not lost")
	require.ErrorIs(t, seen[2000], verbs.ErrFlushed)
}

func TestNullDrainFails(t *testing.T) {
	n := newNull(t, nil)
	a, b := n.connected(t)
	soon := rdmatest.Context(t, 20*time.Second)
	n.null.Fail("post_send", 0, int(syscall.EIO), 0)
	require.ErrorIs(t, a.Drain(soon, func(*verbs.WC) {}), syscall.EIO)
	n.null.Fail("post_recv", 0, int(syscall.EIO), 0)
	require.ErrorIs(t, b.Drain(soon, func(*verbs.WC) {}), syscall.EIO)

	stuck, err := n.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: 4})
	require.NoError(t, err)
	closeAtEnd(t, stuck)
	local, err := stuck.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	require.NoError(t, stuck.Connect(local, verbs.ConnectConfig{}))
	n.null.Hold()
	n.null.Fail("ibv_modify_qp", 0, 0, 0) // says that it did
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, stuck.Drain(ctx, func(*verbs.WC) {}), context.DeadlineExceeded)

	wrapped, err := n.pd.WrapQP(stuck.Raw())
	require.NoError(t, err)
	closeAtEnd(t, wrapped)
	require.ErrorIs(t, wrapped.Drain(soon, nil), syscall.EINVAL)
}

// TestNullDrainEndsAmongOthers: completions of other queue pairs, which never end, do not keep a drain from its bound.
func TestNullDrainEndsAmongOthers(t *testing.T) {
	n := newNull(t, nil)
	other, _ := n.connected(t)
	stuck, err := n.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: 4})
	require.NoError(t, err)
	closeAtEnd(t, stuck)
	local, err := stuck.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	require.NoError(t, stuck.Connect(local, verbs.ConnectConfig{}))
	n.null.Hold()
	n.null.Fail("ibv_modify_qp", 0, 0, 0) // says that it did
	arrive := func() {
		require.NoError(t, n.null.Complete(n.cq.Raw(), cgotest.Completion{ID: 1, QPN: other.Num()}))
	}
	arrive()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	err = stuck.Drain(ctx, func(*verbs.WC) {
		arrive() // one for one
		if seen++; seen == 100 {
			cancel()
		}
		require.Less(t, seen, 1<<16)
	})
	require.ErrorIs(t, err, context.Canceled)
}
