package transferengine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

func TestMain(m *testing.M) { rdmatest.Main(m, nil) }

// soon is a context for what must not take long.
func soon(t testing.TB) context.Context { return rdmatest.Context(t, 20*time.Second) }

// world has several engines on a network, which the test drives under a virtual clock.
type world struct {
	*simrail.Run
	t       testing.TB
	network *simrail.Network
	random  *rand.Rand
	opened  int
}

// newNetwork makes a network that has to find its rails well used. Its seed is the test's, if it has none.
func newNetwork(t testing.TB, config simrail.Config) *simrail.Network {
	t.Helper()
	if config.Seed == 0 {
		config.Seed = rdmatest.Seed(t)
	}
	network := simrail.NewNetwork(config)
	t.Cleanup(func() { require.NoError(t, network.Err()) })
	return network
}

func newWorld(t testing.TB, config simrail.Config) *world {
	t.Helper()
	network := newNetwork(t, config)
	return &world{t: t, network: network, random: rand.New(rand.NewPCG(network.Seed(), 2)),
		Run: network.NewRun(time.Unix(1e9, 0))}
}

// open opens an engine that the world drives and the test's end closes.
func (w *world) open(config transferengine.Config) *transferengine.Engine {
	w.t.Helper()
	w.opened++
	return w.openAt(fmt.Sprintf("192.0.2.%d", w.opened), config)
}

// openAt opens one at an address.
func (w *world) openAt(address string, config transferengine.Config) *transferengine.Engine {
	w.t.Helper()
	config.Rails, config.Progress = []rail.Opener{w.network.Rail(address)}, transferengine.Manual
	e, err := transferengine.Open(config)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, e.Close()) })
	w.Add(e)
	return e
}

// until turns the engines until the condition holds.
func (w *world) until(met func() bool) {
	w.t.Helper()
	require.NoError(w.t, w.Until(met))
}

// settle turns the engines until nothing is left to happen.
func (w *world) settle() {
	w.t.Helper()
	require.NoError(w.t, w.Settle())
}

// connect connects from a to b and returns what each is to the other.
func (w *world) connect(a, b *transferengine.Engine) (toB, toA *transferengine.Peer) {
	w.t.Helper()
	ended, err := a.StartConnect(b.Address())
	require.NoError(w.t, err)
	w.until(func() bool { _, done, _ := ended(); return done && peerOf(b, a) != nil })
	toB, _, err = ended()
	require.NoError(w.t, err)
	return toB, peerOf(b, a)
}

// peerOf is what other is to e.
func peerOf(e, other *transferengine.Engine) *transferengine.Peer {
	for _, p := range e.Peers() {
		if p.Incarnation() == other.Address().Incarnation() {
			return p
		}
	}
	return nil
}

// register registers memory until the end of the test.
func register(t testing.TB, e *transferengine.Engine, memory []byte) *transferengine.Region {
	t.Helper()
	r, err := e.Register(memory, transferengine.RemoteWrite|transferengine.RemoteRead)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// pair is a sender and a receiver, joined, each with a region.
type pair struct {
	*world
	a, b       *transferengine.Engine
	toB, toA   *transferengine.Peer
	source     *transferengine.Region
	dest       *transferengine.Region
	descriptor transferengine.Descriptor
}

func newPair(t testing.TB, size int, config transferengine.Config) *pair {
	t.Helper()
	return newPairIn(newWorld(t, simrail.Config{}), size, config)
}

func newPairIn(w *world, size int, config transferengine.Config) *pair {
	p := &pair{world: w}
	p.a, p.b = p.open(config), p.open(config)
	p.toB, p.toA = p.connect(p.a, p.b)
	p.source = register(p.t, p.a, pattern(p.random, size))
	p.dest = register(p.t, p.b, make([]byte, size))
	p.descriptor = p.dest.Descriptor()
	return p
}

func pattern(random *rand.Rand, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// all is a write of the whole source with an immediate.
func (p *pair) all(imm uint32) transferengine.Write {
	return transferengine.Write{Peer: p.toB, Source: p.source, Dest: &p.descriptor,
		Length: uint64(len(p.source.Bytes())), Imm: imm, HasImm: true}
}

// finish turns the engines until the transfer is done.
func (p *pair) finish(t *transferengine.Transfer) error {
	p.t.Helper()
	p.until(t.Finished)
	return t.Err()
}
