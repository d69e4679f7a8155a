package fabric_test

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
)

func TestParentsOutliveTheirChildren(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		x := open(t, provider, setting{})
		b := x.buffer(8)
		template, err := fabric.NewTemplate(fabric.TemplatePart{Endpoint: x.ep, Kind: fabric.OpWrite,
			Ops: []fabric.Op{{Peer: x.meet(x.name)}}, LKey: b.LKey()})
		require.NoError(t, err)
		for _, parent := range []interface{ Close() error }{x.fabric, x.domain, x.av, x.cq, x.ep} {
			require.ErrorIs(t, parent.Close(), syscall.EBUSY)
		}
		require.NoError(t, template.Close())
		require.NoError(t, template.Close(), "again")
		require.NoError(t, x.ep.Close())
		require.NoError(t, x.ep.Close(), "again")
		require.NoError(t, x.av.Close())
	})
}

func TestClosedObjectsSaySo(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		x := open(t, provider, setting{})
		b := x.buffer(8)
		counter := opened[*fabric.Counter](t)(openCounter(x, fabric.CounterConfig{}))
		eq := opened[*fabric.EQ](t)(x.fabric.OpenEQ(fabric.EQConfig{}))
		template, err := fabric.NewTemplate(fabric.TemplatePart{Endpoint: x.ep, Kind: fabric.OpWrite,
			Ops: []fabric.Op{{Peer: x.meet(x.name)}}, LKey: b.LKey()})
		require.NoError(t, err)
		for _, c := range []interface{ Close() error }{template, x.ep, x.av, x.cq, b, eq} {
			require.NoError(t, c.Close())
		}
		if counter != nil {
			require.NoError(t, counter.Close())
		}
		require.NoError(t, x.domain.Close())
		require.NoError(t, x.fabric.Close())
		for name, err := range callsOf(x, b, eq, counter, template) {
			require.ErrorIs(t, err, net.ErrClosed, name)
		}
	})
}

// openCounter opens a counter where the provider has any.
func openCounter(x *side, cfg fabric.CounterConfig) (*fabric.Counter, error) {
	return x.domain.OpenCounter(cfg)
}

// second is the error of a call that returns something else too.
func second[T any](_ T, err error) error { return err }

func callsOf(x *side, b buffer, eq *fabric.EQ, counter *fabric.Counter, template *fabric.Template) map[string]error {
	ctx := context.Background()
	var completions [1]fabric.Completion
	ops, atomics := []fabric.Op{{}}, []fabric.AtomicOp{{}}
	_, _, rawKey := b.RawKey()
	_, _, postPoll := x.ep.PostPoll(fabric.OpWrite, ops, nil, completions[:], 0)
	_, _, query := x.domain.QueryAtomic(fabric.Uint64, fabric.Sum)
	calls := map[string]error{
		"domain":   second(x.fabric.OpenDomain(x.info)),
		"eq":       second(x.fabric.OpenEQ(fabric.EQConfig{})),
		"listen":   second(x.fabric.Listen(x.info, eq)),
		"av":       second(x.domain.OpenAV(fabric.AVConfig{})),
		"cq":       second(x.domain.OpenCQ(fabric.CQConfig{})),
		"counter":  second(x.domain.OpenCounter(fabric.CounterConfig{})),
		"endpoint": second(x.domain.OpenEndpoint(x.info, fabric.EndpointConfig{})),
		"scalable": second(x.domain.OpenScalable(x.info, x.av)),
		"stx":      second(x.domain.OpenSharedTx(x.info)),
		"srx":      second(x.domain.OpenSharedRx(x.info)),
		"mr":       second(x.domain.RegMR(b.bytes, fabric.MRConfig{})),
		"map key":  second(x.domain.MapKey(0, []byte{1})),
		"unmap":    x.domain.UnmapKey(1),
		"bind":     x.domain.BindEQ(eq),
		"query":    query,

		"insert":    second(x.av.Insert(x.name)),
		"later":     x.av.InsertLater(1, x.name),
		"insertsvc": second(x.av.InsertService("127.0.0.1", "1")),
		"insertsym": second(x.av.InsertSymmetric("127.0.0.1", 1, "1", 1)),
		"remove":    x.av.Remove(0),
		"lookup":    second(x.av.Lookup(0)),
		"text":      second(x.av.Text(x.name)),

		"poll":   second(x.cq.Poll(completions[:])),
		"spin":   second(x.cq.PollSpinWhile(completions[:], 0, new(atomic.Uint64), 0)),
		"signal": x.cq.Signal(),

		"open ops":   second(fabric.OpenOps(x.domain, "x")),
		"set ops":    fabric.SetOps(x.av, "x", nil),
		"control":    fabric.Control(x.cq, 1, nil),
		"get value":  fabric.GetVal(x.ep, 1, nil),
		"set value":  fabric.SetVal(x.ep, 1, nil),
		"name":       second(x.ep.Name()),
		"post, poll": postPoll,
		"send":       second(x.ep.Send(ops, nil)),
		"recv":       second(x.ep.Recv(ops, nil)),
		"tsend":      second(x.ep.TaggedSend(ops, nil)),
		"trecv":      second(x.ep.TaggedRecv(ops, nil)),
		"write":      second(x.ep.Write(ops, nil)),
		"read":       second(x.ep.Read(ops, nil)),
		"inject":     x.ep.Inject(fabric.OpSend, ops[0], nil),
		"atomic":     second(x.ep.Atomic(atomics, nil)),
		"fetch":      second(x.ep.FetchAtomic(atomics, nil)),
		"compare":    second(x.ep.CompareAtomic(atomics, nil)),
		"valid":      second(x.ep.AtomicValid(fabric.Uint64, fabric.Sum)),
		"cancel":     x.ep.Cancel(1),
		"alias":      second(x.ep.Alias(0)),
		"option":     second(x.ep.Option(0, 8)),
		"set option": x.ep.SetOption(fabric.SizeOption(0, 1)),
		"set name":   x.ep.SetName(x.name),
		"connect":    x.ep.Connect(x.name, nil),
		"shutdown":   x.ep.Shutdown(),
		"peer":       second(x.ep.Peer()),
		"join":       second(x.ep.Join(x.name)),
		"post":       second(template.Post([]fabric.Patch{{}})),

		"raw key":       rawKey,
		"enable":        b.Enable(),
		"refresh":       b.Refresh(0, 1),
		"bind endpoint": b.BindEndpoint(x.ep),

		"read eq":  second(eq.Read()),
		"write eq": eq.Write(1, 2),
	}
	if counter != nil {
		calls["count"] = second(counter.Read())
		calls["errors"] = second(counter.ReadErrors())
		calls["add"] = counter.Add(1)
		calls["wait"] = counter.Wait(ctx, 1)
		calls["bind counter"] = b.BindCounter(counter)
	}
	return calls
}

func TestClosingTwiceAndAfterAFailureIsHarmless(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	x := open(t, "shm", setting{})
	_, err := x.domain.OpenEndpoint(x.info, fabric.EndpointConfig{
		AV: x.av, TxCQ: x.cq, Options: []fabric.Option{fabric.SizeOption(9999, 1)},
	})
	require.ErrorContains(t, err, "option 9999")
	require.NoError(t, x.ep.Close())
	require.NoError(t, x.av.Close(), "the failed endpoint does not hold it")
}
