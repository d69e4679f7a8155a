//go:build linux && cgo && !noverbs

package verbs_test

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

// Every call that makes or frees something fails once: the error is the driver's, and nothing is left or lost.
func TestNullEveryCreationFails(t *testing.T) {
	n := newNull(t, nil)
	mem := make([]byte, 64)
	mr, err := n.pd.RegMR(mem, verbs.AccessLocalWrite)
	require.NoError(t, err)
	closeAtEnd(t, mr)
	for call, create := range map[string]func() (interface{ Close() error }, error){
		"ibv_alloc_pd":     func() (interface{ Close() error }, error) { return n.ctx.AllocPD() },
		"ibv_reg_mr_iova2": func() (interface{ Close() error }, error) { return n.pd.RegMR(mem, verbs.AccessLocalWrite) },
		"ibv_reg_dmabuf_mr": func() (interface{ Close() error }, error) {
			return n.pd.RegDMABuf(0, 0, 64, 0, verbs.AccessLocalWrite)
		},
		"alloc_null_mr":           func() (interface{ Close() error }, error) { return n.pd.AllocNullMR() },
		"alloc_mw":                func() (interface{ Close() error }, error) { return n.pd.AllocMW(verbs.MWType2) },
		"ibv_import_pd":           func() (interface{ Close() error }, error) { return n.ctx.ImportPD(1) },
		"ibv_import_mr":           func() (interface{ Close() error }, error) { return n.pd.ImportMR(1) },
		"ibv_create_comp_channel": func() (interface{ Close() error }, error) { return n.ctx.CreateCompChannel() },
		"ibv_create_cq": func() (interface{ Close() error }, error) {
			return n.ctx.CreateCQ(verbs.CQConfig{Depth: 1, Events: true})
		},
		"ibv_create_srq": func() (interface{ Close() error }, error) { return n.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 4}) },
		"ibv_create_ah": func() (interface{ Close() error }, error) {
			return n.pd.CreateAH(verbs.AHConfig{Port: 1, RemoteGID: n.gid.GID})
		},
		"ibv_create_qp": func() (interface{ Close() error }, error) {
			return n.pd.CreateQP(verbs.QPConfig{Type: verbs.UC, SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: 4})
		},
	} {
		t.Run(call, func(t *testing.T) {
			before, reserved := n.null.Live(), n.cq.Reserved()
			n.null.Fail(call, 0, 0, syscall.ENOSPC)
			_, err := create()
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.Equal(t, before, n.null.Live())
			require.Equal(t, reserved, n.cq.Reserved())
			object, err := create()
			require.NoError(t, err)
			require.NoError(t, object.Close())
			require.Equal(t, before, n.null.Live())
			require.Equal(t, reserved, n.cq.Reserved())
		})
	}
}

func TestNullAFailedDestroyLeavesTheObjectOpen(t *testing.T) {
	n := newNull(t, nil)
	qp := n.queuePair(t, verbs.RC)
	n.null.Fail("ibv_destroy_qp", 0, -1, syscall.EBUSY)
	require.ErrorIs(t, qp.Close(), syscall.EBUSY)
	_, err := qp.State()
	require.NoError(t, err)
	require.NoError(t, qp.Close())
	_, err = qp.State()
	require.ErrorIs(t, err, net.ErrClosed)
}

// An object that is gone is not found by events any more: its address may be another's.
func TestNullClosedObjectsAreForgotten(t *testing.T) {
	n := newNull(t, nil)
	before := n.ctx.Registered()
	srq, err := n.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 4})
	require.NoError(t, err)
	cq, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 16})
	require.NoError(t, err)
	qp, err := n.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSendWR: 4, SRQ: srq})
	require.NoError(t, err)
	require.Equal(t, before+3, n.ctx.Registered())
	for left, object := range []interface{ Close() error }{qp, cq, srq} {
		require.NoError(t, object.Close())
		require.Equal(t, before+2-left, n.ctx.Registered())
	}
}

