package fabric_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
)

// patience bounds a wait for something that should come at once.
const patience = 20 * time.Second

// rdm are the reliable providers that need no device.
var rdm = []string{"tcp", "tcp;ofi_rxm", "shm"}

// eachRDM runs a test with every one of them.
func eachRDM(t *testing.T, test func(t *testing.T, provider string)) {
	rdmatest.Require(t, rdmatest.Fabric)
	for _, provider := range rdm {
		t.Run(provider, func(t *testing.T) { test(t, provider) })
	}
}

// hintsOf asks for a provider on this machine.
func hintsOf(provider string) fabric.Hints {
	hints := fabric.Hints{Provider: provider, Caps: fabric.CapMsg | fabric.CapRMA | fabric.CapTagged}
	if provider != "shm" {
		hints.Node = "127.0.0.1"
	}
	return hints
}

// side is an endpoint and all that it needs.
type side struct {
	t      testing.TB
	info   *fabric.Info
	fabric *fabric.Fabric
	domain *fabric.Domain
	av     *fabric.AV
	cq     *fabric.CQ
	ep     *fabric.Endpoint
	name   []byte
	done   []fabric.Completion // polled and not yet asked for
}

// closeAtEnd closes at the end of the test, before what was opened earlier.
func closeAtEnd(t testing.TB, c interface{ Close() error }) {
	t.Cleanup(func() { require.NoError(t, c.Close()) })
}

// opened closes at the end what was opened without an error.
func opened[T interface{ Close() error }](t testing.TB) func(object T, err error) T {
	return func(object T, err error) T {
		t.Helper()
		require.NoError(t, err)
		closeAtEnd(t, object)
		return object
	}
}

// setting changes what a side is opened with.
type setting struct {
	hints func(*fabric.Hints)
	cq    fabric.CQConfig
	av    func(*side) fabric.AVConfig
	ep    func(*side, *fabric.EndpointConfig)
	info  func(*fabric.Info)
	// contexts has the shim treat the provider as one that keeps notes in the context of an operation.
	contexts bool
}

// open opens an endpoint with its own domain.
func open(t testing.TB, provider string, s setting) *side {
	t.Helper()
	hints := hintsOf(provider)
	if s.hints != nil {
		s.hints(&hints)
	}
	infos, err := fabric.GetInfo(hints)
	require.NoError(t, err)
	x := &side{t: t, info: infos[0]}
	if s.info != nil {
		s.info(x.info)
	}
	if s.contexts {
		askForContexts(t, x.info)
	}
	x.fabric = opened[*fabric.Fabric](t)(fabric.OpenFabric(x.info))
	x.domain = opened[*fabric.Domain](t)(x.fabric.OpenDomain(x.info))
	x.openEndpoint(s)
	return x
}

// sibling opens another endpoint of the same domain.
func (x *side) sibling() *side {
	x.t.Helper()
	y := &side{t: x.t, info: x.info, fabric: x.fabric, domain: x.domain}
	y.openEndpoint(setting{})
	return y
}

func (x *side) openEndpoint(s setting) {
	x.t.Helper()
	var vector fabric.AVConfig
	if s.av != nil {
		vector = s.av(x)
	}
	x.av = opened[*fabric.AV](x.t)(x.domain.OpenAV(vector))
	x.cq = opened[*fabric.CQ](x.t)(x.domain.OpenCQ(s.cq))
	cfg := fabric.EndpointConfig{AV: x.av, TxCQ: x.cq, RxCQ: x.cq}
	if s.ep != nil {
		s.ep(x, &cfg)
	}
	x.ep = opened[*fabric.Endpoint](x.t)(x.domain.OpenEndpoint(x.info, cfg))
	var err error
	x.name, err = x.ep.Name()
	require.NoError(x.t, err)
}

// pair is two sides in one process that know each other: to each, the other is peer 0.
func pair(t testing.TB, provider string, s setting) (a, b *side) {
	t.Helper()
	a, b = open(t, provider, s), open(t, provider, s)
	a.meet(b.name)
	b.meet(a.name)
	return a, b
}

