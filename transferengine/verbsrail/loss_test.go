package verbsrail_test

import (
	"encoding/hex"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/verbsrail"
)

func TestDisconnectTellsTheOtherEnd(t *testing.T) {
	a, b := newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{})
	id, atB := connect(t, a, b)
	a.rail.Disconnect(time.Now(), id)
	a.rail.Disconnect(time.Now(), id)
	until(t, "down at both", func() bool { return a.isDown(id)() && b.isDown(atB)() }, a, b)
	require.ErrorIs(t, a.downs[id], net.ErrClosed)
	require.ErrorIs(t, b.downs[atB], rail.ErrPeerClosed)
	_, err := a.rail.Post(id, []rail.Op{a.write(1, 0, b.remote(), 0, 8)})
	require.Error(t, err)

	next, _ := connect(t, b, a)
	b.post(next, withImm(b.write(1, 0, a.remote(), 0, 8), 3))
	until(t, "a write on the next connection", func() bool { return len(a.immediates) == 1 }, a, b)
}

func TestDisconnectWithWritesInFlight(t *testing.T) {
	for name, drain := range map[string]time.Duration{
		"queues drain":   time.Hour,
		"no time for it": 1,
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newEngine(t, verbsrail.Config{DrainTimeout: drain}), newEngine(t, verbsrail.Config{})
			id, _ := connect(t, a, b)
			for i := range 200 {
				a.post(id, a.write(uint64(i), 0, b.remote(), 0, 100_000))
			}
			a.rail.Disconnect(time.Now(), id)
			until(t, "down", a.isDown(id), a, b)
			requireAllOnce(t, a, 200)
			require.ErrorIs(t, a.downs[id], net.ErrClosed)
		})
	}
}

func TestDisconnectWhileConnecting(t *testing.T) {
	a, b := newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{})
	id, err := a.rail.Connect(time.Now(), b.rail.Address(), time.Now().Add(rdmatest.Deadline(patience)))
	require.NoError(t, err)
	a.rail.Disconnect(time.Now(), id)
	until(t, "down", a.isDown(id), a)
	require.ErrorIs(t, a.downs[id], net.ErrClosed)
	until(t, "nothing left", func() bool { return a.rail.Connections()+b.rail.Connections() == 0 }, a, b)
	require.Empty(t, a.ups)
}

func TestCloseWithWritesInFlight(t *testing.T) {
	a, b := newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{})
	id, atB := connect(t, a, b)
	for i := range 100 {
		a.post(id, a.write(uint64(i), 0, b.remote(), 0, 100_000))
	}
	require.NoError(t, a.close())
	until(t, "b notices", b.isDown(atB), b)
	require.ErrorIs(t, b.downs[atB], rail.ErrPeerGone)
}

func TestPeerIsKilledWithWritesInFlight(t *testing.T) {
	a := newEngine(t, verbsrail.Config{})
	peer := startPeer(t)
	id, err := a.rail.Connect(time.Now(), peer.address, time.Now().Add(rdmatest.Deadline(patience)))
	require.NoError(t, err)
	until(t, "up", func() bool { return a.isUp(id) }, a)
	posted := 0
	post := func() {
		for range 16 {
			n, err := a.rail.Post(id, []rail.Op{a.write(uint64(posted), 0, peer.memory, 0, 100_000)})
			if n == 0 || err != nil {
				return
			}
			posted += n
		}
	}
	until(t, "writes", func() bool { post(); return a.completed > 50 }, a)
	peer.Kill()
	killed := time.Now()
	until(t, "down", func() bool { post(); return a.isDown(id)() }, a)
	t.Logf("noticed after %v: %v", time.Since(killed), a.downs[id])
	failed := requireAllOnce(t, a, posted)
	require.Positive(t, failed)
	requireLost(t, a.downs[id])

	// Its next incarnation is another peer, and needs nothing here.
	peer = startPeer(t, hex.EncodeToString(a.rail.Address()))
	before := len(a.ups)
	until(t, "the next incarnation is up", func() bool { return len(a.ups) > before }, a)
	next := a.ups[before]
	a.post(next, withImm(a.write(1<<40, 0, peer.memory, 0, 100), 1))
	until(t, "a write to it", func() bool { _, done := a.done[1<<40]; return done }, a)
	require.NoError(t, a.done[1<<40])
}

