package transferengine_test

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

// TestDisconnect: both ends learn who gave up, what is under way ends, and the engines can connect again.
func TestDisconnect(t *testing.T) {
	p := newPair(t, 1<<20, transferengine.Config{})
	var write transferengine.Transfer
	require.NoError(t, p.a.Write(&write, p.all(7)))
	require.NoError(t, p.a.Disconnect(p.toB))
	require.NoError(t, p.a.Disconnect(p.toB), "again")
	p.settle()
	require.ErrorIs(t, p.toB.Err(), net.ErrClosed)
	require.ErrorContains(t, p.toB.Err(), "was disconnected")
	require.ErrorIs(t, p.toA.Err(), rail.ErrPeerClosed)
	require.ErrorIs(t, write.Err(), net.ErrClosed, "it was not posted yet")
	require.Empty(t, p.a.Peers())
	require.Empty(t, p.b.Peers())
	require.NoError(t, p.a.Disconnect(p.toB), "one that is lost")
	p.settle()

	again, _ := p.connect(p.a, p.b)
	require.NotSame(t, p.toB, again)
	require.NoError(t, p.a.Disconnect(p.toB), "which is not the new one")
	p.settle()
	require.NoError(t, again.Err())
	require.ErrorIs(t, p.b.Disconnect(again), syscall.EINVAL, "another engine's")
	require.ErrorIs(t, p.b.Disconnect(nil), syscall.EINVAL)
}

// TestDisconnectAndClose: a Disconnect that nobody has taken up yet does not keep an engine from closing.
func TestDisconnectAndClose(t *testing.T) {
	w := newWorld(t, simrail.Config{})
	a, b := w.open(transferengine.Config{}), w.open(transferengine.Config{})
	toB, _ := w.connect(a, b)
	require.NoError(t, a.Disconnect(toB))
	require.NoError(t, a.Close())
	require.ErrorIs(t, toB.Err(), net.ErrClosed)
	require.ErrorIs(t, a.Disconnect(toB), net.ErrClosed)
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

// TestDisconnectEndsWhatIsInFlight: the cause is that this end gave up.
func TestDisconnectEndsWhatIsInFlight(t *testing.T) {
	p, write, turn := stuck(t, transferengine.Config{})
	require.NoError(t, p.a.Disconnect(p.toB))
	turn()
	require.ErrorIs(t, write.Err(), net.ErrClosed)
	require.ErrorContains(t, write.Err(), "was disconnected")
	p.settle()
}

// TestDisconnectWhateverWaits: a peer that answers nothing can be given up while its transfers take all room.
func TestDisconnectWhateverWaits(t *testing.T) {
	p, write, turn := stuck(t, transferengine.Config{MaxTransfers: 2, TransferTimeout: time.Hour})
	var waits transferengine.Transfer
	require.NoError(t, p.a.Write(&waits, p.all(7)))
	require.NoError(t, p.a.Disconnect(p.toB))
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
