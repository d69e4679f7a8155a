package fabric_test

import (
	"math"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
)

// Bad operations are refused before anything is posted: the good one in front of each gives no completion.
func TestBadOperationsPostNothing(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a, b := pair(t, provider, setting{})
		from, to := a.buffer(4096), b.buffer(4096)
		closed := a.buffer(8)
		gone := closed.all()
		require.NoError(t, closed.MR.Close())
		one := from.all()
		wide := make([]fabric.Seg, a.info.Tx.Segments+1)
		for i := range wide {
			wide[i] = from.Seg(0, 1)
		}
		good := to.at(fabric.Op{ID: 1, NumSeg: 1}, 0)
		for name, c := range map[string]struct {
			op   fabric.Op
			segs []fabric.Seg
			want string
		}{
			"too many segments":  {fabric.Op{NumSeg: uint32(len(wide))}, wide, "more segments than a send"},
			"fewer segments":     {fabric.Op{NumSeg: 2}, one, "the 2 segments are not as many"},
			"segments left over": {fabric.Op{NumSeg: 1}, append(one, one...), "the 3 segments are not as many"},
			"no key": {fabric.Op{NumSeg: 1}, []fabric.Seg{{Addr: from.Local(), Length: 8}},
				"not that of an open memory region"},
			"key of nothing": {fabric.Op{NumSeg: 1}, []fabric.Seg{{Addr: from.Local(), Length: 8, LKey: 12345}},
				"not that of an open"},
			"key beyond the table": {fabric.Op{NumSeg: 1}, []fabric.Seg{{Addr: 1, Length: 8, LKey: math.MaxUint32}},
				"not that of an open"},
			"closed region": {fabric.Op{NumSeg: 1}, gone, "not that of an open memory region"},
			"before the region": {fabric.Op{NumSeg: 1}, []fabric.Seg{{Addr: from.Local() - 1, Length: 8, LKey: from.LKey()}},
				"not within"},
			"beyond the region": {fabric.Op{NumSeg: 1}, []fabric.Seg{from.Seg(4090, 7)}, "not within its memory region"},
			"longer than it":    {fabric.Op{NumSeg: 1}, []fabric.Seg{from.Seg(0, 4097)}, "not within its memory region"},
			"an overflow": {fabric.Op{NumSeg: 1}, []fabric.Seg{from.Seg(8, math.MaxUint64)},
				"not within its memory region"},
			"an unknown peer": {fabric.Op{NumSeg: 1, Peer: 1}, one, "not in the endpoint's address vector"},
			"no peer":         {fabric.Op{NumSeg: 1, Peer: fabric.AddrUnspec}, one, "not in the endpoint's address vector"},
			"a far peer":      {fabric.Op{NumSeg: 1, Peer: 1 << 40}, one, "not in the endpoint's address vector"},
			"a flag of receives": {fabric.Op{NumSeg: 1, Flags: fabric.FlagMultiRecv}, one,
				"flags that this operation does not take"},
			"an unknown flag": {fabric.Op{NumSeg: 1, Flags: 1 << 60}, one, "flags that this operation does not take"},
			"inject of two": {fabric.Op{NumSeg: 2, Flags: fabric.FlagInject}, []fabric.Seg{from.Seg(0, 1), from.Seg(0, 1)},
				"with FlagInject"},
			"a long inject": {fabric.Op{NumSeg: 1, Flags: fabric.FlagInject}, []fabric.Seg{{Addr: 1, Length: a.info.Tx.InjectSize + 1}},
				"than FlagInject takes"},
		} {
			t.Run(name, func(t *testing.T) {
				bad := to.at(c.op, 0)
				n, err := a.ep.Write([]fabric.Op{good, bad}, append([]fabric.Seg{one[0]}, c.segs...))
				require.Zero(t, n)
				require.ErrorIs(t, err, syscall.EINVAL)
				require.ErrorContains(t, err, "operation 1 of 2")
				require.ErrorContains(t, err, strings.Replace(c.want, "the 2 segments", "the 2 segments", 1))
				n, err = a.ep.Write([]fabric.Op{bad}, c.segs) // alone, another way is taken
				require.Zero(t, n)
				require.ErrorIs(t, err, syscall.EINVAL)
			})
		}
		a.post(a.ep.Write, []fabric.Op{to.at(fabric.Op{ID: 9, NumSeg: 1}, 0)}, one, b)
		a.complete(9, b)
		require.Empty(t, a.done, "nothing else was posted")
	})
}

func TestOperationsThatAnEndpointWasNotOpenedFor(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a := open(t, "shm", setting{hints: func(h *fabric.Hints) { h.Caps = fabric.CapMsg }})
	b := a.buffer(8)
	peer := a.meet(a.name)
	op := []fabric.Op{{NumSeg: 1, Peer: peer}}
	for name, post := range map[string]func([]fabric.Op, []fabric.Seg) (int, error){
		"tagged send": a.ep.TaggedSend, "tagged receive": a.ep.TaggedRecv, "write": a.ep.Write, "read": a.ep.Read,
	} {
		n, err := post(op, b.all())
		require.Zero(t, n)
		require.ErrorIs(t, err, syscall.EINVAL, name)
		require.ErrorContains(t, err, "the endpoint has no such operation")
	}
	_, err := a.ep.Atomic([]fabric.AtomicOp{{NumSeg: 1, Peer: peer}}, b.all())
	require.ErrorContains(t, err, "the endpoint has no such operation")
	_, err = fabric.NewTemplate(fabric.TemplatePart{Endpoint: a.ep, Kind: fabric.OpWrite, Ops: op})
	require.ErrorContains(t, err, "the endpoint has no such operation")
	_, err = a.ep.Join(a.name)
	require.ErrorContains(t, err, "without CapMulticast")
	for _, call := range []error{a.ep.Connect(a.name, nil), a.ep.Accept(nil), a.ep.Shutdown(), second(a.ep.Peer())} {
		require.ErrorContains(t, call, "has no connection")
	}
}

