package handshake

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
)

// TestForgedAttemptWhileThePeerIsUp: of two ends one is up first. A hello in its name does not make the other one give up its half.
func TestForgedAttemptWhileThePeerIsUp(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		a.connect(n.now, b, time.Second)
		for len(a.ups) == 0 {
			require.True(t, n.step(n.now.Add(time.Second)))
		}
		require.Equal(t, holding, b.ends[a.self].state)
		forged := testHello()
		forged.From, forged.To, forged.Incarnation, forged.Attempt = a.self, b.self.key, a.cfg.Incarnation, 1<<60
		b.take(n.now, packet{from: a.self, data: n.wire.AppendHello(nil, forged)})
		n.run(time.Second)
		n.requireConnected(a, b)
		require.Empty(t, a.downs)
		require.Empty(t, b.downs)
		n.requireQuiet()
	})
}

// TestStrangersBreakNothing has strangers say hello in everybody's name, who know what all peers of a rail know: addresses and
// incarnations. What is up stays up, and once they are silent whoever connects is connected.
func TestStrangersBreakNothing(t *testing.T) {
	start := rdmatest.Seed(t) // the one that a subtest's name says makes it the first
	for i := range uint64(400) {
		seed := start + i
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { strangers(t, seed) })
	}
}

func strangers(t *testing.T, seed uint64) {
	n := newNetwork(t, true, seed)
	r := n.random
	a, b := n.add(), n.add()
	n.delay = time.Duration(1 + r.Int64N(int64(100*time.Millisecond)))
	isUp := r.IntN(2) == 0
	if isUp {
		a.connect(n.now, b, time.Minute)
		n.run(5 * time.Second)
		n.requireConnected(a, b)
	}
	for range r.IntN(60) {
		forge(n, a, b)
		n.run(time.Duration(r.Int64N(int64(50 * time.Millisecond))))
		if r.IntN(10) == 0 {
			a.connect(n.now, b, time.Minute)
		}
	}
	if isUp {
		require.Empty(t, a.downs)
		require.Empty(t, b.downs)
	}
	id := a.connect(n.now, b, 20*time.Second)
	n.run(15 * time.Second)
	require.NotContains(t, a.downs, id, "%v", a.downs[id])
	n.requireConnected(a, b)
	n.requireQuiet()
}

// forge has one of two nodes take a hello that the other, or nobody, may have sent.
func forge(n *network, from, to *node) {
	r := n.random
	if r.IntN(2) == 0 {
		from, to = to, from
	}
	h := &Hello[place, link]{From: from.self, To: to.self.key, Incarnation: from.cfg.Incarnation, Nonce: r.Uint64() | 1,
		Attempt: r.Uint64() >> r.IntN(64), AckWanted: r.IntN(2) == 0, Half: link{tag: 1 + r.Uint32N(1<<30), wide: true}}
	if r.IntN(3) == 0 {
		h.Incarnation = rail.Incarnation{byte(r.Uint32())}
	}
	if r.IntN(4) == 0 {
		h.Holds = r.Uint64()
	}
	if r.IntN(4) == 0 {
		h.From.number = 77
	}
	to.take(n.now, packet{from: h.From, data: n.wire.AppendHello(nil, h)})
}
