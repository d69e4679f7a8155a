package fabric_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
)

// TestObjectsOfAnotherDomainAreRefused: providers take them, and then the completions of one endpoint come out of another's queue,
// a queue closes under its endpoint, or the process ends.
func TestObjectsOfAnotherDomainAreRefused(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	for _, provider := range []string{"shm", "tcp"} { // the same provider, and another one
		t.Run(provider, func(t *testing.T) {
			x, y := open(t, "shm", setting{}), open(t, provider, setting{})
			counter := opened[*fabric.Counter](t)(y.domain.OpenCounter(fabric.CounterConfig{}))
			eq := opened[*fabric.EQ](t)(y.fabric.OpenEQ(fabric.EQConfig{}))
			mr := x.buffer(64).MR
			endpoint := func(change func(*fabric.EndpointConfig)) error {
				cfg := fabric.EndpointConfig{AV: x.av, TxCQ: x.cq, RxCQ: x.cq}
				change(&cfg)
				return second(x.domain.OpenEndpoint(x.info, cfg))
			}
			for name, err := range map[string]error{
				"AV is of another":   endpoint(func(c *fabric.EndpointConfig) { c.AV = y.av }),
				"TxCQ is of another": endpoint(func(c *fabric.EndpointConfig) { c.TxCQ = y.cq }),
				"RxCQ is of another": endpoint(func(c *fabric.EndpointConfig) { c.RxCQ = y.cq }),
				"the counter of Events 0 is of another": endpoint(func(c *fabric.EndpointConfig) {
					c.Events = []fabric.CounterEvents{{Counter: counter, Events: fabric.CapSend}}
				}),
				"SharedRx is of another": endpoint(func(c *fabric.EndpointConfig) { c.SharedRx = y.ep }),
				"SharedRx is a RDM endpoint of shm, and none of OpenSharedRx": endpoint(func(c *fabric.EndpointConfig) {
					c.SharedRx = x.ep
				}),
				"EQ is of another fabric":                  endpoint(func(c *fabric.EndpointConfig) { c.EQ = eq }),
				"open address vector: EQ is of another":    second(x.domain.OpenAV(fabric.AVConfig{EQ: eq})),
				"bind domain: EQ is of another fabric":     x.domain.BindEQ(eq),
				"memory region: the endpoint is of anothe": mr.BindEndpoint(y.ep),
				"memory region: the counter is of another": mr.BindCounter(counter),
				"scalable endpoint: AV is of another":      second(x.domain.OpenScalable(x.info, y.av)),
			} {
				require.ErrorIs(t, err, syscall.EINVAL, name)
				require.ErrorContains(t, err, name)
			}
			require.NoError(t, x.ep.Close())
			require.NoError(t, x.av.Close(), "an endpoint that was refused holds nothing")
			require.NoError(t, y.ep.Close())
			require.NoError(t, y.cq.Close())
			require.NoError(t, y.av.Close())
		})
	}
}

func TestInfosOfAnotherDomainAreRefused(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	x, y := open(t, "shm", setting{}), open(t, "tcp", setting{})
	udp, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Type: fabric.Dgram, Node: "127.0.0.1"})
	require.NoError(t, err)
	msg := openStation(t, "tcp", nil)
	cfg := fabric.EndpointConfig{AV: x.av, TxCQ: x.cq, RxCQ: x.cq}
	const other = "the info is of fabric "
	for name, err := range map[string]error{
		"domain":                     second(x.fabric.OpenDomain(y.info)),
		"domain of another provider": second(y.fabric.OpenDomain(udp[0])), // the fabric has the same name
		"endpoint":                   second(x.domain.OpenEndpoint(y.info, cfg)),
		"scalable":                   second(x.domain.OpenScalable(y.info, x.av)),
		"shared sends":               second(x.domain.OpenSharedTx(y.info)),
		"shared receives":            second(x.domain.OpenSharedRx(y.info)),
		"listener":                   second(msg.fabric.Listen(x.info, msg.eq)), // in 2.x both kinds of tcp have one fabric
	} {
		require.ErrorIs(t, err, syscall.EINVAL, name)
		require.ErrorContains(t, err, other, name)
	}
	none := new(fabric.Info) // of nobody's
	require.ErrorIs(t, second(fabric.OpenFabric(none)), syscall.EINVAL)
	require.ErrorIs(t, second(x.fabric.OpenDomain(none)), syscall.EINVAL)
	require.ErrorIs(t, second(x.domain.OpenEndpoint(none, cfg)), syscall.EINVAL)
	require.Equal(t, "no info", none.String())
}

