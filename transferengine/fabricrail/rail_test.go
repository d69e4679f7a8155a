package fabricrail_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/rail"
)

const patience = 20 * time.Second

// local is a rail on this machine, over the provider that needs no device.
func local() fabricrail.Config { return fabricrail.Config{Provider: "tcp", Node: "127.0.0.1"} }

// eachTransport tries something over connections, and over datagrams.
func eachTransport(t *testing.T, try func(t *testing.T, cfg fabricrail.Config, connected bool)) {
	rdmatest.Require(t, rdmatest.Fabric)
	t.Run("connected", func(t *testing.T) { try(t, local(), true) })
	t.Run("datagrams", func(t *testing.T) { try(t, fabricrail.Datagrams(local()), false) })
}

// end is a rail that takes turns.
type end struct {
	t      *testing.T
	rail   rail.Rail
	events []rail.Event
	infos  map[rail.PeerID]rail.PeerInfo // of those that came up
}

func open(t *testing.T, cfg fabricrail.Config, incarnation byte) *end {
	t.Helper()
	r, err := cfg.Open(rail.Incarnation{incarnation})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return &end{t: t, rail: r, infos: make(map[rail.PeerID]rail.PeerInfo)}
}

func (e *end) turn() {
	var events [32]rail.Event
	n, _ := e.rail.Turn(time.Now(), events[:])
	e.events = append(e.events, events[:n]...)
	for i := range events[:n] {
		if events[i].Kind == rail.PeerUp {
			e.infos[events[i].Peer] = *events[i].Info
		}
	}
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
	id, err := e.rail.Connect(time.Now(), to.rail.Address(), time.Now().Add(rdmatest.Deadline(patience)))
	require.NoError(e.t, err)
	await(rail.PeerUp, e, to)
	await(rail.PeerUp, to, e)
	return id
}

// TestRailsOfDifferentProvidersRefuse each other and name both.
func TestRailsOfDifferentProvidersRefuse(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a := open(t, local(), 1)
	_, err := a.rail.Connect(time.Now(), a.fabric().AddressOver("efa"), time.Now().Add(rdmatest.Deadline(patience)))
	require.ErrorContains(t, err, "this rail is fabric:tcp, the peer's at 127.0.0.1:")
	require.ErrorContains(t, err, "is fabric:efa: both ends need the same provider")
	_, err = a.rail.Connect(time.Now(), []byte("nonsense"), time.Now().Add(rdmatest.Deadline(patience)))
	require.ErrorContains(t, err, "rail address")
}

// TestPortIsTheOneAskedFor: an address like 127.0.0.1:17471 is where the rail is found.
func TestPortIsTheOneAskedFor(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	cfg := local()
	_, cfg.Service, err = net.SplitHostPort(address)
	require.NoError(t, err)
	a, b := open(t, cfg, 1), open(t, local(), 2)
	_, listens, err := fabricrail.AddressOf(a.rail.Address())
	require.NoError(t, err)
	require.Equal(t, address, listens.String())
	id := b.connect(a)
	require.Equal(t, address, b.infos[id].Name)
	_, err = net.DialTimeout("tcp", net.JoinHostPort("127.0.0.2", cfg.Service), time.Second)
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "it listens on that address and on no other")
}

