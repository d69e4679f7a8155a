package verbsrail_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/verbsrail"
)

func TestRailDescribesItself(t *testing.T) {
	a := newEngine(t, verbsrail.Config{})
	require.Equal(t, "verbs:"+rdmatest.Device(t), a.rail.Name())
	require.LessOrEqual(t, len(a.rail.Address()), rail.MaxAddress)
	caps := a.rail.Caps()
	require.Equal(t, rail.Responsible, caps.Completion)
	require.True(t, caps.ImmSource)
	require.True(t, caps.Ordered)
	require.Positive(t, caps.MaxLength)
	require.Equal(t, 256, caps.MaxBatch)
}

func TestConnect(t *testing.T) {
	a, b := newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{})
	atA, atB := connect(t, a, b)
	require.Equal(t, b.rail.Address(), a.infos[atA].Address)
	require.Equal(t, a.rail.Address(), b.infos[atB].Address)
	require.Equal(t, byte(len(t.Name())), a.infos[atA].Incarnation[0])
	require.Regexp(t, `^[0-9a-f.:]+ qpn \d+$`, a.infos[atA].Name)
	again, err := b.rail.Connect(time.Now(), a.rail.Address(), time.Now().Add(rdmatest.Deadline(patience)))
	require.NoError(t, err)
	require.Equal(t, atB, again)
	require.Len(t, a.ups, 1)
	require.Len(t, b.ups, 1)

	back, here := b.write(1, 0, a.remote(), 0, 8), a.write(1, 8, b.remote(), 8, 8)
	copy(b.memory, "to a ...")
	copy(a.memory[8:], "to b ...")
	b.post(atB, withImm(back, 7))
	a.post(atA, withImm(here, 8))
	until(t, "writes both ways", func() bool {
		return a.completed == 1 && b.completed == 1 && len(a.immediates) == 1 && len(b.immediates) == 1
	}, a, b)
	require.Equal(t, "to a ...", string(a.memory[:8]))
	require.Equal(t, "to b ...", string(b.memory[8:16]))
}

func TestConnectBothWaysAtOnce(t *testing.T) {
	a, b := newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{})
	atA, err := a.rail.Connect(time.Now(), b.rail.Address(), time.Now().Add(rdmatest.Deadline(patience)))
	require.NoError(t, err)
	atB, err := b.rail.Connect(time.Now(), a.rail.Address(), time.Now().Add(rdmatest.Deadline(patience)))
	require.NoError(t, err)
	until(t, "both up", func() bool { return a.isUp(atA) && b.isUp(atB) }, a, b)
	require.Equal(t, 1, a.rail.Connections())
	require.Equal(t, 1, b.rail.Connections())
	a.post(atA, withImm(a.write(1, 0, b.remote(), 0, 100), 5))
	until(t, "a write", func() bool { return a.completed == 1 && len(b.immediates) == 1 }, a, b)
	require.NoError(t, a.done[1])
}

func TestRailConnectsToItself(t *testing.T) {
	a := newEngine(t, verbsrail.Config{})
	id, err := a.rail.Connect(time.Now(), a.rail.Address(), time.Now().Add(rdmatest.Deadline(patience)))
	require.NoError(t, err)
	until(t, "up", func() bool { return a.isUp(id) }, a)
	copy(a.memory, "to myself")
	a.post(id, withImm(a.write(1, 0, a.remote(), 1000, 9), 5))
	until(t, "a write", func() bool { return a.completed == 1 && len(a.immediates) == 1 }, a)
	require.NoError(t, a.done[1])
	require.Equal(t, rail.Event{Kind: rail.Immediate, Peer: id, Imm: 5}, a.immediates[0])
	require.Equal(t, "to myself", string(a.memory[1000:1009]))
	a.rail.Disconnect(time.Now(), id)
	until(t, "down", a.isDown(id), a)
	require.ErrorIs(t, a.downs[id], net.ErrClosed)
}

func TestLostAndDoubledDatagrams(t *testing.T) {
	for name, fault := range map[string]func(n int) int{
		"the first is lost":         func(n int) int { return min(n, 1) },
		"the first three are lost":  func(n int) int { return n / 3 },
		"every second is lost":      func(n int) int { return n % 2 },
		"all are doubled":           func(int) int { return 2 },
		"every second four times":   func(n int) int { return 1 + 3*(n%2) },
		"one lost, the next double": func(n int) int { return 2 * (n % 2) },
	} {
		t.Run(name, func(t *testing.T) {
			var cfg verbsrail.Config
			cfg.SetFault(fault)
			cfg.HandshakeInterval = 20 * time.Millisecond
			a, b := newEngine(t, cfg), newEngine(t, cfg)
			atA, atB := connect(t, a, b)
			require.Len(t, a.ups, 1)
			require.Len(t, b.ups, 1)
			a.post(atA, withImm(a.write(1, 0, b.remote(), 0, 100), 5))
			b.post(atB, withImm(b.write(1, 200, a.remote(), 200, 100), 6))
			until(t, "writes", func() bool { return len(a.immediates)+len(b.immediates) == 2 }, a, b)
			require.Empty(t, a.downs)
			require.Empty(t, b.downs)
		})
	}
}

func TestNobodyAnswers(t *testing.T) {
	a, b := newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{})
	id, err := a.rail.Connect(time.Now(), b.rail.Address(), time.Now().Add(300*time.Millisecond))
	require.NoError(t, err)
	until(t, "down", a.isDown(id), a) // b takes no turns
	require.ErrorIs(t, a.downs[id], rail.ErrUnreachable)
	require.Zero(t, a.rail.Connections())
	until(t, "b forgets", func() bool { return b.rail.Connections() == 0 }, a, b) // a answers that it gave up
	require.Empty(t, b.ups)
}

