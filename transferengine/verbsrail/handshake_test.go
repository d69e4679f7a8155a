package verbsrail

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine/rail"
)

func TestOneEndCalls(t *testing.T) {
	n := newNetwork(t, 1)
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
}

func TestBothEndsCall(t *testing.T) {
	n := newNetwork(t, 1)
	a, b := n.add(), n.add()
	ida, idb := a.connect(n.now, b, time.Second), b.connect(n.now, a, time.Second)
	n.run(time.Second)
	n.requireConnected(a, b)
	require.Equal(t, []rail.PeerID{ida}, a.ups)
	require.Equal(t, []rail.PeerID{idb}, b.ups)
	n.requireQuiet()
	require.LessOrEqual(t, n.sent, 8)
}

func TestEndCallsItself(t *testing.T) {
	n := newNetwork(t, 1)
	a := n.add()
	id := a.connect(n.now, a, time.Second)
	n.run(time.Second)
	n.requireConnected(a, a)
	require.Equal(t, []rail.PeerID{id}, a.ups)
	n.requireQuiet()
}

func TestCallWithoutAnswer(t *testing.T) {
	n := newNetwork(t, 1)
	a, b := n.add(), n.add()
	n.loss = 1
	id := a.connect(n.now, b, 3*time.Second)
	n.run(3*time.Second - 1)
	require.Empty(t, a.downs)
	n.run(1)
	require.Empty(t, a.downs)
	n.run(1)
	require.ErrorIs(t, a.downs[id], rail.ErrUnreachable)
	require.ErrorContains(t, a.downs[id], "10.9.0.2 qpn 11: peer does not answer")
	// 50 ms doubled up to 1 s: sent at 0, 50, 150, 350, 750, 1550 and 2550 ms
	require.ErrorContains(t, a.downs[id], "7 datagrams were sent")
	n.requireQuiet()
}

func TestAnswerIsLost(t *testing.T) {
	n := newNetwork(t, 1)
	a, b := n.add(), n.add()
	b.unheard = true
	a.connect(n.now, b, time.Second)
	n.run(40 * time.Millisecond)
	require.Equal(t, holding, b.ends[a.self].state)
	b.unheard = false
	n.run(time.Second)
	n.requireConnected(a, b)
	n.requireQuiet()
}

func TestLastAnswerIsLost(t *testing.T) {
	n := newNetwork(t, 1)
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
}

func TestArrivalOnTheConnectionProvesIt(t *testing.T) {
	n := newNetwork(t, 1)
	a, b := n.add(), n.add()
	a.connect(n.now, b, time.Second)
	require.True(t, n.step(n.now.Add(time.Second)))
	a.unheard = true
	require.True(t, n.step(n.now.Add(time.Second)))
	b.proven(b.ends[a.self].id)
	b.proven(b.ends[a.self].id)
	n.requireConnected(a, b)
	n.requireQuiet()
}

func TestCallerWhoVanishedIsForgotten(t *testing.T) {
	n := newNetwork(t, 1)
	a, b := n.add(), n.add()
	b.unheard = true
	a.connect(n.now, b, time.Second)
	n.run(testTiming.accept + time.Second)
	require.Empty(t, b.ends)
	require.Empty(t, b.ups)
	require.Empty(t, b.downs, "nobody asked for this peer")
	n.requireQuiet()
}

func TestPeerRestarts(t *testing.T) {
	n := newNetwork(t, 1)
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
}

func TestPeerGaveUpAndCallsAgain(t *testing.T) {
	n := newNetwork(t, 1)
	a, b := n.add(), n.add()
	first := a.connect(n.now, b, time.Second)
	n.run(time.Second)
	b.giveUp(b.ends[a.self].id)
	b.connect(n.now, a, time.Second)
	n.run(time.Second)
	require.ErrorIs(t, a.downs[first], rail.ErrPeerGone)
	n.requireConnected(a, b)
	n.requireQuiet()
}

func TestForgottenWhileTheOtherEndHolds(t *testing.T) {
	n := newNetwork(t, 1)
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
}

func TestLateDatagramsChangeNothing(t *testing.T) {
	n := newNetwork(t, 1)
	a, b := n.add(), n.add()
	a.connect(n.now, b, time.Second)
	old := n.flying[0]
	n.run(time.Second)
	b.giveUp(b.ends[a.self].id)
	a.giveUp(a.ends[b.self].id)

	b.receive(n.now, old.from, old.data) // of a connection that is over: b would make another
	n.run(time.Second)
	require.Empty(t, a.ends)
	require.Empty(t, b.ends)
	n.requireQuiet()

	a.connect(n.now, b, time.Second)
	n.run(time.Second)
	ups := len(b.ups)
	b.receive(n.now, old.from, old.data) // while the next one is up
	n.run(time.Second)
	require.Len(t, b.ups, ups)
	n.requireConnected(a, b)
	n.requireQuiet()
}

func TestDatagramsOfAnEarlierIncarnationChangeNothing(t *testing.T) {
	n := newNetwork(t, 1)
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
		b.receive(n.now, old.from, old.data)
		n.run(time.Second)
	}
	require.Len(t, b.ups, ups)
	n.requireConnected(a, b)
	n.requireQuiet()
}

