package fabric_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
)

// station is one end of connections: a fabric, a domain and an event queue.
type station struct {
	t      *testing.T
	info   *fabric.Info
	fabric *fabric.Fabric
	domain *fabric.Domain
	eq     *fabric.EQ
	events chan outcome
}

// outcome is what a wait for an event gave.
type outcome struct {
	*fabric.Event
	err error
}

func openStation(t *testing.T, provider string, change func(*fabric.Hints)) *station {
	t.Helper()
	hints := fabric.Hints{Provider: provider, Type: fabric.Msg, Node: "127.0.0.1", Caps: fabric.CapMsg | fabric.CapRMA}
	if change != nil {
		change(&hints)
	}
	infos, err := fabric.GetInfo(hints)
	require.NoError(t, err)
	s := &station{t: t, info: infos[0]}
	s.fabric = opened[*fabric.Fabric](t)(fabric.OpenFabric(s.info))
	s.domain = opened[*fabric.Domain](t)(s.fabric.OpenDomain(s.info))
	s.eq = opened[*fabric.EQ](t)(s.fabric.OpenEQ(fabric.EQConfig{Wait: fabric.WaitFD}))
	s.events = make(chan outcome, 16)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	// Both ends wait at all times: a connection is made by what the two queues do.
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			e, err := s.eq.Wait(ctx)
			s.events <- outcome{e, err}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return s
}

// endpoint opens an endpoint of an info.
func (s *station) endpoint(info *fabric.Info, srx *fabric.Endpoint) *side {
	s.t.Helper()
	x := &side{t: s.t, info: info, fabric: s.fabric, domain: s.domain}
	x.cq = opened[*fabric.CQ](s.t)(s.domain.OpenCQ(fabric.CQConfig{}))
	x.ep = opened[*fabric.Endpoint](s.t)(s.domain.OpenEndpoint(info, fabric.EndpointConfig{
		TxCQ: x.cq, RxCQ: x.cq, EQ: s.eq, SharedRx: srx,
	}))
	return x
}

// event waits for one, which has to be of the type.
func (s *station) event(want fabric.EventType) *fabric.Event {
	s.t.Helper()
	e := receive(s.t, s.events)
	require.NoError(s.t, e.err)
	require.Equal(s.t, want, e.Type, "%+v", e.Event)
	return e.Event
}

// connect makes a connection between two stations.
func connect(client, server *station, listener *fabric.Listener, srx *fabric.Endpoint) (a, b *side) {
	t := client.t
	t.Helper()
	address, err := listener.Name()
	require.NoError(t, err)
	a = client.endpoint(client.info, nil)
	require.NoError(t, a.ep.Connect(address, []byte("hello")))
	request := server.event(fabric.EventConnReq)
	require.Equal(t, "hello", string(request.Param[:5]))
	require.Same(t, listener, request.Listener)
	b = server.endpoint(request.Info, srx)
	require.NoError(t, b.ep.Accept([]byte("welcome")))
	require.Same(t, b.ep, server.event(fabric.EventConnected).Endpoint)
	connected := client.event(fabric.EventConnected)
	require.Same(t, a.ep, connected.Endpoint)
	require.Equal(t, "welcome", string(connected.Param[:7]))
	return a, b
}

func TestConnectionCarriesMessagesAndWrites(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	client, server := openStation(t, "tcp", nil), openStation(t, "tcp", nil)
	listener := opened[*fabric.Listener](t)(server.fabric.Listen(server.info, server.eq))
	a, b := connect(client, server, listener, nil)
	from, to := a.buffer(64), b.buffer(64)
	copy(from.bytes, "a message over a connection")
	b.post(b.ep.Recv, []fabric.Op{{ID: 1, NumSeg: 1}}, to.all())
	a.post(a.ep.Send, []fabric.Op{{ID: 2, NumSeg: 1}}, []fabric.Seg{from.Seg(0, 27)}, b)
	require.Equal(t, uint64(27), b.message(a).Length)
	a.complete(2, b)
	require.Equal(t, from.bytes[:27], to.bytes[:27])
	op := to.at(fabric.Op{ID: 3, NumSeg: 1, Flags: fabric.FlagDeliveryComplete}, 32)
	a.post(a.ep.Write, []fabric.Op{op}, []fabric.Seg{from.Seg(2, 7)}, b)
	a.complete(3, b)
	require.Equal(t, "message", string(to.bytes[32:39]))

	peer, err := a.ep.Peer()
	require.NoError(t, err)
	name, err := listener.Name()
	require.NoError(t, err)
	require.Equal(t, name, peer)
	require.ErrorIs(t, server.eq.Close(), syscall.EBUSY)
	require.NoError(t, a.ep.Shutdown())
	ctx := rdmatest.Context(t, patience)
	for len(server.events) == 0 && ctx.Err() == nil { // what has happened shows as the data moves on
		b.poll()
	}
	require.Same(t, b.ep, server.event(fabric.EventShutdown).Endpoint)
}

