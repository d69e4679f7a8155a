//go:build linux && cgo && !noverbs

package verbs_test

import (
	"errors"
	"math"
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
	require.Equal(t, verbs.ODPSupport, extended.ODP)
	require.Equal(t, uint64(math.MaxUint64), extended.TimestampMask)
	port, err := n.ctx.QueryPort(2)
	require.NoError(t, err)
	require.Equal(t, verbs.PortDown, port.State)
	require.Equal(t, verbs.MTU(1024), port.ActiveMTU)
	require.Equal(t, verbs.LinkLayerInfiniBand, port.LinkLayer)
	require.Equal(t, uint16(0xc001), port.LID)
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
	n.null.Fail("query_device_ex", 0, int(syscall.EOPNOTSUPP), 0)
	_, err = n.ctx.QueryExtended()
	require.ErrorIs(t, err, errors.ErrUnsupported)
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
		{Type: verbs.EventWQFatal},
	} {
		switch {
		case want.QP != nil:
			n.null.Report(uint32(want.Type), 0, qp.Raw())
		case want.SRQ != nil:
			n.null.Report(uint32(want.Type), 0, srq.Raw())
		case want.Type == verbs.EventWQFatal:
			n.null.Report(uint32(want.Type), 0, qp.Raw()) // in place of a work queue, of which there is none
		default:
			n.null.Report(uint32(want.Type), uint32(want.Port), nil)
		}
		require.Equal(t, want, n.nextEvent(t), "%v", want.Type)
	}
	require.Equal(t, 3, n.null.Calls("ibv_ack_async_event"), "of the events that hold an object")
	_, err = qp.State()
	require.NoError(t, err, "another port's trouble is not ours")
}

// Nobody takes the events: they are read all the same, and counted.
func TestNullEventsAreReadWithoutAConsumer(t *testing.T) {
	n := newNull(t, nil)
	for range 100 {
		n.null.Report(uint32(verbs.EventPortActive), 1, nil)
	}
	require.Eventually(t, func() bool { return n.ctx.LostEvents() == 100-64 }, rdmatest.Deadline(10*time.Second), time.Millisecond)
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

// TestNullConnectReadsNoWholeTable while its GID is where it was: a table has hundreds of entries.
func TestNullConnectReadsNoWholeTable(t *testing.T) {
	n := newNull(t, nil)
	tables := n.null.Calls("_ibv_query_gid_table")
	n.connected(t)
	found, err := n.ctx.FindGID(n.gid)
	require.NoError(t, err)
	require.Equal(t, n.gid, found)
	require.Equal(t, tables, n.null.Calls("_ibv_query_gid_table"))

	other := n.gid
	other.Type = verbs.GIDTypeRoCEv1
	v1 := cgotest.GID{GID: other.GID, Index: 1, Port: 1, Type: uint32(other.Type)}
	v2 := cgotest.GID{GID: n.gid.GID, Index: 2, Port: 1, Type: uint32(n.gid.Type)}
	require.NoError(t, n.null.SetGIDs(v1, v2)) // another type in its place
	found, err = n.ctx.FindGID(n.gid)
	require.NoError(t, err)
	require.Equal(t, 2, found.Index)
	require.Equal(t, tables+1, n.null.Calls("_ibv_query_gid_table"))
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

func TestNullMulticastRateLimitAndOrder(t *testing.T) {
	n := newNull(t, nil)
	qp := n.datagrams(t)
	group := gid(t, "224.0.0.9")
	require.NoError(t, qp.AttachMulticast(group, 0))
	require.NoError(t, qp.DetachMulticast(group, 0))
	require.ErrorIs(t, qp.DetachMulticast(group, 0), syscall.EINVAL, "it is in the group no more")
	require.ErrorIs(t, qp.AttachMulticast(gid(t, "192.0.2.1"), 0), syscall.EINVAL)
	require.NoError(t, qp.SetRateLimit(1000, 70000, 1500))
	kbps, burst, packet := cgotest.Rate(qp.Raw())
	require.Equal(t, []int{1000, 70000, 1500}, []int{kbps, burst, packet})
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
