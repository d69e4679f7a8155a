package fabricrail_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/rail"
)

func (e *end) fabric() *fabricrail.Rail { return e.rail.(*fabricrail.Rail) }

// target is memory that a peer may write.
func (e *end) target(size int) (memory []byte, at rail.Op) {
	e.t.Helper()
	memory = make([]byte, size)
	keys, err := e.rail.Register(memory, rail.RemoteWrite)
	require.NoError(e.t, err)
	e.t.Cleanup(func() { require.NoError(e.t, keys.Close()) })
	return memory, rail.Op{Kind: rail.Write, RemoteAddr: keys.RemoteAddr(), RemoteKey: keys.RemoteKey()}
}

// TestFarewellsThatCross prove nothing: what one end had posted may not have been taken when the other says its own.
func TestFarewellsThatCross(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a, b := open(t, local(), 1), open(t, local(), 2)
	toB := a.connect(b)
	toA := rail.PeerID(1)
	dest, write := b.target(64)
	source := []byte("01234567")
	keys, err := a.rail.Register(source, rail.LocalOnly)
	require.NoError(t, err)
	defer func() { require.NoError(t, keys.Close()) }()
	write.LocalAddr, write.LocalKey, write.Length = mem.Addr(source), keys.LocalKey(), 8
	n, err := a.rail.Post(toB, []rail.Op{write})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	a.rail.Disconnect(time.Now(), toB)
	b.rail.Disconnect(time.Now(), toA)
	a.turn()                     // says farewell
	b.rail.Turn(time.Now(), nil) // so does b, and takes nothing, having no room for an event
	for range 100 {
		a.turn()
	}
	others := []*end{b}
	for _, e := range a.events {
		if e.Kind == rail.PeerDown {
			others = nil // it is down already
		}
	}
	down := await(rail.PeerDown, a, others...)
	require.ErrorIs(t, down.Err, net.ErrClosed)
	require.True(t, down.Proven, "b is alive and takes turns")
	clear(dest)
	down = await(rail.PeerDown, b, a)
	require.ErrorIs(t, down.Err, net.ErrClosed)
	for range 100 {
		b.turn()
	}
	require.Equal(t, make([]byte, 64), dest, "something landed after it was said that nothing does")
}

// TestGrantComesWhenThereIsRoom: what could not be said at once does not wait for the next heartbeat.
func TestGrantComesWhenThereIsRoom(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	cfg := local()
	cfg.Heartbeat, cfg.PeerTimeout = time.Hour, 3*time.Hour
	a, b := open(t, cfg, 1), open(t, cfg, 2)
	toB := a.connect(b)
	_, write := b.target(64)
	write.HasImm = true
	ctx := rdmatest.Context(t, patience)
	post := func(all int) {
		for posted := 0; posted < all; {
			n, err := a.rail.Post(toB, []rail.Op{write})
			require.NoError(t, err)
			if posted += n; n == 0 {
				a.turn()
				b.turn()
			}
			require.NoError(t, ctx.Err(), "%d of %d are posted", posted, all)
		}
	}
	release := b.fabric().Exhaust()
	post(256)
	for taken := 0; taken < 256; {
		await(rail.Immediate, b, a)
		taken++
	}
	n, err := a.rail.Post(toB, []rail.Op{write})
	require.NoError(t, err)
	require.Zero(t, n, "all that was granted is used")
	release()
	post(256)
}

// TestWaitingForCreditIsNoWork: a rail whose peer grants nothing can sleep, however much there is to post.
func TestWaitingForCreditIsNoWork(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a, b := open(t, local(), 1), open(t, local(), 2)
	toB := a.connect(b)
	_, write := b.target(64)
	write.HasImm = true
	ops := make([]rail.Op, 100)
	for i := range ops {
		ops[i] = write
	}
	ctx := rdmatest.Context(t, patience)
	for idle := 0; idle < 3; {
		n, err := a.rail.Post(toB, ops)
		require.NoError(t, err)
		if idle++; n > 0 {
			idle = 0
		}
		require.NoError(t, ctx.Err())
		a.turn()
	}
	a.turn()
	_, err := a.rail.Post(toB, ops)
	require.NoError(t, err)
	require.False(t, a.rail.Arm(), "there is nothing to do")
}
