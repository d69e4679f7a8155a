package handshake

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine/rail"
)

// TestRefusedTransportIsTriedAtGrowingIntervals: each try may be a connection that somebody refuses.
func TestRefusedTransportIsTriedAtGrowingIntervals(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		n.full = 1
		id := a.connect(n.now, b, 10*time.Second)
		n.run(10*time.Second + 1)
		require.ErrorIs(t, a.downs[id], rail.ErrUnreachable)
		// 1 ms doubled up to 1 s: at 0, 1, 3, 7 … 1023 ms, and then once a second
		require.InDelta(t, 20, n.tried, 2)
		require.Zero(t, n.sent)
	})
}

// TestRefusedTransportIsTriedSoonAgain after it has taken a hello.
func TestRefusedTransportIsTriedSoonAgain(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		a.unheard = true
		n.full = 1
		a.connect(n.now, b, time.Minute)
		n.run(10 * time.Second)
		n.full = 0
		for n.sent == 0 {
			require.True(t, n.step(n.now.Add(time.Minute)))
		}
		n.full, n.tried = 1, 0
		n.run(2*testTiming.First + 20*time.Millisecond)
		require.GreaterOrEqual(t, n.tried, 3)
	})
}

// TestExpect: nothing is sent to a peer that is expected before it calls, not even where only peers that were called are taken.
func TestExpect(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		shy, b := n.add(), n.add()
		shy.cfg.OnlyCalled = true
		expect := func() rail.PeerID {
			id, err := shy.Expect(n.now, b.self, n.now.Add(time.Second))
			require.NoError(t, err)
			return id
		}
		id := expect()
		require.Equal(t, n.now.Add(time.Second), shy.Next())
		n.run(2 * time.Second)
		require.Zero(t, n.tried)
		require.ErrorIs(t, shy.downs[id], rail.ErrUnreachable)

		expect()
		n.run(100 * time.Millisecond)
		require.Equal(t, expect(), expect(), "who waits for it twice is as silent")
		n.run(500 * time.Millisecond)
		require.Zero(t, n.tried)
		b.connect(n.now, shy, time.Second)
		n.run(time.Second)
		n.requireConnected(shy, b)
		require.Equal(t, 3, n.sent)
		n.requireQuiet()
	})
}

// TestConnectToOneThatIsExpected calls it.
func TestConnectToOneThatIsExpected(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		id, err := a.Expect(n.now, b.self, n.now.Add(time.Second))
		require.NoError(t, err)
		require.Equal(t, id, a.connect(n.now, b, time.Second))
		n.run(time.Second)
		n.requireConnected(a, b)
	})
}

// TestOnlyCalled: a rail that takes only peers that it calls does nothing for others, and never answers at an address that is
// only in a hello.
func TestOnlyCalled(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		shy, b := n.add(), n.add()
		shy.cfg.OnlyCalled = true
		id := b.connect(n.now, shy, time.Second)
		n.run(2 * time.Second)
		require.ErrorIs(t, b.downs[id], rail.ErrUnreachable)
		require.Empty(t, shy.ups)
		require.Empty(t, shy.halves)
		require.Positive(t, shy.Ignored())
		from := n.sent
		w := *b.cfg.Wire
		w.Version, w.Oldest = 2, 2
		b.cfg.Wire = &w
		b.connect(n.now, shy, 10*time.Millisecond)
		n.run(time.Second)
		require.Equal(t, from+1, n.sent, "no refusal either")

		c := n.add()
		shy.connect(n.now, c, time.Second)
		n.run(time.Second)
		n.requireConnected(shy, c)
		n.requireQuiet()
	})
}

// TestExpectAsksAgain: once the peer has called, an answer that is lost is asked for again.
func TestExpectAsksAgain(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		shy, b := n.add(), n.add()
		id, err := shy.Expect(n.now, b.self, n.now.Add(10*time.Second))
		require.NoError(t, err)
		b.connect(n.now, shy, time.Second)
		for len(b.ups) == 0 {
			b.unheard = shy.ends[b.self].state == holding
			require.True(t, n.step(n.now.Add(time.Second)))
		}
		b.unheard = false
		require.NotContains(t, shy.ups, id)
		n.run(time.Second)
		n.requireConnected(shy, b)
	})
}

// TestConnectToOneThatCalls is told how it ends, and no later than it said.
func TestConnectToOneThatCalls(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		b.connect(n.now, a, time.Minute)
		for a.ends[b.self] == nil {
			require.True(t, n.step(n.now.Add(time.Second)))
		}
		b.unheard = true
		id := a.connect(n.now, b, time.Second)
		n.run(2 * time.Second)
		require.ErrorIs(t, a.downs[id], rail.ErrUnreachable)
	})
}

// TestBrokenTransportIsCalledAnew: where somebody waits for the peer, and otherwise the half is given up. One that is up, or has not
// heard of the other, is not concerned.
func TestBrokenTransportIsCalledAnew(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		require.True(t, a.MayCall(b.self))
		id := a.connect(n.now, b, time.Minute)
		a.Broken(n.now, id, errBroken)
		require.True(t, a.Calling(), "nothing was heard of the other end")
		b.connect(n.now, a, time.Minute)
		var e *end[place, link]
		for e == nil { // who hears a hello that was said before its own was heard
			require.True(t, n.step(n.now.Add(time.Minute)))
			for _, n := range []*node{a, b} {
				for _, its := range n.byID {
					if its.state == holding {
						a, b, e = n, map[*node]*node{a: b, b: a}[n], its
					}
				}
			}
		}
		nonce := e.nonce
		a.Broken(n.now, e.id, errBroken)
		require.NotEqual(t, nonce, e.nonce, "another half")
		n.run(10 * time.Second)
		n.requireConnected(a, b)
		a.Broken(n.now, e.id, errBroken)
		n.requireConnected(a, b)

		c := n.add() // calls a, which waits for nobody
		c.connect(n.now, a, time.Second)
		for len(a.pending) == 0 {
			require.True(t, n.step(n.now.Add(time.Minute)))
		}
		its := a.pending[0]
		require.Equal(t, holding, its.state)
		a.Broken(n.now, its.id, errBroken)
		require.NotContains(t, a.byID, its.id)
	})
}

var errBroken = errors.New("broken")
