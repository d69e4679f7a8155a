package transferengine_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

// TestPeerClose: both ends learn who gave up, what is under way ends, and the engines can connect again.
func TestPeerClose(t *testing.T) {
	p := newPair(t, 1<<20, transferengine.Config{})
	var write transferengine.Transfer
	require.NoError(t, p.a.Write(&write, p.all(7)))
	require.NoError(t, p.toB.Close())
	require.NoError(t, p.toB.Close(), "again")
	p.settle()
	require.ErrorIs(t, p.toB.Err(), net.ErrClosed)
	require.ErrorContains(t, p.toB.Err(), "was closed by this engine")
	require.ErrorIs(t, p.toA.Err(), rail.ErrPeerClosed)
	require.ErrorIs(t, write.Err(), net.ErrClosed, "it was not posted yet")
	require.Empty(t, p.a.Peers())
	require.Empty(t, p.b.Peers())
	require.NoError(t, p.toB.Close(), "one that is lost")
	p.settle()

	again, _ := p.connect(p.a, p.b)
	require.NotSame(t, p.toB, again)
	require.NoError(t, p.toB.Close(), "which is not the new one")
	p.settle()
	require.NoError(t, again.Err())
}

// TestPeerCloseAndClose: a Close of a peer that nobody has taken up yet does not keep an engine from closing.
func TestPeerCloseAndClose(t *testing.T) {
	w := newWorld(t, simrail.Config{})
	a, b := w.open(transferengine.Config{}), w.open(transferengine.Config{})
	toB, _ := w.connect(a, b)
	require.NoError(t, toB.Close())
	require.NoError(t, a.Close())
	require.ErrorIs(t, toB.Err(), net.ErrClosed)
	require.NoError(t, toB.Close())
}

// stuck is a pair whose receiver takes no turns, with a write on its way to it.
func stuck(t *testing.T, config transferengine.Config) (p *pair, write *transferengine.Transfer, turn func()) {
	p = newPairIn(newWorld(t, simrail.Config{TargetDriven: true}), 1<<10, config)
	write = new(transferengine.Transfer)
	require.NoError(t, p.a.Write(write, p.all(7)))
	turn = func() {
		for range 100 {
			p.Advance(time.Millisecond)
			p.a.Turn(p.Now())
		}
	}
	p.a.Turn(p.Now())
	require.False(t, write.Finished())
	return p, write, turn
}

// TestPeerCloseEndsWhatIsInFlight: the cause is that this end gave up.
func TestPeerCloseEndsWhatIsInFlight(t *testing.T) {
	p, write, turn := stuck(t, transferengine.Config{})
	require.NoError(t, p.toB.Close())
	turn()
	require.ErrorIs(t, write.Err(), net.ErrClosed)
	require.ErrorContains(t, write.Err(), "was closed by this engine")
	p.settle()
}

// TestPeerCloseWhateverWaits: a peer that answers nothing can be given up while its transfers take all room.
func TestPeerCloseWhateverWaits(t *testing.T) {
	p, write, turn := stuck(t, transferengine.Config{MaxTransfers: 2, TransferTimeout: time.Hour})
	var waits transferengine.Transfer
	require.NoError(t, p.a.Write(&waits, p.all(7)))
	require.NoError(t, p.toB.Close())
	turn()
	require.ErrorIs(t, p.toB.Err(), net.ErrClosed)
	require.ErrorIs(t, write.Err(), net.ErrClosed)
	require.ErrorIs(t, waits.Err(), net.ErrClosed)
	p.settle()
}

// TestExpect: the engine that is expected connects, and nothing is sent to it before.
func TestExpect(t *testing.T) {
	var packets int
	w := newWorld(t, simrail.Config{Script: simrail.Script{Handshake: func(simrail.Handshake) int { packets++; return 1 }}})
	a, b := w.open(transferengine.Config{ConnectTimeout: time.Second}), w.open(transferengine.Config{})
	expect := func() (ended func() (*transferengine.Peer, bool, error)) {
		ended, err := a.StartExpect(b.Address())
		require.NoError(t, err)
		return ended
	}
	ended := expect()
	w.settle()
	_, done, err := ended()
	require.True(t, done)
	require.ErrorIs(t, err, rail.ErrUnreachable)
	require.Zero(t, packets)

	ended = expect()
	_, toA := w.connect(b, a)
	require.NotNil(t, toA)
	w.until(func() bool { _, done, _ := ended(); return done })
	peer, _, err := ended()
	require.NoError(t, err)
	require.Same(t, peerOf(a, b), peer)
}

// TestAccept: peers that came by themselves, in their order, and no others.
func TestAccept(t *testing.T) {
	w := newWorld(t, simrail.Config{})
	a := w.open(transferengine.Config{})
	var came []*transferengine.Peer
	for range 3 {
		_, toOther := w.connect(w.open(transferengine.Config{}), a)
		came = append(came, toOther)
	}
	called, _ := w.connect(a, w.open(transferengine.Config{}))
	w.network.Kill("192.0.2.3")
	w.settle()
	require.ErrorIs(t, came[1].Err(), rail.ErrPeerGone)
	for _, want := range []*transferengine.Peer{came[0], came[2]} {
		got, err := a.Accept(soon(t))
		require.NoError(t, err)
		require.Same(t, want, got)
	}
	_, err := a.Accept(ended(t))
	require.ErrorIs(t, err, context.DeadlineExceeded, "%v was called", called)

	type result struct {
		peer *transferengine.Peer
		err  error
	}
	accepted := make(chan result)
	accept := func() {
		peer, err := a.Accept(soon(t))
		accepted <- result{peer, err}
	}
	go accept()
	a.AwaitWaiters(1)
	_, late := w.connect(w.open(transferengine.Config{}), a)
	require.Equal(t, result{peer: late}, <-accepted)
	go accept()
	a.AwaitWaiters(1)
	require.NoError(t, a.Close())
	require.ErrorIs(t, (<-accepted).err, net.ErrClosed)
	_, err = a.Accept(soon(t))
	require.ErrorIs(t, err, net.ErrClosed)
}
