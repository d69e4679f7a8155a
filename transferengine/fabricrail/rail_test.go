package fabricrail_test

import (
	"errors"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/rail"
)

const patience = 20 * time.Second

var providers = []string{"tcp;ofi_rxm", "shm"}

// eachProvider runs a test with every provider that needs no device.
func eachProvider(t *testing.T, test func(t *testing.T, provider string)) {
	rdmatest.Require(t, rdmatest.Fabric)
	for _, provider := range providers {
		t.Run(provider, func(t *testing.T) { test(t, provider) })
	}
}

// end is a rail that takes turns.
type end struct {
	t      *testing.T
	rail   rail.Rail
	events []rail.Event
}

func open(t *testing.T, cfg fabricrail.Config, incarnation byte) *end {
	t.Helper()
	r, err := cfg.Open(rail.Incarnation{incarnation})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return &end{t: t, rail: r}
}

func (e *end) turn() {
	var events [32]rail.Event
	n, _ := e.rail.Turn(time.Now(), events[:])
	e.events = append(e.events, events[:n]...)
}

// await takes turns until there is an event of the kind, and takes it out.
func await(kind rail.EventKind, of *end, others ...*end) rail.Event {
	of.t.Helper()
	ctx := rdmatest.Context(of.t, patience)
	for {
		for i, e := range of.events {
			if e.Kind == kind {
				of.events = append(of.events[:i], of.events[i+1:]...)
				return e
			}
		}
		require.NoError(of.t, ctx.Err())
		for _, e := range append(others, of) {
			e.turn()
		}
		runtime.Gosched()
	}
}

func (e *end) connect(to *end) rail.PeerID {
	e.t.Helper()
	id, err := e.rail.Connect(time.Now(), to.rail.Address(), time.Now().Add(patience))
	require.NoError(e.t, err)
	await(rail.PeerUp, e, to)
	await(rail.PeerUp, to, e)
	return id
}

// TestRailsOfDifferentProvidersRefuse each other and name both.
func TestRailsOfDifferentProvidersRefuse(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a, b := open(t, local("tcp"), 1), open(t, local("shm"), 2)
	_, err := a.rail.Connect(time.Now(), b.rail.Address(), time.Now().Add(patience))
	require.ErrorContains(t, err, "fabric:tcp;ofi_rxm: the peer's rail is fabric:shm at fi_shm://")
	_, err = b.rail.Connect(time.Now(), a.rail.Address(), time.Now().Add(patience))
	require.ErrorContains(t, err, "fabric:shm: the peer's rail is fabric:tcp;ofi_rxm at 127.0.0.1:")
	_, err = a.rail.Connect(time.Now(), []byte("nonsense"), time.Now().Add(patience))
	require.ErrorContains(t, err, "rail address")
}

// TestPortIsTheOneAskedFor: an address like 127.0.0.1:17471 is where the rail is found.
func TestPortIsTheOneAskedFor(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	cfg := local("tcp")
	cfg.Service = "17471"
	a, b := open(t, cfg, 1), open(t, local("tcp"), 2)
	id := b.connect(a)
	require.Equal(t, "127.0.0.1:17471", b.rail.Peer(id).Name)
}

// TestThirtyTwoInATurn: one peer does not keep the others waiting.
func TestThirtyTwoInATurn(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		a, b := open(t, local(provider), 1), open(t, local(provider), 2)
		to := a.connect(b)
		memory := make([]byte, 64)
		keys, err := b.rail.Register(memory, rail.RemoteWrite)
		require.NoError(t, err)
		defer func() { require.NoError(t, keys.Close()) }()
		ops := make([]rail.Op, 100)
		for i := range ops {
			ops[i] = rail.Op{Kind: rail.Write, RemoteAddr: mem.Addr(memory), RemoteKey: keys.RemoteKey()}
		}
		require.Equal(t, 32, a.rail.Caps().MaxBatch)
		n, err := a.rail.Post(to, ops)
		require.NoError(t, err)
		require.Equal(t, 32, n)
		require.True(t, a.rail.Arm(), "the next turn takes more")
		n, err = a.rail.Post(to, ops)
		require.NoError(t, err)
		require.Zero(t, n)
		for range 32 {
			await(rail.Completed, a, b)
		}
		n, err = a.rail.Post(to, ops[:5])
		require.NoError(t, err)
		require.Equal(t, 5, n)
		for range 5 {
			require.NoError(t, await(rail.Completed, a, b).Err)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	for text, cfg := range map[string]fabricrail.Config{
		"Provider is empty":              {},
		"has more than 32 bytes":         {Provider: "012345678901234567890123456789012"},
		"WriteDepth is 3":                {Provider: "tcp", WriteDepth: 3},
		"Immediates is 1":                {Provider: "tcp", Immediates: 1},
		"Heartbeat is -1s":               {Provider: "tcp", Heartbeat: -time.Second},
		"less than three times":          {Provider: "tcp", Heartbeat: 4 * time.Second},
		"no room for one peer: 832 are ": {Provider: "tcp", CompletionDepth: 831},
	} {
		_, err := cfg.Open(rail.Incarnation{})
		require.ErrorIs(t, err, syscall.EINVAL)
		require.ErrorContains(t, err, text)
	}
}

func TestProviderThatIsNotThere(t *testing.T) {
	_, err := fabricrail.Config{Provider: "no_such"}.Open(rail.Incarnation{})
	require.True(t, errors.Is(err, fabric.ErrNoProvider) || errors.Is(err, fabric.ErrNoLibrary) ||
		errors.Is(err, errors.ErrUnsupported), "%v", err)
	require.ErrorContains(t, err, "fabric:no_such: ")
}