// TestFieldsOfAnInfoAreForReading: what counts is what libfabric has.
func TestFieldsOfAnInfoAreForReading(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		x := open(t, provider, setting{})
		addr := x.buffer(8).Addr()
		x.info.MRMode, x.info.Type, x.info.Provider, x.info.Fabric, x.info.Domain = 0, fabric.Msg, "?", "?", "?"
		require.Equal(t, addr != 0, x.buffer(8).Addr() != 0)
		y := x.sibling()
		y.meet(y.name)
	})
}

// TestQueuesOfAnEndpointStayOpen: all that an endpoint works with outlives it.
func TestQueuesOfAnEndpointStayOpen(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	x := open(t, "shm", setting{})
	tx, rx := opened[*fabric.CQ](t)(x.domain.OpenCQ(fabric.CQConfig{})), opened[*fabric.CQ](t)(x.domain.OpenCQ(fabric.CQConfig{}))
	counter := opened[*fabric.Counter](t)(x.domain.OpenCounter(fabric.CounterConfig{}))
	av := opened[*fabric.AV](t)(x.domain.OpenAV(fabric.AVConfig{}))
	ep, err := x.domain.OpenEndpoint(x.info, fabric.EndpointConfig{AV: av, TxCQ: tx, RxCQ: rx,
		Events: []fabric.CounterEvents{{Counter: counter, Events: fabric.CapSend}}})
	require.NoError(t, err)
	parents := []interface{ Close() error }{tx, rx, counter, av}
	for _, parent := range parents {
		err := parent.Close()
		require.ErrorIs(t, err, syscall.EBUSY)
		require.ErrorContains(t, err, "1 × endpoint", "not left to the provider")
	}
	require.NoError(t, ep.Close())
	for _, parent := range parents {
		require.NoError(t, parent.Close())
	}
}

// TestConnectionRequestIsAnsweredOnce: the provider gives what it has of a request to the first answer.
func TestConnectionRequestIsAnsweredOnce(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	client, server := openStation(t, "tcp", nil), openStation(t, "tcp", nil)
	listener := opened[*fabric.Listener](t)(server.fabric.Listen(server.info, server.eq))
	other := opened[*fabric.Listener](t)(server.fabric.Listen(server.info, server.eq))
	address, err := listener.Name()
	require.NoError(t, err)
	cq := opened[*fabric.CQ](t)(server.domain.OpenCQ(fabric.CQConfig{}))
	cfg := fabric.EndpointConfig{TxCQ: cq, RxCQ: cq, EQ: server.eq}
	request := func() *fabric.Info {
		a := client.endpoint(client.info, nil)
		require.NoError(t, a.ep.Connect(address, nil))
		return server.event(fabric.EventConnReq).Info
	}
	rejected := request()
	require.ErrorContains(t, listener.Reject(server.info, nil), "not of a connection request to this listener")
	require.ErrorContains(t, other.Reject(rejected, nil), "not of a connection request to this listener")
	require.NoError(t, listener.Reject(rejected, nil))
	require.Error(t, receive(t, client.events).err)
	require.ErrorContains(t, listener.Reject(rejected, nil), "accepted or rejected already")
	require.ErrorContains(t, second(server.domain.OpenEndpoint(rejected, cfg)), "accepted or rejected already")

	accepted := request()
	ep := opened[*fabric.Endpoint](t)(server.domain.OpenEndpoint(accepted, cfg))
	require.ErrorContains(t, second(server.domain.OpenEndpoint(accepted, cfg)), "accepted or rejected already")
	require.ErrorContains(t, listener.Reject(accepted, nil), "accepted or rejected already")
	require.NoError(t, ep.Accept(nil))
	require.Same(t, ep, server.event(fabric.EventConnected).Endpoint)

	fresh := opened[*fabric.Endpoint](t)(server.domain.OpenEndpoint(server.info, cfg))
	require.ErrorContains(t, fresh.Accept(nil), "was not opened with the info of a connection request")
}

// TestSharedContextsHaveNoOtherCalls: a provider has no functions for them, and a call would end the process.
func TestSharedContextsHaveNoOtherCalls(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	s := openStation(t, "tcp", func(h *fabric.Hints) { h.RxContexts = fabric.SharedTxContexts })
	srx := opened[*fabric.Endpoint](t)(s.domain.OpenSharedRx(s.info))
	for name, post := range map[string]func([]fabric.Op, []fabric.Seg) (int, error){
		"send": srx.Send, "tagged send": srx.TaggedSend, "write": srx.Write, "read": srx.Read,
	} {
		_, err := post([]fabric.Op{{}}, nil)
		require.ErrorContains(t, err, "the endpoint has no such operation", name)
	}
	for name, err := range map[string]error{
		"name": second(srx.Name()), "set name": srx.SetName([]byte{1}), "peer": second(srx.Peer()),
		"connect": srx.Connect(make([]byte, 16), nil), "shutdown": srx.Shutdown(), "accept": srx.Accept(nil),
	} {
		require.Error(t, err, name)
	}
}
