package transferengine_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
	require.NoError(t, c.WaitFrom(soon(t), 4, p.toA))
	require.EqualValues(t, 6, c.Value())
	require.NoError(t, c.Wait(soon(t), 5))
	require.EqualValues(t, 1, c.Value(p.toA))
	require.NoError(t, c.WaitFrom(ended(t), 0, p.toA))
	require.NoError(t, c.WaitFrom(ended(t), 1, p.toA), "what is there is taken whatever the context")
	require.ErrorIs(t, c.Wait(ended(t), 1), context.DeadlineExceeded)
	require.ErrorIs(t, c.Wait(soon(t), 1<<40), syscall.EINVAL)
	require.ErrorIs(t, c.WaitFrom(soon(t), 1, nil), syscall.EINVAL)
	require.ErrorIs(t, c.WaitFrom(soon(t), 1, p.toB), syscall.EINVAL, "another engine's peer")
}

// TestWaitsNameWhatIsMissing has two of three senders send too little.
func TestWaitsNameWhatIsMissing(t *testing.T) {
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
	err := c.WaitFrom(ended(t), 2, peers...)
	var missing *transferengine.MissingError
	require.ErrorAs(t, err, &missing)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, []transferengine.Missing{{Peer: peers[0], Count: 2}, {Peer: peers[1], Count: 1}}, missing.Missing)
	require.EqualError(t, err, "counter 5: immediates are missing: 2 of 2 from 192.0.2.2, 1 of 2 from 192.0.2.3: "+
		"context deadline exceeded")
	require.EqualValues(t, 3, c.Value(), "a wait that ended took nothing")
	require.EqualError(t, c.Wait(ended(t), 4), "counter 5: immediates are missing: 1 of 4: context deadline exceeded")
	require.ErrorIs(t, c.WaitFrom(ended(t), 2, peers[2], peers[2]), context.DeadlineExceeded, "named twice, it sent for one")
	require.EqualValues(t, 3, c.Value())
	require.NoError(t, c.WaitFrom(ended(t), 1, peers[2], peers[1], peers[2]))
	require.Zero(t, c.Value())
}

// TestLostPeerNamedTwice: the wait ends, and says how much is missing.
func TestLostPeerNamedTwice(t *testing.T) {
	p := newPair(t, 8, transferengine.Config{})
	p.send(5, 3)
	p.network.Kill("192.0.2.1")
	p.settle()
	c := p.b.Counter(5)
	err := c.WaitFrom(soon(t), 2, p.toA, p.toA)
	require.ErrorIs(t, err, rail.ErrPeerGone)
	require.ErrorContains(t, err, "1 of 2 from 192.0.2.1")
	require.EqualValues(t, 3, c.Value(p.toA))
}

func TestTryTake(t *testing.T) {
	p := newPair(t, 8, transferengine.Config{})
	p.send(5, 3)
	c := p.b.Counter(5)
	for _, try := range []struct {
		took bool
		n    uint64
		from []*transferengine.Peer
	}{{true, 0, nil}, {false, 4, nil}, {false, 2, []*transferengine.Peer{p.toA, p.toA}}, {true, 2, []*transferengine.Peer{p.toA}},
		{true, 1, nil}, {false, 1, nil}} {
		took, err := c.TryTake(try.n, try.from...)
		require.NoError(t, err)
		require.Equal(t, try.took, took, "%+v", try)
	}
	_, err := c.TryTake(1, p.toB)
	require.ErrorIs(t, err, syscall.EINVAL)
	p.network.Kill("192.0.2.1")
	p.settle()
	took, err := c.TryTake(1, p.toA)
	require.False(t, took)
	require.ErrorIs(t, err, rail.ErrPeerGone)
}

// TestTryTakeDoesATurn of an engine that nobody else drives.
func TestTryTakeDoesATurn(t *testing.T) {
	n := newNetwork(t, simrail.Config{TargetDriven: true})
	p := &pair{world: &world{t: t, network: n}, a: openDriven(t, n, "192.0.2.1", transferengine.Config{})}
	var err error
	p.b, err = transferengine.OpenUndriven(transferengine.Config{Rails: []rail.Opener{n.Rail("192.0.2.2")}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.b.Close()) })
	call, err := p.a.StartConnect(p.b.Address())
	require.NoError(t, err)
	ctx := soon(t)
	for done := false; !done || len(p.b.Peers()) == 0; _, done, _ = call() {
		require.NoError(t, ctx.Err())
		p.b.Poll()
	}
	p.descriptor = register(t, p.b, make([]byte, 8)).Descriptor()
	var tr transferengine.Transfer
	require.NoError(t, p.a.Write(&tr, transferengine.Write{Peer: p.a.Peers()[0], Dest: &p.descriptor, Imm: 5, HasImm: true}))
	for took := false; !took; took, err = p.b.Counter(5).TryTake(1, p.b.Peers()[0]) {
		require.NoError(t, err)
		require.NoError(t, ctx.Err())
	}
}

