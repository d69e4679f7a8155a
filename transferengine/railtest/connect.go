package railtest

import (
	"net"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine/rail"
)

func describesItself(w *world) {
	a, b := w.open(), w.open()
	require.Regexp(w, `^[a-z]+:.+`, a.rail.Name())
	require.Equal(w, kind(a), kind(b))
	require.NotEmpty(w, a.rail.Address())
	require.LessOrEqual(w, len(a.rail.Address()), rail.MaxAddress)
	require.NotEqual(w, a.rail.Address(), b.rail.Address())
	c := a.caps
	require.Positive(w, c.MaxLength)
	require.Positive(w, c.MaxBatch)
	require.GreaterOrEqual(w, c.MaxImmediates, 0)
	require.GreaterOrEqual(w, c.MaxSend, rail.MinSend)
	require.Contains(w, []rail.Completion{rail.Responsible, rail.Delivered}, c.Completion)
	require.NotZero(w, c.DeathBy)
	require.Positive(w, c.DeathWithin)
	require.Equal(w, c, a.rail.Caps())
}

func kind(n *node) string {
	k, _, _ := strings.Cut(n.rail.Name(), ":")
	return k
}

func connects(w *world) {
	a, b, atA, atB := w.pair()
	for _, end := range []struct {
		n     *node
		peer  rail.PeerID
		other *node
	}{{a, atA, b}, {b, atB, a}} {
		info := end.n.infos[end.peer]
		require.Equal(w, end.other.rail.Address(), info.Address)
		require.Equal(w, byte(0xee), info.Incarnation[15])
		require.NotEmpty(w, info.Name)
		require.Equal(w, end.peer, end.n.call(end.other.rail.Address()), "it is connected")
	}
	require.NotEqual(w, a.infos[atA].Incarnation, b.infos[atB].Incarnation)
	w.pass(100*time.Millisecond, a, b)
	require.Len(w, a.ups, 1)
	require.Len(w, b.ups, 1)
	copy(a.memory, "to b")
	copy(b.memory, "to a")
	require.NoError(w, a.do(atA, a.op(rail.Write, 0, b.remote(), 8, 4), b))
	require.NoError(w, b.do(atB, b.op(rail.Write, 0, a.remote(), 8, 4), a))
	require.Equal(w, "to b", string(b.memory[8:12]))
	require.Equal(w, "to a", string(a.memory[8:12]))
}

func connectsFromBothSides(w *world) {
	a, b := w.open(), w.open()
	atA, atB := a.call(b.rail.Address()), b.call(a.rail.Address())
	w.until("both ends are up", func() bool { return a.isUp(atA) && b.isUp(atB) }, a, b)
	require.NoError(w, a.do(atA, withImm(a.op(rail.Write, 0, b.remote(), 0, 8), 7), b))
	w.until("the immediate", func() bool { return len(b.immediates) == 1 }, a, b)
	if b.caps.ImmSource {
		require.Equal(w, atB, b.immediates[0].Peer)
	}
	w.pass(100*time.Millisecond, a, b)
	require.Equal(w, []rail.PeerID{atA}, a.ups)
	require.Equal(w, []rail.PeerID{atB}, b.ups)
	require.Empty(w, a.downs)
}

// expectedPeer is waited for, by nobody, by two and by one who then calls.
func expectedPeer(w *world) {
	const limit = 100 * time.Millisecond
	a, b := w.open(), w.open()
	expect := func(within time.Duration) rail.PeerID {
		id, err := a.rail.Expect(w.now(), b.rail.Address(), w.now().Add(within))
		require.NoError(w, err)
		return id
	}
	id := expect(limit)
	w.until("nobody came", func() bool { return a.isDown(id) }, a, b)
	require.ErrorIs(w, a.downs[id].Err, rail.ErrUnreachable)

	id = expect(limit)
	require.Equal(w, id, expect(w.suite.patience()), "it is expected until the later time")
	w.pass(2*limit, a, b)
	require.Empty(w, b.ups, "nothing is sent")
	require.Empty(w, a.ups)
	atB := b.call(a.rail.Address())
	w.until("both ends are up", func() bool { return a.isUp(id) && b.isUp(atB) }, a, b)
	require.Equal(w, id, expect(limit), "it is connected")
	require.NoError(w, a.do(id, a.op(rail.Write, 0, b.remote(), 0, 8), b))

	c := w.open()
	atC, err := c.rail.Expect(w.now(), a.rail.Address(), w.now().Add(w.suite.patience()))
	require.NoError(w, err)
	require.Equal(w, atC, c.call(a.rail.Address()))
	w.until("who expected calls", func() bool { return c.isUp(atC) }, a, c)
}

