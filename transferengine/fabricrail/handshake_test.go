package fabricrail

import (
	"errors"
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
	require.ErrorContains(t, a.downs[id], "fabric:shm node2: peer does not answer")
	// 50 ms doubled up to 1 s: sent at 0, 50, 150, 350, 750, 1550 and 2550 ms
	require.ErrorContains(t, a.downs[id], "7 hellos were sent")
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

	b.receive(n.now, old.data) // of a connection that is over: b would make another
	n.run(time.Second)
	require.Empty(t, a.ends)
	require.Empty(t, b.ends)
	n.requireQuiet()

	a.connect(n.now, b, time.Second)
	n.run(time.Second)
	ups := len(b.ups)
	b.receive(n.now, old.data) // while the next one is up
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
		b.receive(n.now, old.data)
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
	a.receive(n.now, old.data) // a is bound to what is gone
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
			`fabric:shm node2: peer refused the handshake: no room: "all of 4 peers are there"`)
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

// TestKeyIsNeeded: who was not given a rail's address gets no answer from it.
func TestKeyIsNeeded(t *testing.T) {
	n := newNetwork(t, 1)
	a, b := n.add(), n.add()
	stranger := b.self
	stranger.key++
	_, err := a.handshake.connect(n.now, stranger, n.now.Add(time.Second))
	require.NoError(t, err)
	b.receive(n.now, n.flying[0].data)
	require.Empty(t, b.ends)
	require.EqualValues(t, 1, b.ignored.Load())
	require.Equal(t, 1, n.sent)
}

// TestHelloThatIsNotTakenComesSoon: a provider that is connecting takes nothing.
func TestHelloThatIsNotTakenComesSoon(t *testing.T) {
	n := newNetwork(t, 1)
	a, b := n.add(), n.add()
	n.full = 1
	a.connect(n.now, b, time.Second)
	n.run(30 * time.Millisecond)
	require.Zero(t, n.sent)
	n.full = 0
	n.run(5 * time.Millisecond)
	n.requireConnected(a, b)
	n.requireQuiet()
}
