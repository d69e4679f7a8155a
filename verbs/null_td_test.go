//go:build linux && cgo && !noverbs

package verbs_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/verbs"
)

// Queues of a thread domain are made through a parent domain, and hold both open.
func TestThreadDomain(t *testing.T) {
	n := newNull(t, nil)
	td, err := n.ctx.AllocThreadDomain()
	require.NoError(t, err)
	parent, err := n.pd.ParentDomain(td)
	require.NoError(t, err)
	cq, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 16, Domain: parent})
	require.NoError(t, err)
	require.Equal(t, 1, n.null.Calls("create_cq_ex"))
	require.True(t, n.null.InDomain(cq.Raw(), parent.Raw()), "the driver was told")
	qp, err := parent.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSendWR: 4, MaxRecvWR: 4})
	require.NoError(t, err)
	end, err := qp.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	require.NoError(t, qp.Connect(end, verbs.ConnectConfig{}))
	_, err = qp.PostSend(sends(1), nil)
	require.NoError(t, err)
	got, err := cq.Poll(make([]verbs.WC, 4))
	require.NoError(t, err)
	require.Equal(t, 1, got)

	for _, object := range []interface{ Close() error }{td, n.pd, parent} {
		require.ErrorIs(t, object.Close(), syscall.EBUSY)
	}
	require.NoError(t, qp.Close())
	require.ErrorIs(t, parent.Close(), syscall.EBUSY, "a completion queue is in it")
	require.NoError(t, cq.Close())
	n.null.Fail("ibv_dealloc_pd", 0, int(syscall.EBUSY), 0)
	require.ErrorIs(t, parent.Close(), syscall.EBUSY)
	require.NoError(t, parent.Close())
	n.null.Fail("dealloc_td", 0, int(syscall.EBUSY), 0)
	require.ErrorIs(t, td.Close(), syscall.EBUSY)
	require.NoError(t, td.Close())
	require.Equal(t, 1, n.null.Calls("alloc_td"))
	_, err = n.pd.ParentDomain(td)
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestThreadDomainThatIsRefused(t *testing.T) {
	n, stranger := newNull(t, nil), newNull(t, nil)
	for call, make := range map[string]func() error{
		"alloc_td": func() error { _, err := n.ctx.AllocThreadDomain(); return err },
		"alloc_parent_domain": func() error {
			td, err := n.ctx.AllocThreadDomain()
			require.NoError(t, err)
			defer func() { require.NoError(t, td.Close()) }()
			_, err = n.pd.ParentDomain(td)
			return err
		},
	} {
		live := n.null.Live()
		n.null.Fail(call, 0, 0, syscall.ENOSPC)
		require.ErrorIs(t, make(), syscall.ENOSPC)
		require.Equal(t, live, n.null.Live())
	}
	theirs, err := stranger.ctx.AllocThreadDomain()
	require.NoError(t, err)
	closeAtEnd(t, theirs)
	_, err = n.pd.ParentDomain(theirs)
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = n.pd.ParentDomain(nil)
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = n.ctx.CreateCQ(verbs.CQConfig{Depth: 4, Domain: n.pd})
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "ParentDomain")
	parent, err := stranger.pd.ParentDomain(theirs)
	require.NoError(t, err)
	closeAtEnd(t, parent)
	_, err = n.ctx.CreateCQ(verbs.CQConfig{Depth: 4, Domain: parent})
	require.ErrorIs(t, err, syscall.EINVAL)
}