// TestWhatIsTakenOfWhom does not depend on chance: the oldest peer's goes first.
func TestWhatIsTakenOfWhom(t *testing.T) {
	w := newWorld(t, simrail.Config{})
	receiver := w.open(transferengine.Config{})
	dest := register(t, receiver, make([]byte, 8)).Descriptor()
	var peers []*transferengine.Peer
	for range 8 {
		sender := w.open(transferengine.Config{})
		to, from := w.connect(sender, receiver)
		peers = append(peers, from)
		p := pair{world: w, a: sender, toB: to, descriptor: dest}
		p.send(5, 2)
	}
	c := receiver.Counter(5)
	for left := 16; left > 0; left-- {
		for i, p := range peers {
			require.EqualValues(t, min(2, max(0, left-2*(7-i))), c.Value(p), "%d are left", left)
		}
		require.NoError(t, c.Wait(soon(t), 1))
	}
}

// TestRelease ends waits and forgets what came; what comes later is another counter's.
func TestRelease(t *testing.T) {
	p := newPair(t, 8, transferengine.Config{})
	p.send(5, 3)
	c := p.b.Counter(5)
	told := make(chan error, 2)
	go func() { told <- c.Wait(soon(t), 4) }()
	go func() { told <- c.WaitFrom(soon(t), 4, p.toA) }()
	p.b.AwaitWaiters(2)
	c.Release()
	c.Release()
	for range 2 {
		err := <-told
		require.ErrorIs(t, err, net.ErrClosed)
		require.EqualError(t, err, "counter 5: the counter was released: ask the engine for the value's counter again")
	}
	require.ErrorIs(t, c.Wait(soon(t), 1), net.ErrClosed)
	require.Zero(t, c.Value())
	require.EqualValues(t, 3, p.b.Stats().ImmediatesDropped)
	require.Zero(t, p.b.Claimed())

	p.send(5, 2)
	again := p.b.Counter(5)
	require.NotSame(t, c, again)
	require.NoError(t, again.WaitFrom(soon(t), 2, p.toA))
	require.Zero(t, again.Value())
	require.Zero(t, c.Value())
}

// TestValuesUsedOnce leave nothing behind once their counters are released.
func TestValuesUsedOnce(t *testing.T) {
	p := newPair(t, 8, transferengine.Config{})
	for imm := range uint32(2000) {
		p.send(imm, 1)
		c := p.b.Counter(imm)
		require.NoError(t, c.WaitFrom(soon(t), 1, p.toA))
		c.Release()
	}
	require.Zero(t, p.b.Claimed())
	require.LessOrEqual(t, p.b.Cells(p.toA), 64)
	require.Zero(t, p.b.Stats().ImmediatesDropped)
}

// TestValuesInUseKeepTheirPlace: what comes again and again allocates nothing, however many values there are.
func TestValuesInUseKeepTheirPlace(t *testing.T) {
	p := newPair(t, 8, transferengine.Config{})
	const values = 1000
	for range 2 {
		for imm := range uint32(values) {
			p.b.Arrive(p.toA, imm)
			require.NoError(t, p.b.Counter(imm).WaitFrom(soon(t), 1, p.toA))
		}
	}
	require.Equal(t, values, p.b.Cells(p.toA))
	ctx := soon(t)
	require.Zero(t, testing.AllocsPerRun(1, func() {
		for imm := range uint32(values) {
			p.b.Arrive(p.toA, imm)
			if p.b.Counter(imm).WaitFrom(ctx, 1, p.toA) != nil {
				panic(imm)
			}
		}
	}))
}

// TestCountsAddUp has immediates arrive while several goroutines wait for them, in all ways, and the peer's cells are swept: all
// waits end, and everything is taken once.
func TestCountsAddUp(t *testing.T) {
	const rounds, waiters, peers = 400, 4, 3
	w := newWorld(t, simrail.Config{})
	receiver := w.open(transferengine.Config{})
	var from []*transferengine.Peer
	for range peers {
		_, p := w.connect(w.open(transferengine.Config{}), receiver)
		from = append(from, p)
	}
	each, total := receiver.Counter(5), receiver.Counter(6)
	ctx := soon(t)
	var group sync.WaitGroup
	for range waiters {
		group.Go(func() {
			for range rounds {
				assert.NoError(t, each.WaitFrom(ctx, 1, from...))
				assert.NoError(t, total.Wait(ctx, peers))
			}
		})
	}
	for range rounds * waiters {
		for _, i := range w.random.Perm(2 * peers) {
			peer := from[i%peers]
			receiver.Arrive(peer, 5+uint32(i/peers))
			if w.random.IntN(4) == 0 {
				receiver.Sweep(peer)
			}
		}
	}
	group.Wait()
	require.Zero(t, each.Value())
	require.Zero(t, each.Value(from...))
	require.Zero(t, total.Value())
	require.Zero(t, total.Value(from...))
}