// meet inserts a peer.
func (x *side) meet(name []byte) fabric.Addr {
	x.t.Helper()
	peers, err := x.av.Insert(name)
	require.NoError(x.t, err)
	return peers[0]
}

// buffer is registered memory outside the Go heap.
type buffer struct {
	*fabric.MR
	bytes []byte
}

func (x *side) buffer(size int) buffer {
	x.t.Helper()
	m, err := mem.Map(size)
	require.NoError(x.t, err)
	closeAtEnd(x.t, m)
	mr := opened[*fabric.MR](x.t)(x.domain.RegMR(m.Bytes(), fabric.MRConfig{Access: fabric.AccessAll}))
	return buffer{mr, m.Bytes()}
}

// all is the whole buffer as a segment.
func (b buffer) all() []fabric.Seg { return []fabric.Seg{b.Seg(0, b.Length())} }

// at has an operation work on a peer's buffer.
func (b buffer) at(op fabric.Op, offset uint64) fabric.Op {
	op.RemoteAddr, op.RemoteKey = b.Addr()+offset, b.RKey()
	return op
}

// poll takes what has completed into done.
func (x *side) poll() {
	x.t.Helper()
	var completions [16]fabric.Completion
	n, err := x.cq.Poll(completions[:])
	require.NoError(x.t, err)
	x.done = append(x.done, completions[:n]...)
}

// take waits until a completion fits, while all sides move on, and returns it.
func (x *side) take(fits func(*fabric.Completion) bool, others ...*side) fabric.Completion {
	x.t.Helper()
	ctx := rdmatest.Context(x.t, patience)
	for {
		for i := range x.done {
			if c := x.done[i]; fits(&c) {
				x.done = append(x.done[:i], x.done[i+1:]...)
				return c
			}
		}
		x.poll()
		for _, other := range others {
			other.poll()
		}
		if ctx.Err() != nil {
			require.FailNow(x.t, "no such completion", "others: %+v", x.done)
		}
	}
}

// until polls all sides until something holds.
func (x *side) until(holds func() bool, others ...*side) {
	x.t.Helper()
	ctx := rdmatest.Context(x.t, patience)
	for !holds() {
		require.NoError(x.t, ctx.Err())
		x.poll()
		for _, other := range others {
			other.poll()
		}
	}
}

// complete waits for the completion of an operation of this side, which must be a success.
func (x *side) complete(id uint64, others ...*side) fabric.Completion {
	x.t.Helper()
	c := x.take(func(c *fabric.Completion) bool {
		return c.ID == id && c.Flags&(fabric.FlagRemoteWrite|fabric.FlagRemoteRead) == 0
	}, others...)
	require.NoError(x.t, x.cq.Err(&c))
	return c
}

// arrival waits for the completion of what a peer did.
func (x *side) arrival(others ...*side) fabric.Completion {
	x.t.Helper()
	c := x.take(func(c *fabric.Completion) bool { return c.Flags&fabric.FlagRemoteCQData != 0 }, others...)
	require.NoError(x.t, x.cq.Err(&c))
	return c
}

// post posts until all is taken; what completes meanwhile is kept.
func (x *side) post(post func([]fabric.Op, []fabric.Seg) (int, error), ops []fabric.Op, segs []fabric.Seg, others ...*side) {
	x.t.Helper()
	ctx := rdmatest.Context(x.t, patience)
	for {
		n, err := post(ops, segs)
		for _, op := range ops[:n] {
			segs = segs[op.NumSeg:]
		}
		if ops = ops[n:]; len(ops) == 0 {
			require.NoError(x.t, err)
			return
		}
		require.ErrorIs(x.t, err, fabric.ErrQueueFull)
		require.NoError(x.t, ctx.Err())
		x.poll()
		for _, other := range others {
			other.poll()
		}
	}
}
