//go:build linux && cgo && !noverbs

package verbs_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

// nullNode is a node on the null provider, which can do what no device at hand does, and fail as none does on request.
type nullNode struct {
	*node
	null *cgotest.Null
}

// ampleLimits are those of a null device that nothing was asked of.
var ampleLimits = cgotest.Limits{
	MaxMRSize: math.MaxUint64, MaxQPWR: 1 << 14, MaxCQE: 1 << 16, MaxSGE: 16, MaxInline: 512, Ports: 1,
}

func openNull(t testing.TB, configure func(*cgotest.Null)) *nullNode {
	t.Helper()
	null, err := cgotest.OpenNull()
	require.NoError(t, err)
	closeAtEnd(t, null)
	if configure != nil {
		configure(null)
	}
	ctx, err := verbs.ImportContext(null.Context())
	require.NoError(t, err)
	closeAtEnd(t, ctx)
	return &nullNode{&node{ctx: ctx}, null}
}

func newNull(t testing.TB, configure func(*cgotest.Null)) *nullNode {
	t.Helper()
	n := openNull(t, configure)
	table, err := n.ctx.GIDTable()
	require.NoError(t, err)
	n.gid, err = verbs.SelectGID(table, 1)
	require.NoError(t, err)
	n.pd, err = n.ctx.AllocPD()
	require.NoError(t, err)
	closeAtEnd(t, n.pd)
	n.cq, err = n.ctx.CreateCQ(verbs.CQConfig{Depth: 1024, Events: true})
	require.NoError(t, err)
	closeAtEnd(t, n.cq)
	return n
}

// sends are n signalled sends without bytes.
func sends(n int) []verbs.SendWR {
	wrs := make([]verbs.SendWR, n)
	for i := range wrs {
		wrs[i] = verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled}
	}
	return wrs
}

func (n *nullNode) take(t testing.TB) []verbs.WC {
	t.Helper()
	wcs := make([]verbs.WC, 256)
	got, err := n.cq.Poll(wcs)
	require.NoError(t, err)
	return wcs[:got]
}

// nextEvent waits for the next asynchronous event.
func (n *nullNode) nextEvent(t testing.TB) verbs.AsyncEvent {
	t.Helper()
	select {
	case event := <-n.ctx.Events():
		return event
	case <-rdmatest.Context(t, 20*time.Second).Done():
		t.Fatal("no event")
		return verbs.AsyncEvent{}
	}
}