// TestAWaitLooksAgain at what others took since it looked, and at peers whose cells were swept.
func TestAWaitLooksAgain(t *testing.T) {
	w := newWorld(t, simrail.Config{})
	receiver := w.open(transferengine.Config{})
	var from []*transferengine.Peer
	for range 2 {
		_, p := w.connect(w.open(transferengine.Config{}), receiver)
		from = append(from, p)
	}
	c := receiver.Counter(5)
	wait := c.StartWait(1, from...)
	receiver.Arrive(from[0], 5)
	require.False(t, wait.Met())
	require.NoError(t, c.WaitFrom(soon(t), 1, from[0]))
	receiver.Sweep(from[0])
	receiver.Arrive(from[1], 5)
	require.False(t, wait.Met(), "the first one's was taken")
	receiver.Sweep(from[1])
	receiver.Arrive(from[0], 5)
	require.True(t, wait.Met())
	require.Zero(t, c.Value())
	require.Zero(t, c.Value(from...))
}

// TestAWaiterIsWokenOnce, by the last of what it waits for, however many come before.
func TestAWaiterIsWokenOnce(t *testing.T) {
	p := newPair(t, 8, transferengine.Config{})
	c := p.b.Counter(5)
	told := make(chan error)
	go func() { told <- c.WaitFrom(soon(t), 100, p.toA) }()
	p.b.AwaitWaiters(1)
	for range 99 {
		p.b.Arrive(p.toA, 5)
		require.True(t, c.Awaited())
	}
	p.b.Arrive(p.toA, 5)
	require.False(t, c.Awaited())
	require.NoError(t, <-told)
}

// TestALookCostsWhatArrived: who waits for many peers looks at as many of them as sent something.
func TestALookCostsWhatArrived(t *testing.T) {
	const peers = 200
	w := newWorld(t, simrail.Config{})
	receiver := w.open(transferengine.Config{})
	var from []*transferengine.Peer
	for range peers {
		_, p := w.connect(w.open(transferengine.Config{}), receiver)
		from = append(from, p)
	}
	c := receiver.Counter(5)
	wait := c.StartWait(1, from...)
	require.False(t, wait.Met())
	for _, i := range w.random.Perm(peers - 1) {
		receiver.Arrive(from[i], 5)
		receiver.Arrive(from[i], 5) // of the next round
		require.False(t, wait.Met())
	}
	receiver.Arrive(from[peers-1], 5)
	require.True(t, wait.Met())
	require.EqualValues(t, peers-1, c.Value())
	require.LessOrEqual(t, wait.Looked(), 5*peers, "looks at a peer's count")
}

func TestWhatALostPeerSentIsKept(t *testing.T) {
	p := newPair(t, 8, transferengine.Config{})
	p.send(5, 2)
	p.send(6, 1)
	p.network.Kill("192.0.2.1")
	p.settle()
	require.ErrorIs(t, p.toA.Err(), rail.ErrPeerGone)
	c := p.b.Counter(5)
	require.NoError(t, c.WaitFrom(soon(t), 1, p.toA))
	err := c.WaitFrom(soon(t), 2, p.toA)
	require.ErrorIs(t, err, rail.ErrPeerGone)
	require.ErrorContains(t, err, "1 of 2 from 192.0.2.1")
	require.NoError(t, c.Wait(soon(t), 1), "from anybody")
	require.NoError(t, p.b.Counter(6).WaitFrom(soon(t), 1, p.toA), "before anybody asked for the counter")
	require.ErrorIs(t, p.b.Counter(6).WaitFrom(soon(t), 1, p.toA), rail.ErrPeerGone)
}

func TestAPeerThatSendsTooManyValuesIsGivenUp(t *testing.T) {
	p := newPair(t, 8, transferengine.Config{MaxImmediates: 10})
	for imm := range uint32(50) { // as many as one likes, if they are taken
		p.send(imm, 1)
		require.NoError(t, p.b.Counter(imm).WaitFrom(soon(t), 1, p.toA))
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
			require.NoError(t, receiver.Counter(imm).WaitFrom(soon(t), 1, from))
		}
		w.network.Kill(fmt.Sprintf("192.0.2.%d", round+2))
		w.settle()
	}
	require.NoError(t, receiver.Counter(100).Wait(soon(t), 4))
	require.EqualValues(t, 1, receiver.Counter(100).Value())
	require.Zero(t, receiver.Stats().ImmediatesDropped)
}
