package handshake

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
)

func TestOneEndCalls(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		id := a.connect(n.now, b, time.Second)
		require.Equal(t, id, a.connect(n.now, b, time.Second), "connecting twice is connecting once")
		n.run(time.Second)
		n.requireConnected(a, b)
		require.Equal(t, []rail.PeerID{id}, a.ups)
		require.Equal(t, 3, n.sent)
		require.Equal(t, id, a.connect(n.now, b, time.Second))
		n.requireQuiet()
		require.Equal(t, 3, n.sent)
	})
}

func TestBothEndsCall(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		ida, idb := a.connect(n.now, b, time.Second), b.connect(n.now, a, time.Second)
		n.run(time.Second)
		n.requireConnected(a, b)
		require.Equal(t, []rail.PeerID{ida}, a.ups)
		require.Equal(t, []rail.PeerID{idb}, b.ups)
		n.requireQuiet()
		require.LessOrEqual(t, n.sent, 8)
	})
}

func TestEndCallsItself(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a := n.add()
		id := a.connect(n.now, a, time.Second)
		n.run(time.Second)
		n.requireConnected(a, a)
		require.Equal(t, []rail.PeerID{id}, a.ups)
		n.requireQuiet()
	})
}

func TestCallWithoutAnswer(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		n.loss = 1
		id := a.connect(n.now, b, 3*time.Second)
		n.run(3*time.Second - 1)
		require.Empty(t, a.downs)
		n.run(1)
		require.Empty(t, a.downs)
		n.run(1)
		require.ErrorIs(t, a.downs[id], rail.ErrUnreachable)
		require.ErrorContains(t, a.downs[id], "node2: peer does not answer")
		// 50 ms doubled up to 1 s: sent at 0, 50, 150, 350, 750, 1550 and 2550 ms
		require.ErrorContains(t, a.downs[id], "7 hellos were sent")
		n.requireQuiet()
	})
}

func TestAnswerIsLost(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		b.unheard = true
		a.connect(n.now, b, time.Second)
		n.run(40 * time.Millisecond)
		require.Equal(t, holding, b.ends[a.self].state)
		b.unheard = false
		n.run(time.Second)
		n.requireConnected(a, b)
		n.requireQuiet()
	})
}

func TestLastAnswerIsLost(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		a.connect(n.now, b, time.Second)
		require.True(t, n.step(n.now.Add(time.Second))) // a's hello
		a.unheard = true
		require.True(t, n.step(n.now.Add(time.Second))) // b's answer
		require.Len(t, a.ups, 1)
		require.Empty(t, b.ups)
		n.run(time.Millisecond)
		a.unheard = false
		n.run(time.Second)
		n.requireConnected(a, b)
		n.requireQuiet()
	})
}

func TestArrivalOnTheConnectionProvesIt(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		a.connect(n.now, b, time.Second)
		require.True(t, n.step(n.now.Add(time.Second)))
		a.unheard = true
		require.True(t, n.step(n.now.Add(time.Second)))
		b.Proven(b.ends[a.self].id)
		b.Proven(b.ends[a.self].id)
		n.requireConnected(a, b)
		n.requireQuiet()
	})
}

func TestCallerWhoVanishedIsForgotten(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		b.unheard = true
		a.connect(n.now, b, time.Second)
		n.run(testTiming.Accept + time.Second)
		require.Empty(t, b.ends)
		require.Empty(t, b.ups)
		require.Empty(t, b.downs, "nobody asked for this peer")
		n.requireQuiet()
	})
}

func TestPeerRestarts(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		first := a.connect(n.now, b, time.Second)
		n.run(time.Second)
		b = n.restart(1)
		b.connect(n.now, a, 5*time.Second)
		n.run(5 * time.Second)
		require.ErrorIs(t, a.downs[first], rail.ErrPeerGone)
		require.Len(t, a.ups, 2)
		n.requireConnected(a, b)
		n.requireQuiet()
	})
}

func TestPeerGaveUpAndCallsAgain(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		first := a.connect(n.now, b, time.Second)
		n.run(time.Second)
		b.giveUp(b.ends[a.self].id)
		b.connect(n.now, a, time.Second)
		n.run(time.Second)
		require.ErrorIs(t, a.downs[first], rail.ErrPeerGone)
		n.requireConnected(a, b)
		n.requireQuiet()
	})
}

func TestForgottenWhileTheOtherEndHolds(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		ida, idb := a.connect(n.now, b, time.Minute), b.connect(n.now, a, time.Minute)
		require.True(t, n.step(n.now.Add(time.Second))) // one of them holds the other's half
		holder, other, id := a, b, idb
		gone := ida
		if a.ends[b.self].state != holding {
			holder, other, id, gone = b, a, ida, idb
		}
		holder.giveUp(gone)
		n.run(time.Second)
		require.ErrorIs(t, other.downs[id], rail.ErrPeerClosed)
		n.requireQuiet()
	})
}