func TestDisconnectFlushesWritesThatNobodyAcknowledges(t *testing.T) {
	cfg := verbsrail.Config{DrainTimeout: time.Hour}
	cfg.Connection.Timeout = 5 * time.Second // before the first of six retries: the transport would not give up meanwhile
	a := newEngine(t, cfg)
	peer := startPeer(t)
	id, err := a.rail.Connect(time.Now(), peer.address, time.Now().Add(rdmatest.Deadline(patience)))
	require.NoError(t, err)
	until(t, "up", func() bool { return a.isUp(id) }, a)
	peer.Kill()
	require.Error(t, peer.Wait(patience))
	for i := range 10 {
		a.post(id, a.write(uint64(i), 0, peer.memory, 0, 8))
	}
	a.rail.Disconnect(time.Now(), id)
	disconnected := time.Now()
	until(t, "writes flushed", func() bool { return a.completed == 10 }, a)
	require.Less(t, time.Since(disconnected), rdmatest.Deadline(20*time.Second))
	require.Equal(t, 10, requireAllOnce(t, a, 10))
	require.ErrorIs(t, a.done[0], rail.ErrFlushed)
}

// requireLost: the kernel takes a dying process's memory away before its queue pairs, so a write may see either.
func requireLost(t *testing.T, err error) {
	t.Helper()
	require.True(t, errors.Is(err, rail.ErrPeerGone) || errors.Is(err, rail.ErrAccess), "%v", err)
}

func TestPeerIsKilledWhileBothWait(t *testing.T) {
	a := newEngine(t, verbsrail.Config{})
	peer := startPeer(t, hex.EncodeToString(a.rail.Address()))
	until(t, "up", func() bool { return len(a.ups) == 1 }, a)
	line, err := peer.ReadLine(patience)
	require.NoError(t, err)
	require.Equal(t, "up", line)
	peer.Kill()
	killed := time.Now()
	until(t, "down", a.isDown(a.ups[0]), a)
	require.ErrorIs(t, a.downs[a.ups[0]], rail.ErrPeerGone)
	require.Less(t, time.Since(killed), rdmatest.Deadline(10*time.Second))
	t.Logf("noticed after %v: %v", time.Since(killed), a.downs[a.ups[0]])
}

func TestStoppedPeerSurvives(t *testing.T) {
	a := newEngine(t, verbsrail.Config{})
	peer := startPeer(t)
	id, err := a.rail.Connect(time.Now(), peer.address, time.Now().Add(rdmatest.Deadline(patience)))
	require.NoError(t, err)
	until(t, "up", func() bool { return a.isUp(id) }, a)
	require.NoError(t, syscall.Kill(peer.pid, syscall.SIGSTOP))
	end := time.Now().Add(4 * time.Second)
	until(t, "four seconds", func() bool { return time.Now().After(end) }, a)
	require.NoError(t, syscall.Kill(peer.pid, syscall.SIGCONT))
	a.post(id, withImm(a.write(1, 0, peer.memory, 0, 100), 1))
	until(t, "a write", func() bool { return a.completed == 1 }, a)
	require.NoError(t, a.done[1])
	require.Empty(t, a.downs)
}

func TestSilentPeerIsLost(t *testing.T) {
	quick := verbsrail.Config{Heartbeat: 100 * time.Millisecond, PeerTimeout: 500 * time.Millisecond}
	a, b := newEngine(t, quick), newEngine(t, quick)
	id, _ := connect(t, a, b)
	for end := time.Now().Add(time.Second); time.Now().Before(end); { // heartbeats keep an idle peer
		a.turn()
		b.turn()
	}
	require.Empty(t, a.downs)
	require.Empty(t, b.downs)
	until(t, "down", a.isDown(id), a) // b takes no turns, but its NIC answers
	require.ErrorIs(t, a.downs[id], rail.ErrPeerGone)
	require.ErrorContains(t, a.downs[id], "nothing came from it for")
}

func TestPauseOfTurnsIsNotSilence(t *testing.T) {
	a, b := newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{})
	connect(t, a, b)
	later := time.Now().Add(time.Hour)
	for range 10 {
		n, _ := a.rail.Turn(later, a.events[:])
		require.Zero(t, n)
	}
}
