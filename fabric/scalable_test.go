package fabric_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
)

// sockets is the one provider of this library that has contexts; it is slow and on its way out, and serves as a test.
const sockets = "sockets"

func openSockets(t *testing.T, change func(*fabric.Hints)) *side {
	t.Helper()
	hints := fabric.Hints{Provider: sockets, Node: "127.0.0.1", Caps: fabric.CapMsg | fabric.CapRMA | fabric.CapNamedRxContext}
	change(&hints)
	infos, err := fabric.GetInfo(hints)
	require.NoError(t, err)
	x := &side{t: t, info: infos[0]}
	x.fabric = opened[*fabric.Fabric](t)(fabric.OpenFabric(x.info))
	x.domain = opened[*fabric.Domain](t)(x.fabric.OpenDomain(x.info))
	x.cq = opened[*fabric.CQ](t)(x.domain.OpenCQ(fabric.CQConfig{}))
	return x
}

func TestScalableEndpointHasContexts(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	const contexts = 2
	var ends [2]struct {
		*side
		scalable *fabric.ScalableEndpoint
		tx, rx   *fabric.Endpoint
	}
	for i := range ends {
		x := openSockets(t, func(h *fabric.Hints) { h.TxContexts, h.RxContexts = contexts, contexts })
		x.av = opened[*fabric.AV](t)(x.domain.OpenAV(fabric.AVConfig{ContextBits: 1}))
		s := opened[*fabric.ScalableEndpoint](t)(x.domain.OpenScalable(x.info, x.av))
		ends[i].side, ends[i].scalable = x, s
		ends[i].tx = opened[*fabric.Endpoint](t)(s.Tx(0, x.cq))
		ends[i].rx = opened[*fabric.Endpoint](t)(s.Rx(1, x.cq))
		require.NoError(t, s.Enable())
		require.ErrorIs(t, s.Close(), syscall.EBUSY)
		_, err := s.Tx(-1, x.cq)
		require.ErrorIs(t, err, syscall.EINVAL)
		_, err = s.Rx(1<<20, x.cq)
		require.ErrorIs(t, err, syscall.EINVAL)
	}
	a, b := ends[0], ends[1]
	name, err := b.scalable.Name()
	require.NoError(t, err)
	peer := fabric.RxAddr(a.meet(name), 1, 1)
	require.Equal(t, fabric.Addr(1)<<63, peer)
	require.Equal(t, fabric.Addr(3), fabric.RxAddr(3, 1, 0))
	from, to := a.buffer(8), b.buffer(8)
	copy(from.bytes, "contexts")
	n, err := b.rx.Recv([]fabric.Op{{ID: 1, NumSeg: 1, Peer: fabric.AddrUnspec}}, to.all())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	a.post(a.tx.Send, []fabric.Op{{ID: 2, NumSeg: 1, Peer: peer}}, from.all(), b.side)
	require.Equal(t, uint64(1), b.message(a.side).ID)
	a.complete(2, b.side)
	require.Equal(t, "contexts", string(to.bytes))
	require.NotNil(t, a.scalable.Raw())
}

func TestSendsAreShared(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	x := openSockets(t, func(h *fabric.Hints) { h.TxContexts, h.Caps = fabric.SharedTxContexts, fabric.CapMsg })
	stx := opened[*fabric.SharedTx](t)(x.domain.OpenSharedTx(x.info))
	x.av = opened[*fabric.AV](t)(x.domain.OpenAV(fabric.AVConfig{}))
	cfg := fabric.EndpointConfig{AV: x.av, TxCQ: x.cq, RxCQ: x.cq, SharedTx: stx}
	x.ep = opened[*fabric.Endpoint](t)(x.domain.OpenEndpoint(x.info, cfg))
	require.ErrorIs(t, stx.Close(), syscall.EBUSY)
	require.NotNil(t, stx.Raw())
	var err error
	x.name, err = x.ep.Name()
	require.NoError(t, err)
	b := x.buffer(16)
	b.bytes[0] = 3
	x.recv(1, []fabric.Seg{b.Seg(8, 8)})
	x.post(x.ep.Send, []fabric.Op{{ID: 2, NumSeg: 1, Peer: x.meet(x.name)}}, []fabric.Seg{b.Seg(0, 8)})
	x.message()
	require.Equal(t, byte(3), b.bytes[8])
}