func TestLateMessagesChangeNothing(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		a.connect(n.now, b, time.Second)
		old := n.flying[0]
		n.run(time.Second)
		b.giveUp(b.ends[a.self].id)
		a.giveUp(a.ends[b.self].id)

		b.take(n.now, old) // of a connection that is over: b would make another
		n.run(time.Second)
		require.Empty(t, a.ends)
		require.Empty(t, b.ends)
		n.requireQuiet()

		a.connect(n.now, b, time.Second)
		n.run(time.Second)
		ups := len(b.ups)
		b.take(n.now, old) // while the next one is up
		n.run(time.Second)
		require.Len(t, b.ups, ups)
		n.requireConnected(a, b)
		n.requireQuiet()
	})
}

func TestMessagesOfAnEarlierIncarnationChangeNothing(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		a.connect(n.now, b, time.Second)
		old := n.flying[0]
		n.run(time.Second)
		a = n.restart(0)
		n.breakStale()
		a.connect(n.now, b, time.Second)
		n.run(time.Second)
		n.requireConnected(a, b)
		ups := len(b.ups)
		for range 3 {
			b.take(n.now, old)
			n.run(time.Second)
		}
		require.Len(t, b.ups, ups)
		n.requireConnected(a, b)
		n.requireQuiet()
	})
}

func TestCallSurvivesAMessageOfAnEarlierIncarnation(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		b.connect(n.now, a, time.Second)
		old := n.flying[0]
		n.run(time.Second)
		b = n.restart(1)
		n.breakStale()
		id := a.connect(n.now, b, time.Second)
		a.take(n.now, old) // a is bound to what is gone
		require.Equal(t, holding, a.ends[b.self].state)
		n.run(time.Second)
		n.requireConnected(a, b)
		require.Contains(t, a.ups, id)
		require.NotContains(t, a.downs, id)
		n.requireQuiet()
	})
}

func TestCallGoesOnWhenThePeerGaveUpAnswering(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		b.unheard = true
		id := a.connect(n.now, b, time.Minute)
		n.run(testTiming.Accept + time.Second) // b accepted, was not heard, and accepted again
		require.Empty(t, a.downs)
		b.unheard = false
		n.run(5 * time.Second)
		n.requireConnected(a, b)
		require.Equal(t, []rail.PeerID{id}, a.ups)
		n.requireQuiet()
	})
}

func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(a, b *node)
		text  string
	}{
		"no room": {func(_, b *node) { b.full = true }, `node2: peer refused the handshake: no room: "all of 4 peers are there"`},
		"version": {func(a, _ *node) {
			data := a.network.flying[0].data
			data[4], data[5] = 3, 2
		}, `node2: peer refused the handshake: version: "hello: needs version 2, this is version 1"`},
		"too old": {func(_, b *node) {
			w := *b.cfg.Wire
			w.Version, w.Oldest = 2, 2
			b.cfg.Wire = &w
		}, `node2: peer refused the handshake: version: "hello: is of version 1, 2 is the oldest understood"`},
		"cannot connect": {func(_, b *node) { b.broken = errors.New("no route to host") },
			`node2: peer refused the handshake: failed: "no route to host"`},
	} {
		t.Run(name, func(t *testing.T) {
			eachWire(t, func(t *testing.T, n *network) {
				a, b := n.add(), n.add()
				id := a.connect(n.now, b, time.Second)
				tc.spoil(a, b)
				n.run(40 * time.Millisecond)
				require.ErrorIs(t, a.downs[id], rail.ErrRefused)
				require.EqualError(t, a.downs[id], tc.text)
				n.requireQuiet()
			})
		})
	}
}

func TestRefusalsOfNothing(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		a.connect(n.now, b, time.Second)
		n.run(time.Second)
		for why := Reason(0); why < 9; why++ {
			b.refuse(&Hello[place, link]{From: a.self, Nonce: 12345}, why, "")
			n.run(time.Second)
		}
		// Overtaken by the answer.
		b.refuse(&Hello[place, link]{From: a.self, Nonce: a.ends[b.self].nonce}, NoRoom, "")
		n.run(time.Second)
		n.requireConnected(a, b)
		require.EqualValues(t, 10, a.Ignored())
	})
}

func TestConnectionThatBreaksBeforeItIsUp(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		id := a.connect(n.now, b, time.Second)
		a.Fail(id, rail.ErrPeerGone)
		require.ErrorIs(t, a.downs[id], rail.ErrPeerGone)
		n.run(time.Minute)
		n.requireQuiet()
		require.Empty(t, b.ends)
	})
}

