package transferengine_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

// send has n immediates arrive at b.
func (p *pair) send(imm uint32, n int) {
	p.t.Helper()
	var tr transferengine.Transfer
	w := transferengine.Write{Peer: p.toB, Dest: &p.descriptor, Imm: imm, HasImm: true, Shards: n}
	require.NoError(p.t, p.a.Write(&tr, w))
	require.NoError(p.t, p.finish(&tr))
	p.settle()
}

// ended is a context that ended.
func ended(t testing.TB) context.Context {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	t.Cleanup(cancel)
	return ctx
}

func TestWaitTakesWhatItWaitedFor(t *testing.T) {
	p := newPair(t, 8, transferengine.Config{})
	c := p.b.Counter(5)
	require.Same(t, c, p.b.Counter(5))
	p.send(5, 10)
	require.NoError(t, c.Wait(soon(t), 4, p.toA))
	require.EqualValues(t, 6, c.Value())
	require.NoError(t, c.Wait(soon(t), 5))
	require.EqualValues(t, 1, c.Value(p.toA))
	require.NoError(t, c.Wait(ended(t), 0, p.toA))
	require.NoError(t, c.Wait(ended(t), 1, p.toA), "what is there is taken whatever the context")
	require.ErrorIs(t, c.Wait(ended(t), 1), context.DeadlineExceeded)
	require.ErrorIs(t, c.Wait(soon(t), 1<<40), syscall.EINVAL)
	require.ErrorIs(t, c.Wait(soon(t), 1, nil), syscall.EINVAL)
	require.ErrorIs(t, c.Wait(soon(t), 1, p.toB), syscall.EINVAL, "another engine's peer")
}

// TestWaitsNameWhatTheyLack has two of three senders send too little.
func TestWaitsNameWhatTheyLack(t *testing.T) {
	w := newWorld(t, simrail.Config{})
	receiver := w.open(transferengine.Config{})
	dest := register(t, receiver, make([]byte, 8)).Descriptor()
	var peers []*transferengine.Peer
	for shards := range 3 {
		sender := w.open(transferengine.Config{})
		to, from := w.connect(sender, receiver)
		peers = append(peers, from)
		if shards > 0 {
			p := pair{world: w, a: sender, toB: to, descriptor: dest}
			p.send(5, shards)
		}
	}
	c := receiver.Counter(5)
	err := c.Wait(ended(t), 2, peers...)
	var lack *transferengine.LackError
	require.ErrorAs(t, err, &lack)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, []transferengine.Lack{{Peer: peers[0], Count: 2}, {Peer: peers[1], Count: 1}}, lack.Lacks)
	require.EqualError(t, err, "counter 5: immediates are missing: 2 of 2 from 192.0.2.2, 1 of 2 from 192.0.2.3: "+
		"context deadline exceeded")
	require.EqualValues(t, 3, c.Value(), "a wait that ended took nothing")
	require.EqualError(t, c.Wait(ended(t), 4), "counter 5: immediates are missing: 1 of 4: context deadline exceeded")
	require.ErrorIs(t, c.Wait(ended(t), 2, peers[2], peers[2]), context.DeadlineExceeded, "named twice, it sent for one")
	require.EqualValues(t, 3, c.Value())
	require.NoError(t, c.Wait(ended(t), 1, peers[2], peers[1], peers[2]))
	require.Zero(t, c.Value())
}

func TestWhatALostPeerSentIsKept(t *testing.T) {
	p := newPair(t, 8, transferengine.Config{})
	p.send(5, 2)
	p.send(6, 1)
	p.network.Kill("192.0.2.1")
	p.settle()
	require.ErrorIs(t, p.toA.Err(), rail.ErrPeerGone)
	c := p.b.Counter(5)
	require.NoError(t, c.Wait(soon(t), 1, p.toA))
	err := c.Wait(soon(t), 2, p.toA)
	require.ErrorIs(t, err, rail.ErrPeerGone)
	require.ErrorContains(t, err, "1 of 2 from 192.0.2.1")
	require.NoError(t, c.Wait(soon(t), 1), "from anybody")
	require.NoError(t, p.b.Counter(6).Wait(soon(t), 1, p.toA), "before anybody asked for the counter")
	require.ErrorIs(t, p.b.Counter(6).Wait(soon(t), 1, p.toA), rail.ErrPeerGone)
}

func TestAPeerThatSendsTooManyValuesIsGivenUp(t *testing.T) {
	p := newPair(t, 8, transferengine.Config{MaxImmediates: 10})
	for imm := range uint32(50) { // as many as one likes, if they are taken
		p.send(imm, 1)
		require.NoError(t, p.b.Counter(imm).Wait(soon(t), 1, p.toA))
	}
	require.NoError(t, p.toA.Err())
	var tr transferengine.Transfer
	for imm := uint32(1000); p.toA.Err() == nil; imm++ {
		require.LessOrEqual(t, imm, uint32(1030))
		w := transferengine.Write{Peer: p.toB, Dest: &p.descriptor, Imm: imm, HasImm: true}
		if p.a.Write(&tr, w) != nil {
			break
		}
		_ = p.finish(&tr)
		p.settle()
	}
	require.ErrorContains(t, p.toA.Err(), "more than 10 distinct immediates")
	require.ErrorIs(t, p.toB.Err(), rail.ErrPeerClosed)
	require.LessOrEqual(t, p.b.Claimed(), 50+11)
	require.NotZero(t, p.b.Stats().ImmediatesDropped)
}

// TestLostPeersDoNotFillMemory has peer after peer come, send what nobody takes, and go.
func TestLostPeersDoNotFillMemory(t *testing.T) {
	w := newWorld(t, simrail.Config{})
	receiver := w.open(transferengine.Config{MaxImmediates: 10})
	dest := register(t, receiver, make([]byte, 8)).Descriptor()
	for round := range uint32(20) {
		sender := w.open(transferengine.Config{})
		to, _ := w.connect(sender, receiver)
		p := pair{world: w, a: sender, toB: to, descriptor: dest}
		for i := range uint32(4) {
			p.send(100*round+i, 1)
		}
		w.network.Kill(fmt.Sprintf("192.0.2.%d", round+2))
		w.settle()
		require.LessOrEqual(t, receiver.Claimed(), 10, "round %d", round)
	}
	require.NotZero(t, receiver.Stats().ImmediatesDropped)
}

// TestWhatWasTakenCrowdsNothingOut has peers come and go, of which only the first left something.
func TestWhatWasTakenCrowdsNothingOut(t *testing.T) {
	w := newWorld(t, simrail.Config{})
	receiver := w.open(transferengine.Config{MaxImmediates: 5})
	dest := register(t, receiver, make([]byte, 8)).Descriptor()
	for round := range uint32(5) {
		sender := w.open(transferengine.Config{})
		to, from := w.connect(sender, receiver)
		p := pair{world: w, a: sender, toB: to, descriptor: dest}
		p.send(100, 1)
		for imm := range uint32(4) {
			p.send(imm, 1)
			require.NoError(t, receiver.Counter(imm).Wait(soon(t), 1, from))
		}
		w.network.Kill(fmt.Sprintf("192.0.2.%d", round+2))
		w.settle()
	}
	require.NoError(t, receiver.Counter(100).Wait(soon(t), 4))
	require.EqualValues(t, 1, receiver.Counter(100).Value())
	require.Zero(t, receiver.Stats().ImmediatesDropped)
}