func TestCallSurvivesADatagramOfAnEarlierIncarnation(t *testing.T) {
	n := newNetwork(t, 1)
	a, b := n.add(), n.add()
	b.connect(n.now, a, time.Second)
	old := n.flying[0]
	n.run(time.Second)
	b = n.restart(1)
	n.breakStale()
	id := a.connect(n.now, b, time.Second)
	a.receive(n.now, old.from, old.data) // a is bound to what is gone
	require.Equal(t, holding, a.ends[b.self].state)
	n.run(time.Second)
	n.requireConnected(a, b)
	require.Contains(t, a.ups, id)
	require.NotContains(t, a.downs, id)
	n.requireQuiet()
}

func TestCallGoesOnWhenThePeerGaveUpAnswering(t *testing.T) {
	n := newNetwork(t, 1)
	a, b := n.add(), n.add()
	b.unheard = true
	id := a.connect(n.now, b, time.Minute)
	n.run(testTiming.accept + time.Second) // b accepted, was not heard, and accepted again
	require.Empty(t, a.downs)
	b.unheard = false
	n.run(5 * time.Second)
	n.requireConnected(a, b)
	require.Equal(t, []rail.PeerID{id}, a.ups)
	n.requireQuiet()
}

func TestRefusals(t *testing.T) {
	t.Run("no room", func(t *testing.T) {
		n := newNetwork(t, 1)
		a, b := n.add(), n.add()
		b.full = true
		id := a.connect(n.now, b, time.Second)
		n.run(time.Second)
		require.ErrorIs(t, a.downs[id], rail.ErrRefused)
		require.EqualError(t, a.downs[id],
			`10.9.0.2 qpn 11: peer refused the handshake: no room: "all of 4 peers are there"`)
		n.requireQuiet()
	})
	t.Run("version", func(t *testing.T) {
		n := newNetwork(t, 1)
		a, b := n.add(), n.add()
		id := a.connect(n.now, b, time.Second)
		n.flying[0].data[4], n.flying[0].data[5] = 3, 2
		n.run(40 * time.Millisecond)
		require.ErrorIs(t, a.downs[id], rail.ErrRefused)
		require.ErrorContains(t, a.downs[id], `version: "hello: needs version 2, this is version 1"`)
		n.requireQuiet()
	})
	t.Run("cannot connect", func(t *testing.T) {
		n := newNetwork(t, 1)
		a, b := n.add(), n.add()
		b.broken = errors.New("no route to host")
		id := a.connect(n.now, b, time.Second)
		n.run(time.Second)
		require.ErrorIs(t, a.downs[id], rail.ErrRefused)
		require.ErrorContains(t, a.downs[id], `failed: "no route to host"`)
		n.requireQuiet()
	})
	t.Run("of nothing", func(t *testing.T) {
		n := newNetwork(t, 1)
		a, b := n.add(), n.add()
		a.connect(n.now, b, time.Second)
		n.run(time.Second)
		for why := reason(0); why < 9; why++ {
			b.refuse(a.self, 12345, why, "")
			n.run(time.Second)
		}
		b.refuse(a.self, a.ends[b.self].nonce, reasonNoRoom, "") // overtaken by the answer
		n.run(time.Second)
		n.requireConnected(a, b)
		require.EqualValues(t, 10, a.ignored.Load())
	})
}

func TestConnectionThatBreaksBeforeItIsUp(t *testing.T) {
	n := newNetwork(t, 1)
	a, b := n.add(), n.add()
	id := a.connect(n.now, b, time.Second)
	a.fail(id, rail.ErrPeerGone)
	require.ErrorIs(t, a.downs[id], rail.ErrPeerGone)
	n.run(time.Minute)
	n.requireQuiet()
	require.Empty(t, b.ends)
}

func TestSenderIsCheckedAgainstTheNIC(t *testing.T) {
	n := newNetwork(t, 1)
	a, b := n.add(), n.add()
	a.connect(n.now, b, time.Second)
	n.flying[0].from.gid[15]++
	n.run(40 * time.Millisecond)
	require.Empty(t, b.ends)
	require.EqualValues(t, 1, b.ignored.Load())
	require.True(t, source{lid: 3, qpn: 9}.agrees(address{gid: [16]byte{1}, lid: 3, qpn: 9}))
	require.False(t, source{lid: 3, qpn: 9}.agrees(address{lid: 4, qpn: 9}))
}

// TestPeerOfTheNextVersion has one end, or both, write what this version does not know.
func TestPeerOfTheNextVersion(t *testing.T) {
	for _, newer := range [][2]bool{{true, false}, {false, true}, {true, true}} {
		n := newNetwork(t, 1)
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
	}
}

// TestHostileDatagramsCostACounter changes what is sent, byte by byte and at random, from the address that it says it is
// from: nobody who is connected notices.
func TestHostileDatagramsCostACounter(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	n := newNetwork(t, seed)
	a, b, enemy := n.add(), n.add(), n.add()
	a.connect(n.now, b, time.Minute)
	n.run(time.Second)
	hostile := testHello()
	hostile.from = enemy.self
	from := source{gid: enemy.self.gid, hasGID: true, qpn: enemy.self.qpn}
	for _, whole := range [][]byte{hostile.append(nil), (&refusal{from: enemy.self, answers: 1}).append(nil)} {
		for i := range whole {
			for range 20 {
				bad := slices.Clone(whole)
				bad[i] ^= byte(1 + n.random.IntN(255))
				b.receive(n.now, from, bad[:n.random.IntN(len(bad)+1)])
				b.receive(n.now, from, bad)
			}
		}
	}
	require.Greater(t, b.ignored.Load(), uint64(5000))
	n.run(time.Minute)
	n.requireConnected(a, b)
	require.Empty(t, b.downs)
	require.LessOrEqual(t, len(b.ends), 1, "whoever does not answer is forgotten")
}