// A completion queue has room for what its queue pairs can have outstanding.
func TestNullCreditsOfACompletionQueue(t *testing.T) {
	n := newNull(t, nil)
	cq, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 100})
	require.NoError(t, err)
	closeAtEnd(t, cq)
	cfg := verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSendWR: 40, MaxRecvWR: 20}
	first, err := n.pd.CreateQP(cfg)
	require.NoError(t, err)
	_, err = n.pd.CreateQP(cfg)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "100 of 100 are reserved by queue pairs")
	require.Equal(t, 60, cq.Reserved())
	require.ErrorIs(t, cq.Resize(59), syscall.EINVAL)
	require.NoError(t, cq.Resize(120))
	require.Equal(t, 120, cq.Depth())
	second, err := n.pd.CreateQP(cfg)
	require.NoError(t, err)
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
	require.Zero(t, cq.Reserved())
	n.null.Fail("ibv_resize_cq", 0, int(syscall.ENOMEM), 0)
	require.ErrorIs(t, cq.Resize(200), syscall.ENOMEM)
	require.NoError(t, cq.Moderate(16, 100*time.Microsecond))
	count, period := cgotest.Moderated(cq.Raw())
	require.Equal(t, []int{16, 100}, []int{count, period})
	require.ErrorIs(t, cq.Moderate(1<<16, 0), syscall.EINVAL)
	n.null.Fail("modify_cq", 0, int(syscall.EOPNOTSUPP), 0)
	require.ErrorIs(t, cq.Moderate(16, 0), errors.ErrUnsupported)
}

func TestNullCQErrorIsSurfaced(t *testing.T) {
	n := newNull(t, nil)
	require.NoError(t, n.null.Complete(n.cq.Raw(), cgotest.Completion{ID: 1}))
	n.null.Report(uint32(verbs.EventCQErr), 0, n.cq.Raw())
	require.ErrorIs(t, n.cq.Wait(rdmatest.Context(t, 20*time.Second)), verbs.ErrCQFailed)
	event := n.nextEvent(t)
	require.Equal(t, verbs.AsyncEvent{Type: verbs.EventCQErr, CQ: n.cq}, event)
	require.Len(t, n.take(t), 1, "what is there comes first")
	_, err := n.cq.Poll(make([]verbs.WC, 1))
	require.ErrorIs(t, err, verbs.ErrCQFailed)
	require.ErrorIs(t, n.cq.Wait(rdmatest.Context(t, 20*time.Second)), verbs.ErrCQFailed)
}

// An overflow, which reservations exclude for what queue pairs complete by themselves.
func TestNullOverflowIsReported(t *testing.T) {
	n := newNull(t, nil)
	cq, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 2})
	require.NoError(t, err)
	closeAtEnd(t, cq)
	for range 3 {
		require.NoError(t, n.null.Complete(cq.Raw(), cgotest.Completion{}))
	}
	require.Equal(t, verbs.AsyncEvent{Type: verbs.EventCQErr, CQ: cq}, n.nextEvent(t))
}

