package handshake

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
)

// TestHandshakesConverge lets nodes connect, give up and restart while the network loses, doubles, delays and reorders, and
// takes nothing at times; then the network heals, and whoever connects must be connected before the deadline.
func TestHandshakesConverge(t *testing.T) {
	start := rdmatest.Seed(t) // the one that a subtest's name says makes it the first
	for i := range uint64(400) {
		seed := start + i
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { converge(t, seed) })
	}
}

func converge(t *testing.T, seed uint64) {
	n := newNetwork(t, seed%2 == 0, seed)
	r := n.random
	for range 2 + r.IntN(3) {
		n.add()
	}
	n.loss, n.double, n.full = 0.7*r.Float64(), 0.5*r.Float64(), 0.5*r.Float64()
	n.delay = time.Duration(1 + r.Int64N(int64(2*time.Second)))
	for range 5 + r.IntN(40) {
		disturb(n)
		n.run(time.Duration(r.Int64N(int64(time.Second))))
	}

	// Late messages of all this still arrive.
	n.loss, n.double, n.full, n.delay = 0, 0, 0, 10*time.Millisecond
	before := n.sent + 3*len(n.flying)
	for i, a := range n.nodes {
		for _, b := range n.nodes[:i+1] {
			a.connect(n.now, b, 20*time.Second)
			if r.IntN(2) == 0 {
				b.connect(n.now, a, 20*time.Second)
			}
		}
	}
	n.run(10 * time.Second)
	n.breakStale() // of before; nobody knew
	for i, a := range n.nodes {
		for j, b := range n.nodes[:i+1] {
			id := a.connect(n.now, b, 20*time.Second)
			defer func() { require.NotContains(t, a.downs, id, "%d called %d", i, j) }()
		}
	}
	n.run(10 * time.Second)
	for i, a := range n.nodes {
		for _, b := range n.nodes[:i+1] {
			n.requireConnected(a, b)
		}
	}
	n.requireQuiet()
	pairs := len(n.nodes) * (len(n.nodes) + 1) / 2
	require.Less(t, n.sent-before, 60*pairs, "a storm")
}

// disturb does something to one or two nodes.
func disturb(n *network) {
	r := n.random
	i, j := r.IntN(len(n.nodes)), r.IntN(len(n.nodes))
	a, b := n.nodes[i], n.nodes[j]
	e := a.ends[b.self]
	switch what := r.IntN(20); {
	case what < 10:
		a.connect(n.now, b, time.Duration(r.Int64N(int64(5*time.Second))))
	case what < 13 && e != nil && (e.wanted || e.state == up):
		a.giveUp(e.id)
	case what < 15:
		n.breakStale()
	case what < 17 && e != nil && e.state == holding && slices.Contains(b.ups, b.idOf(a)):
		a.Proven(e.id)
	case what == 19:
		n.restart(i)
	}
}

// idOf is the id of the end that a node has towards another and that is connected to the other's.
func (n *node) idOf(other *node) (none rail.PeerID) {
	e, o := n.ends[other.self], other.ends[n.self]
	if e == nil || o == nil || n.halves[e.id].other != other.halves[o.id].half.tag {
		return none
	}
	return e.id
}

// FuzzHandle gives a machine that is in every state towards somebody arbitrary messages.
func FuzzHandle(f *testing.F) {
	for keyed := range uint8(2) {
		w := testWire(keyed == 1)
		h := testHello()
		f.Add(w.AppendHello(nil, h), keyed<<2)
		h.Holds = 1
		f.Add(w.AppendHello(nil, h), keyed<<2|1)
		f.Add(nextVersion(w.AppendHello(nil, h)), keyed<<2|2)
		f.Add(w.AppendRefusal(nil, &Refusal[place]{From: h.From, To: 1, Answers: 1, Reason: Stale, Text: "x"}), keyed<<2|2)
	}
	f.Fuzz(func(t *testing.T, message []byte, first uint8) {
		n := newNetwork(t, first&4 != 0, 1)
		a, b := n.add(), n.add()
		a.cfg.Nonce = func() uint64 { return 1 }
		if first&1 != 0 {
			a.connect(n.now, b, time.Second)
		}
		if first&2 != 0 {
			n.run(time.Second)
		}
		for range 3 {
			a.take(n.now, packet{from: testHello().From, data: message})
			n.run(100 * time.Millisecond)
		}
		n.run(time.Hour)
		require.Empty(t, a.pending)
	})
}