func TestNullDeviceAttributes(t *testing.T) {
	n := newNull(t, func(null *cgotest.Null) {
		limits := ampleLimits
		limits.MaxMRSize, limits.Ports, limits.Flags, limits.Atomics = 1<<31, 2, uint32(verbs.DeviceMemWindow), 2
		limits.ODP, limits.CompletionTimestamps = 1, math.MaxUint64
		null.SetLimits(limits)
		null.SetPort(2, cgotest.Port{State: 1, MTU: 3, MaxMessage: 4096, LID: 0xc001, LinkLayer: 1})
	})
	attr := n.ctx.Attr()
	require.Equal(t, uint64(1<<31), attr.MaxMRSize)
	require.Equal(t, 2, attr.Ports)
	require.Equal(t, verbs.DeviceMemWindow, attr.Flags)
	require.Equal(t, verbs.AtomicGlobal, attr.Atomics)
	require.Equal(t, "null0", n.ctx.Name())
	require.Equal(t, 2, n.ctx.Vectors())
	require.Equal(t, -1, n.ctx.FD())
	extended, err := n.ctx.QueryExtended()
	require.NoError(t, err)
	require.Equal(t, uint64(1), extended.ODP)
	require.Equal(t, uint64(math.MaxUint64), extended.TimestampMask)
	port, err := n.ctx.QueryPort(2)
	require.NoError(t, err)
	require.Equal(t, verbs.PortDown, port.State)
	require.Equal(t, verbs.MTU(1024), port.ActiveMTU)
	require.Equal(t, verbs.LinkLayerInfiniBand, port.LinkLayer)
	require.Equal(t, uint16(0xc001), port.LID)
	clock, err := n.ctx.Clock()
	require.NoError(t, err)
	require.Equal(t, time.Second+500, clock)
	key, err := n.ctx.PKey(1, 0)
	require.NoError(t, err)
	require.Equal(t, uint16(0x8123), key)
	_, err = n.ctx.PKey(1, 1)
	require.ErrorIs(t, err, syscall.EINVAL)
	index, err := n.ctx.PKeyIndex(1, 0x8123)
	require.NoError(t, err)
	require.Zero(t, index)
	_, err = n.ctx.PKeyIndex(1, 0x7fff)
	require.Error(t, err)
	for _, call := range []string{"query_device_ex", "query_rt_values"} {
		n.null.Fail(call, 0, int(syscall.EOPNOTSUPP), 0)
	}
	_, err = n.ctx.QueryExtended()
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = n.ctx.Clock()
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

// Drivers report a failed call in several ways: the errno itself, −1 with errno, a negative errno; posts as well as others.
var refusals = map[string]struct {
	rc    int
	errno syscall.Errno
	want  syscall.Errno
}{
	"an errno":          {int(syscall.ENOMEM), 0, syscall.ENOMEM},
	"−1 and errno":      {-1, syscall.ENOMEM, syscall.ENOMEM},
	"a negative errno":  {-int(syscall.ENOMEM), 0, syscall.ENOMEM},
	"−1 without errno":  {-1, 0, syscall.EIO},
	"another errno":     {int(syscall.EINVAL), 0, syscall.EINVAL},
	"another, negative": {-int(syscall.EINVAL), 0, syscall.EINVAL},
	"errno left behind": {int(syscall.EINVAL), syscall.ENOMEM, syscall.EINVAL},
}

func TestNullPartialPostsAtEveryIndex(t *testing.T) {
	const chain = 20
	for name, refusal := range refusals {
		t.Run(name, func(t *testing.T) {
			n := newNull(t, nil)
			a, b := n.connected(t)
			for i := range chain {
				n.null.Fail("post_send", i, refusal.rc, refusal.errno)
				accepted, err := a.PostSend(sends(chain), nil)
				require.Equal(t, i, accepted)
				require.ErrorIs(t, err, refusal.want)
				require.Equal(t, refusal.want == syscall.ENOMEM, errors.Is(err, verbs.ErrQueueFull))
				require.ErrorContains(t, err, fmt.Sprintf("work request %d of %d", i, chain))
				require.Len(t, n.take(t), i, "the first ones are carried out")

				n.null.Fail("post_recv", i, refusal.rc, refusal.errno)
				accepted, err = b.PostRecv(make([]verbs.RecvWR, chain), nil)
				require.Equal(t, i, accepted)
				require.ErrorIs(t, err, refusal.want)
				require.NoError(t, b.Reset())
			}
		})
	}
}

func TestNullFullQueue(t *testing.T) {
	n := newNull(t, nil)
	a, _ := n.connected(t)
	n.null.Hold()
	accepted, err := a.PostSend(sends(100), nil)
	require.ErrorIs(t, err, verbs.ErrQueueFull)
	require.Equal(t, 64, accepted)
	accepted, err = a.PostSend(sends(1), nil)
	require.ErrorIs(t, err, verbs.ErrQueueFull)
	require.Zero(t, accepted)
	n.null.Release()
	require.Len(t, n.take(t), 64)
	_, err = a.PostSend(sends(64), nil)
	require.NoError(t, err)
	require.Len(t, n.take(t), 64)
}

func TestNullUnsignaledNeverFillTheQueue(t *testing.T) {
	n := newNull(t, nil)
	a, _ := n.connected(t)
	quiet := make([]verbs.SendWR, 63)
	for i := range quiet {
		quiet[i].Opcode = verbs.OpSend
	}
	_, err := a.PostSend(quiet, nil)
	require.NoError(t, err)
	accepted, err := a.PostSend(quiet[:1], nil)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "the queue of 64 would be full of requests without SendSignaled")
	require.Zero(t, accepted)
	_, err = a.PostSend(sends(1), nil)
	require.NoError(t, err)
	require.Len(t, n.take(t), 1)
	_, err = a.PostSend(quiet, nil)
	require.NoError(t, err)
}