func TestNullSharedChannel(t *testing.T) {
	n := newNull(t, nil)
	channel, err := n.ctx.CreateCompChannel()
	require.NoError(t, err)
	closeAtEnd(t, channel)
	var cqs [3]*verbs.CQ
	for i := range cqs {
		cqs[i], err = n.ctx.CreateCQ(verbs.CQConfig{Depth: 8, Channel: channel, Vector: i % 2})
		require.NoError(t, err)
		closeAtEnd(t, cqs[i])
		require.NoError(t, cqs[i].Arm())
	}
	require.ErrorIs(t, channel.Close(), syscall.EBUSY)
	require.NoError(t, n.null.Complete(cqs[2].Raw(), cgotest.Completion{}))
	require.NoError(t, n.null.Complete(cqs[0].Raw(), cgotest.Completion{}))
	ready, err := channel.Wait(rdmatest.Context(t, 20*time.Second), nil)
	require.NoError(t, err)
	require.ElementsMatch(t, []*verbs.CQ{cqs[0], cqs[2]}, ready)
	require.Equal(t, 2, n.null.Calls("ibv_ack_cq_events"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = channel.Wait(ctx, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	for _, cfg := range []verbs.CQConfig{{Depth: 1, Events: true, Channel: channel}, {Depth: 1, Vector: 2}, {Depth: 1, Vector: -1}} {
		_, err = n.ctx.CreateCQ(cfg)
		require.ErrorIs(t, err, syscall.EINVAL)
	}
}

func TestNullAHCache(t *testing.T) {
	n := newNull(t, nil)
	cache, err := n.pd.NewAHCache()
	require.NoError(t, err)
	to := func(addr string) verbs.AHConfig { return verbs.AHConfig{Port: 1, GIDIndex: 1, RemoteGID: gid(t, addr)} }
	first, err := cache.Get(to("192.0.2.2"))
	require.NoError(t, err)
	again, err := cache.Get(to("192.0.2.2"))
	require.NoError(t, err)
	require.Same(t, first, again)
	other, err := cache.Get(to("192.0.2.3"))
	require.NoError(t, err)
	require.NotSame(t, first, other)
	require.Equal(t, 2, n.null.Calls("ibv_create_ah"))

	cache.Forget(gid(t, "192.0.2.2"))
	require.Equal(t, 1, cache.Len())
	renewed, err := cache.Get(to("192.0.2.2"))
	require.NoError(t, err)
	require.NotSame(t, first, renewed)

	for _, event := range []verbs.EventType{verbs.EventPortActive, verbs.EventPortErr, verbs.EventGIDChange, verbs.EventLIDChange,
		verbs.EventClientReregister} {
		n.null.Report(uint32(event), 2, nil)
		n.nextEvent(t)
		require.Equal(t, 2, cache.Len(), "%v of another port", event)
		n.null.Report(uint32(event), 1, nil)
		n.nextEvent(t)
		require.Zero(t, cache.Len(), event)
		for _, addr := range []string{"192.0.2.2", "192.0.2.3"} {
			_, err = cache.Get(to(addr))
			require.NoError(t, err)
		}
	}
	_, err = cache.Get(verbs.AHConfig{Port: 1})
	require.ErrorIs(t, err, syscall.EINVAL)
	live := n.null.Live()
	handles := n.null.Calls("ibv_create_ah") - n.null.Calls("ibv_destroy_ah")
	require.NoError(t, cache.Close())
	require.Equal(t, live-handles, n.null.Live(), "all handles are destroyed, the forgotten too")
	_, err = cache.Get(to("192.0.2.2"))
	require.ErrorIs(t, err, net.ErrClosed)
}

// TestNullAHCacheFreesWhatItRetired, with the last of its holders.
func TestNullAHCacheFreesWhatItRetired(t *testing.T) {
	n := newNull(t, nil)
	cache, err := n.pd.NewAHCache()
	require.NoError(t, err)
	live := n.null.Live()
	get := func() *verbs.AH {
		ah, err := cache.Get(n.to(1))
		require.NoError(t, err)
		return ah
	}
	for range 10 {
		first, second := get(), get()
		require.Same(t, first, second)
		cache.Put(first)
		cache.Forget(n.to(1).RemoteGID)
		require.Equal(t, live+1, n.null.Live(), "a send may be in flight")
		require.NotSame(t, second, get())
		cache.Put(second)
		require.Equal(t, live+1, n.null.Live(), "the one that was forgotten is gone")
		cache.Put(second) // once too often, of a handle that is gone
		cache.Put(get())
		cache.Put(get())
		cache.Forget(n.to(1).RemoteGID)
		require.Equal(t, live+1, n.null.Live())
		require.NoError(t, cache.Close())
		require.Equal(t, live, n.null.Live())
		cache, err = n.pd.NewAHCache()
		require.NoError(t, err)
	}
	ah := get()
	cache.Put(ah)
	n.null.Fail("ibv_destroy_ah", 0, -1, syscall.EIO)
	cache.Forget(n.to(1).RemoteGID)
	require.Equal(t, live+1, n.null.Live())
	require.NoError(t, cache.Close(), "what the device refused is tried again")
	require.Equal(t, live, n.null.Live())
	cache.Put(ah)
}

func TestNullImports(t *testing.T) {
	n := newNull(t, nil)
	pd, err := n.ctx.ImportPD(n.pd.Handle())
	require.NoError(t, err)
	mr, err := pd.ImportMR(1)
	require.NoError(t, err)
	require.Zero(t, mr.Handle())
	require.NoError(t, mr.Close())
	require.NoError(t, pd.Close())
	require.Equal(t, 1, n.null.Calls("ibv_unimport_mr"))
	require.Equal(t, 1, n.null.Calls("ibv_unimport_pd"))

	original, _ := n.connected(t)
	wrappedPD, err := n.ctx.WrapPD(n.pd.Raw())
	require.NoError(t, err)
	qp, err := wrappedPD.WrapQP(original.Raw())
	require.NoError(t, err)
	require.Equal(t, original.Num(), qp.Num())
	require.Equal(t, original.Caps(), qp.Caps())
	require.Equal(t, verbs.RC, qp.Type())
	_, err = qp.PostSend(sends(2), nil)
	require.NoError(t, err)
	require.Len(t, n.take(t), 2)
	require.NoError(t, qp.Close())
	require.NoError(t, wrappedPD.Close())
	require.Zero(t, n.null.Calls("ibv_destroy_qp"), "closing leaves what was borrowed")
	_, err = original.State()
	require.NoError(t, err)
	_, err = verbs.ImportContext(nil)
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = n.ctx.WrapPD(nil)
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = n.pd.WrapQP(nil)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.Zero(t, n.null.Calls("ibv_close_device"))
}

func TestNullAHOfADatagram(t *testing.T) {
	n := newNull(t, nil)
	ah, err := n.pd.CreateAHFromWC(1, &verbs.WC{SLID: 5}, make([]byte, verbs.GRHSize))
	require.NoError(t, err)
	require.NoError(t, ah.Close())
	_, err = n.pd.CreateAHFromWC(1, &verbs.WC{}, make([]byte, verbs.GRHSize-1))
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = n.pd.CreateAHFromWC(1, nil, make([]byte, verbs.GRHSize))
	require.ErrorIs(t, err, syscall.EINVAL)
}

func TestNullSharedReceiveQueue(t *testing.T) {
	n := newNull(t, nil)
	srq, err := n.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 7})
	require.NoError(t, err)
	closeAtEnd(t, srq)
	require.Equal(t, verbs.SRQConfig{MaxWR: 8, MaxSGE: 1}, srq.Config(), "what was granted")
	cq, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 16})
	require.NoError(t, err)
	closeAtEnd(t, cq)
	cfg := verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSendWR: 4, SRQ: srq}
	var qps [2]*verbs.QP
	for i := range qps {
		qps[i], err = n.pd.CreateQP(cfg)
		require.NoError(t, err)
		closeAtEnd(t, qps[i])
	}
	require.Equal(t, 16, cq.Reserved(), "its receives count once")
	_, err = n.pd.CreateQP(cfg)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.Equal(t, 16, cq.Reserved())

	accepted, err := srq.PostRecv(make([]verbs.RecvWR, 9), nil)
	require.ErrorIs(t, err, verbs.ErrQueueFull)
	require.Equal(t, 8, accepted)
	for i := range 8 {
		require.NoError(t, n.null.Complete(cq.Raw(), cgotest.Completion{QPN: qps[i%2].Num(), Receive: true}))
	}
	require.ErrorIs(t, n.null.Complete(cq.Raw(), cgotest.Completion{QPN: qps[0].Num(), Receive: true}), syscall.ENOENT)
	_, err = srq.PostRecv([]verbs.RecvWR{{NumSGE: 2}}, make([]verbs.SGE, 2))
	require.ErrorIs(t, err, syscall.EINVAL)
	require.NoError(t, srq.SetLimit(3))
	limit, err := srq.Limit()
	require.NoError(t, err)
	require.Equal(t, 3, limit)
	require.ErrorIs(t, srq.SetLimit(9), syscall.EINVAL)
	n.null.Fail("ibv_modify_srq", 0, int(syscall.EOPNOTSUPP), 0)
	require.ErrorIs(t, srq.Resize(16), errors.ErrUnsupported)
	require.NoError(t, srq.Resize(16))
	require.Equal(t, 16, srq.Config().MaxWR)
	for _, qp := range qps { // give back what they took
		require.NoError(t, qp.Close())
	}
	require.Zero(t, cq.Reserved())
	for _, bad := range []verbs.SRQConfig{{}, {MaxWR: 1 << 20}, {MaxWR: 1, MaxSGE: 99}} {
		_, err = n.pd.CreateSRQ(bad)
		require.ErrorIs(t, err, syscall.EINVAL)
	}
}