func TestNoRoomForAPeer(t *testing.T) {
	small := verbsrail.Config{CompletionDepth: 384 + 2*560 - 1} // for one, not for two
	a, b, c := newEngine(t, small), newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{})
	connect(t, a, b)
	// The device may grant a deeper queue than was asked for: peers until there is no room.
	_, err := a.rail.Connect(time.Now(), a.rail.Address(), time.Now().Add(rdmatest.Deadline(patience)))
	for err == nil && a.rail.Connections() < 3 {
		_, err = a.rail.Connect(time.Now(), c.rail.Address(), time.Now().Add(rdmatest.Deadline(patience)))
	}
	require.ErrorContains(t, err, "no room for another peer: each takes 560 of the completion queue's")
	d := newEngine(t, verbsrail.Config{})
	id, err := d.rail.Connect(time.Now(), a.rail.Address(), time.Now().Add(rdmatest.Deadline(patience)))
	require.NoError(t, err)
	until(t, "refused", d.isDown(id), a, d)
	require.ErrorIs(t, d.downs[id], rail.ErrRefused)
	require.ErrorContains(t, d.downs[id], "no room")
}

func TestHandshakeSurvivesItsQueuePair(t *testing.T) {
	a, b := newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{})
	address := b.rail.Address()
	require.NoError(t, b.rail.BreakDatagrams())
	connect(t, a, b)
	require.Equal(t, address, b.rail.Address())
}

func TestWhatArrivesOnTheConnectionProvesIt(t *testing.T) {
	var cfg verbsrail.Config
	cfg.SetFault(func(n int) int { return max(0, 1-n) }) // the first datagram is the last
	a, b := newEngine(t, cfg), newEngine(t, verbsrail.Config{})
	id, err := a.rail.Connect(time.Now(), b.rail.Address(), time.Now().Add(rdmatest.Deadline(patience)))
	require.NoError(t, err)
	until(t, "a is up", func() bool { return a.isUp(id) }, a, b)
	require.Empty(t, b.ups)
	a.post(id, withImm(a.write(1, 0, b.remote(), 0, 10), 5))
	until(t, "the immediate", func() bool { return len(b.immediates) == 1 }, a, b)
	require.Equal(t, b.ups, []rail.PeerID{b.immediates[0].Peer})
}

func TestTurnIsDueAfterWhatWasAsked(t *testing.T) {
	a, b := newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{})
	id, err := a.rail.Connect(time.Now(), b.rail.Address(), time.Now().Add(rdmatest.Deadline(patience)))
	require.NoError(t, err)
	require.True(t, a.rail.Arm())
	until(t, "nothing to do", func() bool { return a.turn() == 0 && !a.rail.Arm() }) // b takes no turns
	a.rail.Disconnect(time.Now(), id)                                                // completes nothing
	require.True(t, a.rail.Arm())
	until(t, "down", a.isDown(id), a)
}

func TestWaitEndsWhenSomethingArrives(t *testing.T) {
	a, b := newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{})
	atA, _ := connect(t, a, b)
	until(t, "nothing to do", func() bool { return b.turn() == 0 && !b.rail.Arm() }, a)
	a.post(atA, withImm(a.write(1, 0, b.remote(), 0, 10), 5))
	require.NoError(t, b.rail.Wait(rdmatest.Context(t, patience)))
	until(t, "the immediate", func() bool { return len(b.immediates) == 1 }, b)
}

func TestBadAddresses(t *testing.T) {
	a := newEngine(t, verbsrail.Config{})
	for _, address := range [][]byte{nil, []byte("nonsense"), a.rail.Address()[:20], make([]byte, rail.MaxAddress)} {
		_, err := a.rail.Connect(time.Now(), address, time.Now().Add(rdmatest.Deadline(patience)))
		require.ErrorContains(t, err, "rail address: ", "%x", address)
	}
}

func TestBadConfigs(t *testing.T) {
	rdmatest.Require(t, rdmatest.Verbs)
	index := 250
	for want, cfg := range map[string]verbsrail.Config{
		"WriteDepth is 3: 4 to 32768 are possible":        {WriteDepth: 3},
		"Immediates is 32769: 2 to 32768 are possible":    {Immediates: 1<<15 + 1},
		"PeerTimeout of 2s is less than three times":      {PeerTimeout: 2 * time.Second},
		"Heartbeat is -1ns: it cannot be negative":        {Heartbeat: -1},
		"only 7, without end, survives a pause":           withRNRRetry(3),
		"a completion queue of 100 has no room for one":   {CompletionDepth: 100},
		"CompletionDepth is -1":                           {CompletionDepth: -1},
		"has no GID at index 250: no usable GID":          {GIDIndex: &index},
		"query port 9 of " + rdmatest.Device(t):           {Port: 9},
		fmt.Sprintf("no such RDMA device: %s", "absent0"): {Device: "absent0"},
	} {
		if cfg.Device == "" {
			cfg.Device = rdmatest.Device(t)
		}
		_, err := cfg.Open(rail.Incarnation{})
		require.ErrorContains(t, err, want)
	}
}

func withRNRRetry(n uint8) (cfg verbsrail.Config) {
	cfg.Connection.RNRRetry = n
	return cfg
}