// Every status makes the queue pair fail, with the first as the cause; what is behind it is flushed, though this driver
// does nothing more by itself; and no post is taken.
func TestNullEveryCompletionStatus(t *testing.T) {
	for status := verbs.WCLocalLength; status <= verbs.WCTagMatchingRendezvous; status++ {
		if status == verbs.WCFlushed {
			continue
		}
		t.Run(status.Error(), func(t *testing.T) {
			n := newNull(t, nil)
			a, b := n.connected(t)
			n.null.FailSend(2, uint32(status), 0x81)
			_, err := a.PostRecv([]verbs.RecvWR{{ID: 99}}, nil)
			require.NoError(t, err)
			_, err = a.PostSend(sends(5), nil)
			require.NoError(t, err)
			wcs := n.take(t)
			require.NoError(t, wcs[0].Err())
			require.NoError(t, wcs[1].Err())
			require.Equal(t, &verbs.CompletionError{ID: 2, QPN: a.Num(), Status: status, VendorErr: 0x81}, wcs[2].Err())
			for _, wc := range append(wcs[3:], n.take(t)...) {
				require.ErrorIs(t, wc.Err(), verbs.ErrFlushed)
			}
			require.ErrorIs(t, a.Err(), status)
			_, err = a.PostSend(sends(1), nil)
			require.ErrorIs(t, err, status)
			require.NotErrorIs(t, err, verbs.ErrFlushed)
			_, err = a.PostRecv([]verbs.RecvWR{{}}, nil)
			require.ErrorIs(t, err, status)
			_, err = b.PostSend(sends(1), nil)
			require.NoError(t, err, "another queue pair of the same completion queue goes on")
			require.NoError(t, b.Err())
		})
	}
}

// Who moves a queue pair to the error state gets everything flushed, and that is no failure.
func TestNullFlushIsNotACause(t *testing.T) {
	n := newNull(t, nil)
	a, _ := n.connected(t)
	n.null.Hold()
	_, err := a.PostSend(sends(3), nil)
	require.NoError(t, err)
	require.NoError(t, a.SetError())
	for _, wc := range n.take(t) {
		require.ErrorIs(t, wc.Err(), verbs.ErrFlushed)
	}
	require.NoError(t, a.Err())
}

func TestNullCompletionsCarryEverything(t *testing.T) {
	n := newNull(t, nil)
	a, _ := n.connected(t)
	require.ErrorIs(t, n.null.Complete(n.cq.Raw(), cgotest.Completion{QPN: a.Num(), Receive: true}), syscall.ENOENT)
	_, err := a.PostRecv([]verbs.RecvWR{{ID: 7}}, nil)
	require.NoError(t, err)
	require.NoError(t, n.null.Complete(n.cq.Raw(), cgotest.Completion{
		Opcode: uint32(verbs.WCRecv), ByteLen: 100, Imm: 0x01020304, QPN: a.Num(), SrcQPN: 5, PKeyIndex: 6, SLID: 8, SL: 9,
		DLIDPathBits: 10, Flags: uint32(verbs.WCGRH | verbs.WCWithImm), Receive: true,
	}))
	require.Equal(t, []verbs.WC{{
		ID: 7, Opcode: verbs.WCRecv, ByteLen: 100, Imm: 0x01020304, QPN: a.Num(), SrcQPN: 5, PKeyIndex: 6, SLID: 8, SL: 9,
		DLIDPathBits: 10, Flags: verbs.WCGRH | verbs.WCWithImm,
	}}, n.take(t))
}

func TestNullPollFails(t *testing.T) {
	n := newNull(t, nil)
	for _, rc := range []int{-1, -2, -int(syscall.EINVAL)} { // mlx5's −2 is no errno
		n.null.Fail("poll_cq", 0, rc, 0)
		_, err := n.cq.Poll(make([]verbs.WC, 1))
		require.ErrorIs(t, err, syscall.EIO)
	}
}

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
	require.ErrorContains(t, err, "of the completion queue's 100, 100 are taken")
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