func loopsBack(w *world) {
	a := w.open()
	id := a.call(a.rail.Address())
	w.until("up", func() bool { return a.isUp(id) }, a)
	copy(a.memory, "to myself")
	require.NoError(w, a.do(id, withImm(a.op(rail.Write, 0, a.remote(), 1000, 9), 5)))
	w.until("the immediate", func() bool { return len(a.immediates) == 1 }, a)
	require.Equal(w, "to myself", string(a.memory[1000:1009]))
	require.Equal(w, []rail.PeerID{id}, a.ups)
	a.rail.Disconnect(w.now(), id)
	w.until("down", func() bool { return a.isDown(id) }, a)
	require.ErrorIs(w, a.downs[id].Err, net.ErrClosed)
}

// severalPeers has a rail with several peers, none of which is taken for another.
func severalPeers(w *world) {
	const peers, many, size = 5, 40, 1000
	center := w.open()
	w.fill(center.memory)
	all, fromCenter := []*node{center}, make([]rail.PeerID, peers)
	for i := range peers {
		n := w.open()
		w.fill(n.memory)
		all = append(all, n)
		var toCenter rail.PeerID
		toCenter, fromCenter[i] = w.connect(n, center)
		for j := range many {
			n.postAll(toCenter, all, withImm(n.op(rail.Write, j*size, center.remote(), (i*many+j)*size, size), uint32(i)))
		}
	}
	for i, n := range all[1:] {
		for j := range many {
			center.postAll(fromCenter[i], all, withImm(center.op(rail.Write, 0, n.remote(), many*size+j*8, 8), uint32(j)))
		}
	}
	w.until("all operations", func() bool {
		for _, n := range all[1:] {
			if !n.idle() || len(n.immediates) < many {
				return false
			}
		}
		return center.idle() && len(center.immediates) == peers*many
	}, all...)
	for _, e := range center.immediates {
		if center.caps.ImmSource {
			require.Equal(w, fromCenter[e.Imm], e.Peer, "who sent an immediate")
		}
	}
	for i, n := range all[1:] {
		w.requireBytes(n.memory[:many*size], center.memory[i*many*size:][:many*size], "of peer %d", i)
		require.Equal(w, many, len(n.immediates), "immediates at peer %d", i)
	}
}

func nobodyAnswers(w *world) {
	a, b := w.open(), w.open()
	address := b.rail.Address()
	require.NoError(w, b.close())
	const limit = 300 * time.Millisecond
	start := w.now()
	id, err := a.rail.Connect(start, address, start.Add(limit))
	if err == nil { // some know at once
		w.until("down", func() bool { return a.isDown(id) }, a)
		err = a.downs[id].Err
		require.Less(w, w.now().Sub(start), limit+w.suite.limit(slack))
	}
	require.ErrorIs(w, err, rail.ErrUnreachable)
	require.Empty(w, a.ups)
}

func disconnecting(w *world) {
	a, b, atA, atB := w.pair()
	a.rail.Disconnect(w.now(), 1<<60) // nobody
	a.rail.Disconnect(w.now(), atA)
	a.rail.Disconnect(w.now(), atA)
	w.until("lost", func() bool { return a.isLost(atA) }, a)
	_, lostErr := a.rail.Post(atA, nil)
	require.ErrorIs(w, lostErr, rail.ErrNotUp)
	w.until("down at both ends", func() bool { return a.isDown(atA) && b.isDown(atB) }, a, b)
	require.ErrorIs(w, a.downs[atA].Err, net.ErrClosed)
	require.ErrorIs(w, b.downs[atB].Err, rail.ErrPeerClosed)
	require.True(w, a.downs[atA].Proven, "nothing was posted")
	_, err := a.rail.Post(atA, []rail.Op{a.op(rail.Write, 0, b.remote(), 0, 8)})
	require.ErrorIs(w, err, rail.ErrNotUp)
	_, err = a.rail.Send(atA, []byte{1})
	require.ErrorIs(w, err, rail.ErrNotUp)
	_, err = a.rail.Send(atA, nil)
	require.Error(w, err)

	next, nextB := w.connect(b, a)
	require.NotEqual(w, atB, next)
	require.NotEqual(w, atA, nextB)
	require.NoError(w, b.do(next, b.op(rail.Write, 0, a.remote(), 0, 8), a))
}