// TestForgedSenderIsIgnored: what cannot come from where it says it does costs nothing but a counter.
func TestForgedSenderIsIgnored(t *testing.T) {
	n := newNetwork(t, false, 1)
	a, b := n.add(), n.add()
	a.connect(n.now, b, time.Second)
	n.flying[0].from.number = 99
	n.run(40 * time.Millisecond)
	require.Empty(t, b.ends)
	require.EqualValues(t, 1, b.Ignored())
	require.Equal(t, 1, n.sent)
}

// TestForgedAttemptBreaksNothing: a hello in the name of a peer, of a later attempt, makes a rail ask the peer, and no more. That
// needs neither a guess nor anything but both addresses and the peer's incarnation, which all peers of the two know.
func TestForgedAttemptBreaksNothing(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		a.connect(n.now, b, time.Second)
		n.run(time.Second)
		forged := testHello()
		forged.From, forged.To, forged.Incarnation, forged.Attempt = a.self, b.self.key, b.ends[a.self].remote.Incarnation, 1<<60
		for range 10 {
			b.take(n.now, packet{from: a.self, data: n.wire.AppendHello(nil, forged)})
			n.run(time.Second)
		}
		n.requireConnected(a, b)
		require.Empty(t, a.downs)
		require.Empty(t, b.downs)
		n.requireQuiet()
	})
}

// TestKeyIsNeeded: who was not given a rail's address gets no answer from it.
func TestKeyIsNeeded(t *testing.T) {
	n := newNetwork(t, true, 1)
	a, b := n.add(), n.add()
	stranger := b.self
	stranger.key++
	_, err := a.Connect(n.now, stranger, n.now.Add(time.Second))
	require.NoError(t, err)
	b.take(n.now, n.flying[0])
	require.Empty(t, b.ends)
	require.EqualValues(t, 1, b.Ignored())
	require.Equal(t, 1, n.sent)
}

// TestHelloThatIsNotTakenComesSoon: a transport that is connecting takes nothing.
func TestHelloThatIsNotTakenComesSoon(t *testing.T) {
	eachWire(t, func(t *testing.T, n *network) {
		a, b := n.add(), n.add()
		n.full = 1
		a.connect(n.now, b, time.Second)
		n.run(30 * time.Millisecond)
		require.Zero(t, n.sent)
		n.full = 0
		n.run(5 * time.Millisecond)
		n.requireConnected(a, b)
		n.requireQuiet()
	})
}

// TestPeerOfTheNextVersion has one end, or both, write what this version does not know.
func TestPeerOfTheNextVersion(t *testing.T) {
	for _, newer := range [][2]bool{{true, false}, {false, true}, {true, true}} {
		eachWire(t, func(t *testing.T, n *network) {
			n.loss, n.double = 0.2, 0.2
			a, b := n.add(), n.add()
			a.newer, b.newer = newer[0], newer[1]
			a.connect(n.now, b, time.Minute)
			n.run(time.Minute)
			n.requireConnected(a, b)
			b.full = true
			c := n.add()
			c.newer = newer[0]
			id := c.connect(n.now, b, time.Minute)
			n.run(time.Minute)
			require.ErrorIs(t, c.downs[id], rail.ErrRefused, "a refusal is understood too")
			n.requireQuiet()
		})
	}
}

// TestHostileMessagesCostACounter changes what is sent, byte by byte and at random, from the address that it says it is
// from: nobody who is connected notices.
func TestHostileMessagesCostACounter(t *testing.T) {
	seed := rdmatest.Seed(t)
	for _, keyed := range []bool{false, true} {
		n := newNetwork(t, keyed, seed)
		a, b, enemy := n.add(), n.add(), n.add()
		a.connect(n.now, b, time.Minute)
		n.run(time.Second)
		hostile := testHello()
		hostile.From, hostile.To = enemy.self, b.self.key
		refusal := Refusal[place]{From: enemy.self, To: b.self.key, Answers: 1, Text: "no"}
		tried := uint64(0)
		for _, whole := range [][]byte{n.wire.AppendHello(nil, hostile), n.wire.AppendRefusal(nil, &refusal)} {
			for i := range whole {
				for range 20 {
					bad := slices.Clone(whole)
					bad[i] ^= byte(1 + n.random.IntN(255))
					b.take(n.now, packet{from: enemy.self, data: bad[:n.random.IntN(len(bad)+1)]})
					b.take(n.now, packet{from: enemy.self, data: bad})
					tried += 2
				}
			}
		}
		require.Greater(t, b.Ignored(), tried/2)
		n.run(time.Minute)
		n.requireConnected(a, b)
		require.Empty(t, b.downs)
		require.LessOrEqual(t, len(b.ends), 1, "whoever does not answer is forgotten")
	}
}