func TestRejectedConnectionIsAnError(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	client, server := openStation(t, "tcp", nil), openStation(t, "tcp", nil)
	listener := opened[*fabric.Listener](t)(server.fabric.Listen(server.info, server.eq))
	address, err := listener.Name()
	require.NoError(t, err)
	a := client.endpoint(client.info, nil)
	require.NoError(t, a.ep.Connect(address, nil))
	require.NoError(t, listener.Reject(server.event(fabric.EventConnReq).Info, []byte("no")))
	err = receive(t, client.events).err
	var refused *fabric.EventError
	require.ErrorAs(t, err, &refused)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Same(t, a.ep, refused.Endpoint)
	require.ErrorIs(t, listener.Reject(nil, nil), syscall.EINVAL)
	for _, address := range [][]byte{{1}, nil, make([]byte, 16), make([]byte, 300)} { // nil is the info's, which has none here
		err := a.ep.Connect(address, nil)
		require.ErrorIs(t, err, syscall.EINVAL)
		require.ErrorContains(t, err, "connect: the address", "not left to the provider")
	}
}

func TestReceivesAreShared(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	shared := func(h *fabric.Hints) { h.RxContexts = fabric.SharedTxContexts }
	client, server := openStation(t, "tcp", nil), openStation(t, "tcp", shared)
	listener := opened[*fabric.Listener](t)(server.fabric.Listen(server.info, server.eq))
	srx := opened[*fabric.Endpoint](t)(server.domain.OpenSharedRx(server.info))
	a1, b1 := connect(client, server, listener, srx)
	a2, b2 := connect(client, server, listener, srx)
	require.ErrorIs(t, srx.Close(), syscall.EBUSY)
	from, to := a1.buffer(8), b1.buffer(16)
	n, err := srx.Recv([]fabric.Op{{ID: 1, NumSeg: 1}, {ID: 2, NumSeg: 1}}, []fabric.Seg{to.Seg(0, 8), to.Seg(8, 8)})
	require.NoError(t, err)
	require.Equal(t, 2, n)
	from.bytes[0] = 7
	a1.post(a1.ep.Send, []fabric.Op{{ID: 5, NumSeg: 1}}, from.all(), b1)
	require.Equal(t, uint64(1), b1.message(a1).ID)
	a1.complete(5, b1)
	a2.post(a2.ep.Send, []fabric.Op{{ID: 6, NumSeg: 1}}, from.all(), b2)
	require.Equal(t, uint64(2), b2.message(a2).ID)
	a2.complete(6, b2)
	require.Equal(t, []byte{7, 7}, []byte{to.bytes[0], to.bytes[8]})
}

func TestEventsThatAreWrittenAreRead(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	for _, wait := range []fabric.WaitObject{fabric.WaitNone, fabric.WaitUnspec, fabric.WaitFD} {
		x := open(t, "tcp", setting{})
		eq := opened[*fabric.EQ](t)(x.fabric.OpenEQ(fabric.EQConfig{Depth: 8, Wait: wait}))
		e, err := eq.Read()
		require.NoError(t, err)
		require.Nil(t, e)
		require.NoError(t, eq.Write(7, 9))
		if wait == fabric.WaitNone {
			_, err = eq.Wait(t.Context())
			require.ErrorIs(t, err, syscall.EINVAL)
			e, err = eq.Read()
		} else {
			e, err = eq.Wait(rdmatest.Context(t, patience))
		}
		require.NoError(t, err)
		require.Equal(t, []uint64{7, 9}, []uint64{e.Context, e.Data})
		require.Equal(t, fabric.EventNotify, e.Type)
		require.NotNil(t, eq.Raw())
		if wait == fabric.WaitNone {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		_, err = eq.Wait(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		ended := make(chan error, 1)
		go func() { ended <- second(eq.Wait(t.Context())) }()
		require.NoError(t, eq.Close())
		require.ErrorIs(t, receive(t, ended), net.ErrClosed)
	}
}

// TestEventQueueForgetsWhatIsClosed: it would keep every endpoint of a server.
func TestEventQueueForgetsWhatIsClosed(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	s := openStation(t, "tcp", nil)
	cq := opened[*fabric.CQ](t)(s.domain.OpenCQ(fabric.CQConfig{}))
	ep, err := s.domain.OpenEndpoint(s.info, fabric.EndpointConfig{TxCQ: cq, RxCQ: cq, EQ: s.eq})
	require.NoError(t, err)
	listener, err := s.fabric.Listen(s.info, s.eq)
	require.NoError(t, err)
	require.Equal(t, 2, s.eq.Known())
	require.NoError(t, ep.Close())
	require.NoError(t, listener.Close())
	require.Zero(t, s.eq.Known())
}