func TestNullAsyncEventsNameTheirObject(t *testing.T) {
	n := newNull(t, nil)
	qp := n.queuePair(t, verbs.RC)
	srq, err := n.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 4})
	require.NoError(t, err)
	closeAtEnd(t, srq)
	for _, want := range []verbs.AsyncEvent{
		{Type: verbs.EventPortErr, Port: 2}, // of the other port than ours
		{Type: verbs.EventPortActive, Port: 1},
		{Type: verbs.EventQPFatal, QP: qp},
		{Type: verbs.EventSRQLimitReached, SRQ: srq},
		{Type: verbs.EventDeviceFatal},
	} {
		switch {
		case want.QP != nil:
			n.null.Report(uint32(want.Type), 0, qp.Raw())
		case want.SRQ != nil:
			n.null.Report(uint32(want.Type), 0, srq.Raw())
		default:
			n.null.Report(uint32(want.Type), uint32(want.Port), nil)
		}
		require.Equal(t, want, n.nextEvent(t), "%v", want.Type)
	}
	require.Equal(t, 2, n.null.Calls("ibv_ack_async_event"), "of the events that hold an object")
	_, err = qp.State()
	require.NoError(t, err, "another port's trouble is not ours")
}

// Nobody takes the events: they are read all the same, and counted.
func TestNullEventsAreReadWithoutAConsumer(t *testing.T) {
	n := newNull(t, nil)
	for range 100 {
		n.null.Report(uint32(verbs.EventPortActive), 1, nil)
	}
	require.Eventually(t, func() bool { return n.ctx.LostEvents() == 100-64 }, 10*time.Second, time.Millisecond)
}

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

func TestNullInlineIsProbedDownward(t *testing.T) {
	n := newNull(t, func(null *cgotest.Null) {
		limits := ampleLimits
		limits.MaxInline = 100
		null.SetLimits(limits)
	})
	qp, err := n.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: 4, MaxInline: 512})
	require.NoError(t, err)
	closeAtEnd(t, qp)
	require.Equal(t, 64, qp.Caps().MaxInline)
	require.Equal(t, 4, n.null.Calls("ibv_create_qp"))
}

func TestNullMovedGIDIndex(t *testing.T) {
	n := newNull(t, nil)
	qp := n.queuePair(t, verbs.RC)
	local, err := qp.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	// The address went and came back: behind a new one.
	other := cgotest.GID{GID: gid(t, "192.0.2.9"), Index: 1, Port: 1, Type: 2}
	require.NoError(t, n.null.SetGIDs(other, cgotest.GID{GID: n.gid.GID, Index: 3, Port: 1, Type: 2}))
	require.NoError(t, qp.Connect(local, verbs.ConnectConfig{}))
	attr, err := qp.Query(verbs.AttrPath)
	require.NoError(t, err)
	require.Equal(t, 3, attr.Path.GIDIndex)

	gone := n.queuePair(t, verbs.RC)
	local, err = gone.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	require.NoError(t, n.null.SetGIDs(other))
	err = gone.Connect(local, verbs.ConnectConfig{})
	require.ErrorIs(t, err, verbs.ErrNoUsableGID)
	require.ErrorContains(t, err, "192.0.2.9")
}