func disconnectingInFlight(w *world) {
	a, b, atA, atB := w.pair()
	ops := make([]rail.Op, 200)
	for i := range ops {
		ops[i] = a.op(rail.Write, 0, b.remote(), 0, 100_000)
	}
	posted := a.post(atA, ops[:min(len(ops), a.caps.MaxBatch)]...)
	require.Positive(w, posted)
	a.rail.Disconnect(w.now(), atA)
	w.until("down at both ends", func() bool { return a.isDown(atA) && b.isDown(atB) }, a, b)
	require.Equal(w, posted, len(a.done), "operations that completed")
	require.ErrorIs(w, a.downs[atA].Err, net.ErrClosed)
}

// proof disconnects with operations in flight and looks at whether anything lands once it is said that nothing does.
func proof(w *world) {
	for range 20 {
		a, b := w.open(), w.open()
		w.fill(a.memory)
		atA, _ := w.connect(a, b)
		ops := make([]rail.Op, min(16, a.caps.MaxBatch))
		for i := range ops {
			ops[i] = a.op(rail.Write, 0, b.remote(), i*10_000, 10_000)
		}
		require.Positive(w, a.post(atA, ops...))
		a.rail.Disconnect(w.now(), atA)
		w.until("down", func() bool { return a.isDown(atA) }, a, b)
		if a.caps.CancelProof {
			require.True(w, a.downs[atA].Proven, "the peer is alive: %v", a.downs[atA].Err)
		}
		if a.downs[atA].Proven {
			clear(b.memory)
			w.pass(50*time.Millisecond, a, b)
			w.requireBytes(make([]byte, len(b.memory)), b.memory, "something landed")
		}
		require.NoError(w, a.close())
		require.NoError(w, b.close())
	}
}

// landsNoMore has a peer write to a rail that gives it up.
func landsNoMore(w *world) {
	for range 20 {
		a, b, atA, atB := w.pair()
		w.fill(b.memory)
		ops := make([]rail.Op, 16)
		for i := range ops {
			ops[i] = b.op(rail.Write, i*10_000, a.remote(), i*10_000, 10_000)
		}
		require.Positive(w, b.post(atB, ops...))
		for range w.random.IntN(4) {
			w.round([]*node{a, b})
		}
		a.rail.Disconnect(w.now(), atA)
		w.until("down", func() bool { return a.isDown(atA) }, a, b)
		clear(a.memory)
		w.pass(50*time.Millisecond, a, b)
		w.requireBytes(make([]byte, len(a.memory)), a.memory, "something landed after the peer was down")
		w.until("down at the other end", func() bool { return b.isDown(atB) }, a, b)
		require.NoError(w, a.close())
		require.NoError(w, b.close())
	}
}

// acknowledgedArrive gives up a peer whose immediates nobody has looked at. Those that the peer was told are in place are reported all
// the same, before it is down.
func acknowledgedArrive(w *world) {
	for round := range 5 {
		a, b, atA, atB := w.pair()
		many := 64
		if window := a.caps.MaxImmediates; window > 0 {
			many = min(many, window)
		}
		for i := range many {
			b.postAll(atB, nil, withImm(b.op(rail.Write, 0, a.remote(), 0, 8), uint32(i)))
		}
		w.pass(20*time.Millisecond, b)
		acknowledged := 0
		for _, err := range b.done {
			if err == nil {
				acknowledged++
			}
		}
		if round%2 == 0 {
			a.rail.Disconnect(w.now(), atA)
		} else { // an error of this end's is what it sees first
			op := a.op(rail.Write, 0, b.remote(), 0, 8)
			op.RemoteKey ^= 0x55
			require.Equal(w, 1, a.post(atA, op))
			w.pass(5*time.Millisecond, b)
			a.turn()
			a.rail.Disconnect(w.now(), atA)
		}
		w.until("down", func() bool { return a.isDown(atA) }, a, b)
		require.GreaterOrEqual(w, len(a.immediates), acknowledged, "immediates that the peer was told are in place")
		require.NoError(w, a.close())
		require.NoError(w, b.close())
	}
}

func closing(w *world) {
	a, b, atA, atB := w.pair()
	require.NoError(w, a.do(atA, a.op(rail.Write, 0, b.remote(), 0, 8), b))
	empty := withImm(b.op(rail.Write, 0, a.remote(), 0, 0), 1)
	require.Positive(w, b.post(atB, empty))
	require.NoError(w, b.close())
	start := w.now()
	w.until("the peer notices", func() bool { return a.isDown(atA) }, a)
	w.requireLost(a.downs[atA])
	require.LessOrEqual(w, w.now().Sub(start), a.caps.DeathWithin+w.suite.limit(slack))
}

// slack is what a wait may take beyond what was promised: the machine may be emulated, and shared.
const slack = 5 * time.Second
