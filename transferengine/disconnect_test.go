package transferengine_test

import (
	"net"
	"syscall"
	"testing"

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
	require.True(t, write.Finished())
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