func TestNullLIDRouting(t *testing.T) {
	n := newNull(t, func(null *cgotest.Null) {
		null.SetPort(1, cgotest.Port{State: 4, MTU: 5, MaxMessage: 1 << 30, LID: 0xc001, LinkLayer: 1})
		require.NoError(t, null.SetGIDs(cgotest.GID{GID: gid(t, "fe80::1"), Port: 1}))
	})
	qp := n.queuePair(t, verbs.RC)
	local, err := qp.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	require.Equal(t, uint16(0xc001), local.LID)
	remote := local
	remote.GID, remote.LID = verbs.GID{}, 0xc002
	path := verbs.Path{ServiceLevel: 5, TrafficClass: 104, FlowLabel: 0xabcde, HopLimit: 3, StaticRate: verbs.RateOf(10000)}
	require.NoError(t, qp.Connect(remote, verbs.ConnectConfig{Path: path}))
	attr, err := qp.Query(verbs.AttrPath)
	require.NoError(t, err)
	require.Equal(t, verbs.AHConfig{Port: 1, RemoteLID: 0xc002, Path: path}, attr.Path)
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

	n.null.Report(uint32(verbs.EventGIDChange), 2, nil)
	n.nextEvent(t)
	require.Equal(t, 2, cache.Len(), "of another port")
	n.null.Report(uint32(verbs.EventGIDChange), 1, nil)
	n.nextEvent(t)
	require.Zero(t, cache.Len())
	_, err = cache.Get(verbs.AHConfig{Port: 1})
	require.ErrorIs(t, err, syscall.EINVAL)
	require.NoError(t, cache.Close())
	_, err = cache.Get(to("192.0.2.2"))
	require.ErrorIs(t, err, net.ErrClosed)
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
	require.NoError(t, n.pd.Advise(verbs.AdvicePrefetch, true, []verbs.SGE{sge(mr, 0, 64)}))
	require.ErrorIs(t, n.pd.Advise(verbs.AdvicePrefetch, true, nil), syscall.EINVAL)
	require.NoError(t, mr.Close())

	buf, err := n.pd.RegDMABuf(3, 0, 1<<20, 0x200000, remoteAccess)
	require.NoError(t, err)
	require.Equal(t, uint64(0x200000), buf.Addr())
	require.NoError(t, buf.Close())
	n.null.Fail("ibv_reg_dmabuf_mr", 0, 0, syscall.EOPNOTSUPP)
	_, err = n.pd.RegDMABuf(3, 0, 1<<20, 0, remoteAccess)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	zero, err := n.pd.RegMR(make([]byte, 64), verbs.AccessLocalWrite|verbs.AccessZeroBased)
	require.NoError(t, err)
	require.Zero(t, zero.Addr())
	require.NoError(t, zero.Close())
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

func TestNullMulticastRateLimitAndOrder(t *testing.T) {
	n := newNull(t, nil)
	qp := n.datagrams(t)
	group := gid(t, "224.0.0.9")
	require.NoError(t, qp.AttachMulticast(group, 0))
	require.NoError(t, qp.DetachMulticast(group, 0))
	require.ErrorIs(t, qp.AttachMulticast(gid(t, "192.0.2.1"), 0), syscall.EINVAL)
	require.NoError(t, qp.SetRateLimit(1000, 0, 0))
	require.ErrorIs(t, qp.SetRateLimit(-1, 0, 0), syscall.EINVAL)
	n.null.Fail("rate_limit", 0, int(syscall.EOPNOTSUPP), 0)
	require.ErrorIs(t, qp.SetRateLimit(1000, 0, 0), errors.ErrUnsupported)
	inOrder, err := qp.DataInOrder(verbs.OpWrite)
	require.NoError(t, err)
	require.True(t, inOrder)
	inOrder, err = qp.DataInOrder(verbs.OpRead)
	require.NoError(t, err)
	require.False(t, inOrder)
}

func TestNullAHOfADatagram(t *testing.T) {
	n := newNull(t, nil)
	ah, err := n.pd.CreateAHFromWC(1, &verbs.WC{SLID: 5}, make([]byte, verbs.GRHSize))
	require.NoError(t, err)
	require.NoError(t, ah.Close())
	_, err = n.pd.CreateAHFromWC(1, &verbs.WC{}, make([]byte, verbs.GRHSize-1))
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

func TestNullQueryGIDAndResolve(t *testing.T) {
	n := newNull(t, nil)
	entry, err := n.ctx.QueryGID(1, 1)
	require.NoError(t, err)
	require.Equal(t, n.gid, entry)
	_, err = n.ctx.QueryGID(1, 0)
	require.ErrorIs(t, err, syscall.ENODATA)
	_, err = n.ctx.QueryGID(1, 16)
	require.ErrorIs(t, err, syscall.EINVAL)
	mac, vlan, err := n.ctx.Resolve(verbs.AHConfig{Port: 1, GIDIndex: 1, RemoteGID: gid(t, "192.0.2.9")})
	require.NoError(t, err)
	require.Equal(t, [6]byte{0xff, 0xff, 192, 0, 2, 9}, mac)
	require.Equal(t, uint16(0xffff), vlan)
}
