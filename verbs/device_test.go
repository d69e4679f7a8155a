package verbs_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

// closeAtEnd closes c when the test ends, in the reverse order of the calls.
func closeAtEnd(t testing.TB, c interface{ Close() error }) {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, c.Close()) })
}

// node is what one end of a test has.
type node struct {
	ctx *verbs.Context
	pd  *verbs.PD
	cq  *verbs.CQ
	gid verbs.GIDEntry
}

func newNode(t testing.TB) *node {
	t.Helper()
	ctx, err := verbs.Open(rdmatest.Device(t))
	require.NoError(t, err)
	closeAtEnd(t, ctx)
	table, err := ctx.GIDTable()
	require.NoError(t, err)
	n := &node{ctx: ctx}
	n.gid, err = verbs.SelectGID(table, 1)
	require.NoError(t, err)
	n.pd, err = ctx.AllocPD()
	require.NoError(t, err)
	closeAtEnd(t, n.pd)
	n.cq, err = ctx.CreateCQ(verbs.CQConfig{Depth: 1024, Events: true})
	require.NoError(t, err)
	closeAtEnd(t, n.cq)
	return n
}

// region is registered memory outside the Go heap.
func (n *node) region(t testing.TB, size int, access verbs.AccessFlags) ([]byte, *verbs.MR) {
	t.Helper()
	buffer, err := mem.Map(size)
	require.NoError(t, err)
	closeAtEnd(t, buffer)
	mr, err := n.pd.RegMR(buffer.Bytes(), access)
	require.NoError(t, err)
	closeAtEnd(t, mr)
	return buffer.Bytes(), mr
}

// poll waits for n completions.
func poll(t testing.TB, cq *verbs.CQ, n int) []verbs.WC {
	t.Helper()
	wcs := make([]verbs.WC, n)
	got := 0
	for deadline := time.Now().Add(rdmatest.Deadline(20 * time.Second)); got < n; {
		k, err := cq.PollSpin(wcs[got:], verbs.MaxSpin)
		require.NoError(t, err)
		got += k
		require.True(t, time.Now().Before(deadline), "%d of %d completions within 20 s", got, n)
	}
	return wcs
}

func TestDeviceAttributes(t *testing.T) {
	n := newNode(t)
	attr := n.ctx.Attr()
	require.Positive(t, attr.MaxQP)
	require.Positive(t, attr.MaxCQE)
	require.Positive(t, attr.MaxMRSize)
	require.Equal(t, 1, attr.Ports)
	port, err := n.ctx.QueryPort(1)
	require.NoError(t, err)
	require.Equal(t, verbs.PortActive, port.State)
	require.GreaterOrEqual(t, port.ActiveMTU, verbs.MTU(1024))
	require.Positive(t, port.MaxMessage)
	require.Positive(t, port.Gbps())
	for _, bad := range []uint8{0, 2} {
		_, err = n.ctx.QueryPort(bad)
		require.ErrorIs(t, err, syscall.EINVAL)
	}
	require.Equal(t, verbs.GIDTypeRoCEv2, n.gid.Type)
	require.NotEmpty(t, n.gid.NetDev)
}

func TestOpenNames(t *testing.T) {
	device := rdmatest.Device(t)
	_, err := verbs.Open("nosuchdevice")
	require.ErrorIs(t, err, verbs.ErrNoDevice)
	require.ErrorContains(t, err, device)
	devices, err := verbs.Devices()
	require.NoError(t, err)
	require.Contains(t, func() (names []string) {
		for _, d := range devices {
			names = append(names, d.Name)
		}
		return names
	}(), device)
}

func TestParentsStayWhileChildrenLive(t *testing.T) {
	n := newNode(t)
	_, mr := n.region(t, 4096, verbs.AccessLocalWrite)
	require.ErrorIs(t, n.ctx.Close(), syscall.EBUSY)
	require.ErrorIs(t, n.pd.Close(), syscall.EBUSY)
	qp := n.queuePair(t, verbs.RC)
	require.ErrorIs(t, n.cq.Close(), syscall.EBUSY)
	_, err := n.cq.Poll(make([]verbs.WC, 1)) // nothing was changed
	require.NoError(t, err)

	require.NoError(t, mr.Close())
	require.NoError(t, mr.Close(), "closing twice does nothing")
	require.NoError(t, qp.Close())
	_, err = qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}, nil)
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = qp.State()
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestRegMRRefusesBeforeTheLibrary(t *testing.T) {
	n := newNode(t)
	for name, reg := range map[string]func() (*verbs.MR, error){
		"empty":          func() (*verbs.MR, error) { return n.pd.RegMR(nil, verbs.AccessLocalWrite) },
		"unknown access": func() (*verbs.MR, error) { return n.pd.RegMR(make([]byte, 8), 1<<30) },
		"remote without local write": func() (*verbs.MR, error) {
			return n.pd.RegMR(make([]byte, 8), verbs.AccessRemoteWrite)
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := reg()
			require.ErrorIs(t, err, syscall.EINVAL)
		})
	}
}

func TestCQRefuses(t *testing.T) {
	n := newNode(t)
	for _, depth := range []int{-1, 0, n.ctx.Attr().MaxCQE + 1} {
		_, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: depth})
		require.ErrorIs(t, err, syscall.EINVAL, "depth %d", depth)
	}
	require.GreaterOrEqual(t, n.cq.Depth(), 1024)
	without, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 1})
	require.NoError(t, err)
	closeAtEnd(t, without)
	require.ErrorIs(t, without.Arm(), syscall.EINVAL)
	require.ErrorIs(t, without.Wait(t.Context()), syscall.EINVAL)
}

func TestWaitEndsWithItsContext(t *testing.T) {
	n := newNode(t)
	require.NoError(t, n.cq.Arm())
	for range 3 { // and the next Wait is not cut short by an earlier one's deadline
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		require.ErrorIs(t, n.cq.Wait(ctx), context.DeadlineExceeded)
		cancel()
	}
}

func TestWaitEndsWhenTheQueueIsClosed(t *testing.T) {
	n := newNode(t)
	cq, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 16, Events: true})
	require.NoError(t, err)
	require.NoError(t, cq.Arm())
	ended := make(chan error)
	go func() { ended <- cq.Wait(context.Background()) }()
	require.NoError(t, cq.Close())
	select {
	case err := <-ended:
		require.ErrorIs(t, err, net.ErrClosed)
	case <-time.After(rdmatest.Deadline(10 * time.Second)):
		t.Fatal("Wait did not end")
	}
}