func TestBadConfigurationsAreRefused(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	x := open(t, "shm", setting{})
	var none *fabric.Counter
	counters := []fabric.CounterEvents{{Counter: none, Events: fabric.CapSend}}
	open := func(cfg fabric.EndpointConfig) error { return second(x.domain.OpenEndpoint(x.info, cfg)) }
	for name, err := range map[string]error{
		"a long provider":   second(fabric.GetInfo(fabric.Hints{Provider: strings.Repeat("x", 200)})),
		"a zero byte":       second(fabric.GetInfo(fabric.Hints{Node: "a\x00b"})),
		"an endpoint type":  second(fabric.GetInfo(fabric.Hints{Type: 9})),
		"a negative size":   second(fabric.GetInfo(fabric.Hints{TxSize: -1})),
		"no info":           second(fabric.OpenFabric(nil)),
		"no domain info":    second(x.fabric.OpenDomain(nil)),
		"no endpoint info":  second(x.domain.OpenEndpoint(nil, fabric.EndpointConfig{})),
		"no AV":             open(fabric.EndpointConfig{TxCQ: x.cq}),
		"no CQ":             open(fabric.EndpointConfig{AV: x.av}),
		"selective nothing": open(fabric.EndpointConfig{AV: x.av, TxCQ: x.cq, SelectiveRx: true}),
		"multi-receive":     open(fabric.EndpointConfig{AV: x.av, TxCQ: x.cq, MinMultiRecv: -1}),
		"no counter":        open(fabric.EndpointConfig{AV: x.av, TxCQ: x.cq, Events: counters}),
		"AV":                second(x.domain.OpenAV(fabric.AVConfig{Count: -1})),
		"AV bits":           second(x.domain.OpenAV(fabric.AVConfig{ContextBits: 17})),
		"CQ depth":          second(x.domain.OpenCQ(fabric.CQConfig{Depth: -1})),
		"CQ wait":           second(x.domain.OpenCQ(fabric.CQConfig{Wait: 2})),
		"CQ vector":         second(x.domain.OpenCQ(fabric.CQConfig{Vector: -1})),
		"counter wait":      second(x.domain.OpenCounter(fabric.CounterConfig{Wait: fabric.WaitFD})),
		"EQ depth":          second(x.fabric.OpenEQ(fabric.EQConfig{Depth: -1})),
		"listener":          second(x.fabric.Listen(x.info, nil)),
		"domain EQ":         x.domain.BindEQ(nil),
		"scalable":          second(x.domain.OpenScalable(nil, nil)),
		"stx":               second(x.domain.OpenSharedTx(nil)),
		"srx":               second(x.domain.OpenSharedRx(nil)),
		"no address":        second(x.av.Insert(nil)),
		"a long address":    second(x.av.Insert(make([]byte, 300))),
		"no text":           second(x.av.Text(nil)),
		"no nodes":          second(x.av.InsertSymmetric("127.0.0.1", 0, "1", 1)),
		"no memory":         second(x.domain.RegMR(nil, fabric.MRConfig{})),
		"an access":         second(x.domain.RegMR(make([]byte, 8), fabric.MRConfig{Access: fabric.CapMsg})),
		"device memory":     second(x.domain.RegMR(make([]byte, 8), fabric.MRConfig{HMEM: fabric.HMEMCUDA})),
		"unknown memory":    second(x.domain.RegDevice(1, 8, fabric.MRConfig{HMEM: 99})),
		"a descriptor":      second(x.domain.RegDMABuf(-1, 0, 8, 0, fabric.MRConfig{})),
		"no pieces":         second(x.domain.RegMRV(nil, fabric.MRConfig{})),
		"an empty piece":    second(x.domain.RegMRV([][]byte{{}}, fabric.MRConfig{})),
		"no raw key":        second(x.domain.MapKey(0, nil)),
		"an option":         x.ep.SetOption(fabric.Option{}),
		"an option's size":  second(x.ep.Option(0, 0)),
		"a name":            x.ep.SetName(nil),
		"no template":       second(fabric.NewTemplate()),
		"no endpoint":       second(fabric.NewTemplate(fabric.TemplatePart{Ops: make([]fabric.Op, 1)})),
		"a receive":         second(fabric.NewTemplate(fabric.TemplatePart{Endpoint: x.ep, Kind: 1, Ops: make([]fabric.Op, 1)})),
		"a wait":            second(x.cq.Wait(t.Context(), make([]fabric.Completion, 1))),
		"a signal":          x.cq.Signal(),
	} {
		require.ErrorIs(t, err, syscall.EINVAL, name)
	}
	b := x.buffer(8)
	require.ErrorIs(t, b.Refresh(4, 5), syscall.EINVAL)
	require.ErrorIs(t, b.BindEndpoint(nil), syscall.EINVAL)
	require.ErrorIs(t, b.BindCounter(nil), syscall.EINVAL)
}