// TestThirtyTwoInATurn: one peer does not keep the others waiting.
func TestThirtyTwoInATurn(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a, b := open(t, local(), 1), open(t, local(), 2)
	to := a.connect(b)
	memory := make([]byte, 64)
	keys, err := b.rail.Register(memory, rail.RemoteWrite)
	require.NoError(t, err)
	defer func() { require.NoError(t, keys.Close()) }()
	ops := make([]rail.Op, 100)
	for i := range ops {
		ops[i] = rail.Op{Kind: rail.Write, RemoteAddr: keys.RemoteAddr(), RemoteKey: keys.RemoteKey()}
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
}

// TestAdvertise: a rail's address has what peers connect to, which may be translated on the way.
func TestAdvertise(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	for _, at := range []string{"192.0.2.1:7472", "[2001:db8::1]:7472"} {
		r, err := fabricrail.Config{Provider: "tcp", Node: "127.0.0.1", Advertise: netip.MustParseAddrPort(at)}.Open(rail.Incarnation{1})
		require.NoError(t, err)
		provider, listens, err := fabricrail.AddressOf(r.Address())
		require.NoError(t, err)
		require.Equal(t, at, listens.String())
		require.Contains(t, provider, "tcp")
		require.NoError(t, r.Close())
	}
}

func TestConfigIsChecked(t *testing.T) {
	for text, cfg := range map[string]fabricrail.Config{
		"no provider is named: there are tcp, efa":        {},
		"Node is empty: ":                                 {Provider: "tcp"},
		"Node is 0.0.0.0, which no peer":                  {Provider: "tcp", Node: "0.0.0.0"},
		"Node is ::, which no peer":                       {Provider: "tcp", Node: "::"},
		"Node is ::ffff:0.0.0.0, which":                   {Provider: "tcp", Node: "::ffff:0.0.0.0"},
		"Advertise is 0.0.0.0:1: it has to be an address": {Provider: "tcp", Node: "127.0.0.1", Advertise: netip.MustParseAddrPort("0.0.0.0:1")},
		"Advertise is 192.0.2.1:0":                        {Provider: "tcp", Node: "127.0.0.1", Advertise: netip.MustParseAddrPort("192.0.2.1:0")},
		"Advertise is 192.0.2.1:1":                        {Provider: "efa", Advertise: netip.MustParseAddrPort("192.0.2.1:1")},
		"use tcp, ":                                       {Provider: "shm"},
		"--rail verbs:DEVICE":                             {Provider: "verbs;ofi_rxd"},
		`"sockets" cannot be a rail: there are tcp, efa`:  {Provider: "sockets"},
		`"TCP" cannot be a rail`:                          {Provider: "TCP"},
		"WriteDepth is 3":                                 {Provider: "tcp", Node: "127.0.0.1", WriteDepth: 3},
		"Immediates is 1":                                 {Provider: "tcp", Node: "127.0.0.1", Immediates: 1},
		"Heartbeat is -1s":                                {Provider: "tcp", Node: "127.0.0.1", Heartbeat: -time.Second},
		"less than three times":                           {Provider: "tcp", Node: "127.0.0.1", Heartbeat: 4 * time.Second},
		"no room for one peer: 832 are ":                  {Provider: "tcp", Node: "127.0.0.1", CompletionDepth: 831},
	} {
		_, err := cfg.Open(rail.Incarnation{})
		require.ErrorIs(t, err, syscall.EINVAL)
		require.ErrorContains(t, err, text)
	}
}

// TestProviderThatIsNotThere is of EFA, which no machine of these tests has.
func TestProviderThatIsNotThere(t *testing.T) {
	_, err := fabricrail.Config{Provider: "efa"}.Open(rail.Incarnation{})
	require.True(t, errors.Is(err, fabric.ErrNoProvider) || errors.Is(err, fabric.ErrNoLibrary) ||
		errors.Is(err, errors.ErrUnsupported), "%v", err)
	require.ErrorContains(t, err, "fabric:efa: ")
}

// TestSleepWithoutDescriptor: a rail whose provider has nothing to sleep on is given a turn after a millisecond while it has peers,
// and after 20 otherwise.
func TestSleepWithoutDescriptor(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a, b := open(t, local(), 1), open(t, local(), 2)
	a.fabric().SleepWithoutDescriptor()
	wait := func(ctx context.Context) (took time.Duration, err error) {
		start := time.Now()
		err = a.rail.Wait(ctx)
		return time.Since(start), err
	}
	for a.rail.Arm() {
		a.turn()
	}
	took, err := wait(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, took, 20*time.Millisecond, "it has no peers")
	a.connect(b)
	for range 3 {
		for a.rail.Arm() {
			a.turn()
		}
		took, err = wait(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, took, time.Millisecond)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	_, err = wait(ctx)
	require.ErrorIs(t, err, enough)
}

// TestAnAddressThatCannotBeHadIsNamed: the field to change is in the error.
func TestAnAddressThatCannotBeHadIsNamed(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	_, err := fabricrail.Config{Provider: "tcp", Node: "192.0.2.1"}.Open(rail.Incarnation{})
	require.ErrorIs(t, err, syscall.EADDRNOTAVAIL)
	require.ErrorContains(t, err, "Config.Node 192.0.2.1 is no address of this machine")

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)
	_, err = fabricrail.Config{Provider: "tcp", Node: "127.0.0.1", Service: port}.Open(rail.Incarnation{})
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, "Config.Service "+port+" is taken on 127.0.0.1")
}

// TestWhatAProviderLacksIsNamed: keys that can be guessed are refused, too.
func TestWhatAProviderLacksIsNamed(t *testing.T) {
	sound := fabric.Info{Provider: "tcp", CQDataSize: 8, MRKeySize: 8, MaxMsgSize: 1 << 30}
	require.NoError(t, fabricrail.CheckInfo(sound))
	for text, change := range map[string]func(*fabric.Info){
		"carries 2 bytes of data with a write, an immediate has 4": func(i *fabric.Info) { i.CQDataSize = 2 },
		"and does not tell who wrote":                              func(i *fabric.Info) { i.CQDataSize = 4 },
		"keys of 4 bytes, which can be guessed":                    func(i *fabric.Info) { i.MRKeySize = 4 },
		"takes messages of 64 bytes":                               func(i *fabric.Info) { i.MaxMsgSize = 64 },
	} {
		info := sound
		change(&info)
		require.ErrorContains(t, fabricrail.CheckInfo(info), text)
	}
	sound.MRKeySize, sound.MRMode = 4, fabric.MRProvKey // the provider's own choice
	require.NoError(t, fabricrail.CheckInfo(sound))
}

// TestZeroCopyIsRefused: what was taken back would be sent yet.
func TestZeroCopyIsRefused(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	t.Setenv("FI_TCP_ZEROCOPY_SIZE", "65536")
	_, err := local().Open(rail.Incarnation{1})
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "FI_TCP_ZEROCOPY_SIZE is set (65536)")
}

// TestOnlyCalled: a rail that takes only peers that it called or expects passes over the hellos of others.
func TestOnlyCalled(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	cfg := local()
	cfg.OnlyCalled = true
	a, b := open(t, cfg, 1), open(t, local(), 2)
	_, err := b.rail.Connect(time.Now(), a.rail.Address(), time.Now().Add(200*time.Millisecond))
	require.NoError(t, err)
	require.ErrorIs(t, await(rail.PeerDown, b, a).Err, rail.ErrUnreachable)
	require.Empty(t, a.events)
	require.Positive(t, a.fabric().Ignored())
	id, err := a.rail.Expect(time.Now(), b.rail.Address(), time.Now().Add(rdmatest.Deadline(patience)))
	require.NoError(t, err)
	b.connect(a)
	require.Equal(t, "127.0.0.1", strings.Split(a.infos[id].Name, ":")[0])
}
