package transferengine_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
)

func TestMain(m *testing.M) { rdmatest.Main(m, nil) }

// newSeed is a new one for each run, and printed.
func newSeed(t testing.TB) uint64 {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return seed
}

// world drives several engines from one goroutine under a virtual clock, in an order that the seed decides.
type world struct {
	t       testing.TB
	fabric  *fabric
	random  *rand.Rand
	clock   time.Time
	engines []*transferengine.Engine
	trace   []string // of turns that did something
}

func newWorld(t testing.TB, seed uint64) *world {
	return &world{t: t, fabric: newFabric(t, seed), random: rand.New(rand.NewPCG(seed, 1)), clock: time.Unix(1e9, 0)}
}

// open opens an engine that the world drives and the test's end closes.
func (w *world) open(config transferengine.Config) *transferengine.Engine {
	w.t.Helper()
	config.Rails = []rail.Opener{w.fabric.at(fmt.Sprintf("192.0.2.%d", len(w.engines)+1))}
	e, err := transferengine.OpenUndriven(config)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, e.Close()) })
	w.engines = append(w.engines, e)
	return e
}

// until turns the engines until the condition holds.
func (w *world) until(met func() bool) {
	w.t.Helper()
	for range 100000 {
		if met() {
			return
		}
		w.round()
	}
	w.t.Fatal("the condition is not met after 100000 rounds")
}

// settle turns the engines until nothing is left to happen.
func (w *world) settle() {
	for quiet := 0; quiet < 3; {
		if quiet++; w.round() {
			quiet = 0
		}
	}
}

// round turns every engine once, and moves the clock to the next turn that is due if nobody did anything.
func (w *world) round() (did bool) {
	var next time.Time
	for _, i := range w.random.Perm(len(w.engines)) {
		n, due := w.engines[i].Turn(w.clock)
		if n > 0 {
			did = true
			w.trace = append(w.trace, fmt.Sprint(i, n, w.clock.UnixNano()))
		}
		if !due.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	if !did && next.After(w.clock) {
		w.clock = next
		return true
	}
	return did
}

// hash sums up what happened.
func (w *world) hash() uint64 {
	h := fnv.New64a()
	for _, line := range w.trace {
		fmt.Fprintln(h, line)
	}
	return h.Sum64()
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
	r, err := e.Register(memory, transferengine.RemoteWrite)
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

func newPair(t testing.TB, seed uint64, size int, config transferengine.Config) *pair {
	return newPairIn(newWorld(t, seed), size, config)
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
