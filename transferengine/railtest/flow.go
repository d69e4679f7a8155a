package railtest

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine/rail"
)

func manyInFlight(w *world) {
	a, b, atA, _ := w.pair()
	w.fill(a.memory)
	const many, size = 2000, 500
	ops := make([]rail.Op, many)
	for i := range ops {
		ops[i] = a.op(rail.Write, i*size, b.remote(), i*size, size)
		if i%3 == 0 {
			ops[i] = withImm(ops[i], uint32(i))
		}
	}
	a.postAll(atA, []*node{b}, ops...)
	w.until("all have completed", func() bool { return a.idle() && len(b.immediates) == (many+2)/3 }, a, b)
	require.Equal(w, many, len(a.done), "operations that completed")
	for token, err := range a.done {
		require.NoError(w, err, "operation %d", token)
	}
	w.requireBytes(a.memory[:many*size], b.memory[:many*size], "all operations have completed")
}

// fullQueues posts to a peer that takes no turns until nothing more is accepted, and again when the peer has caught up.
func fullQueues(w *world) {
	a, b, atA, _ := w.pair()
	posted, limit, many := 0, b.caps.MaxImmediates, 1<<13
	if w.suite.Virtual {
		many = 1 << 11
	}
	post := func() bool {
		took := a.post(atA, withImm(a.op(rail.Write, 0, b.remote(), 0, 64), uint32(posted)))
		posted += took
		return took == 1
	}
	fill := func() (more int) {
		before := posted
		for idle := 0; idle < 100; idle++ { // turns without anything accepted
			if post() {
				idle = 0
			}
			w.round([]*node{a})
			if more = posted - before; limit == 0 && more == 1<<12 {
				break
			}
			require.True(w, limit == 0 || more <= limit, "%d immediates are more than it takes in", more)
		}
		return more
	}
	first := fill()
	if limit > 0 {
		require.Equal(w, limit, first)
	}
	w.until("it goes on where it stopped", func() bool {
		for range w.random.IntN(16) {
			post()
		}
		return posted >= many
	}, a, b)
	caughtUp := func() bool { return len(b.immediates) == posted && a.idle() }
	w.until("all immediates", caughtUp, a, b)
	w.pass(20*time.Millisecond, a, b)
	require.Positive(w, fill(), "fewer than at first, if the peer grants in bulk")
	w.until("all immediates", caughtUp, a, b)
	require.Empty(w, a.downs)
}

// stoppedReceiver sends 10,000 immediates while the receiver takes no turns for a time.
func stoppedReceiver(w *world) {
	a, b, atA, _ := w.pair()
	const many = 10_000
	posted := uint32(0)
	send := func() {
		for range 64 {
			if posted == many || a.post(atA, withImm(a.op(rail.Write, 0, b.remote(), 0, 8), posted)) == 0 {
				return
			}
			posted++
		}
	}
	for end := w.now().Add(w.suite.Stop); w.now().Before(end); {
		send()
		a.turn()
		if w.suite.Virtual {
			w.clock = w.clock.Add(time.Millisecond)
		}
	}
	require.Less(w, len(b.immediates), 1)
	w.until("all immediates", func() bool { send(); return len(b.immediates) == many && a.idle() }, a, b)
	seen := make([]bool, many)
	for _, e := range b.immediates {
		require.False(w, seen[e.Imm], "immediate %d twice", e.Imm)
		seen[e.Imm] = true
	}
	require.Empty(w, a.downs)
	require.Empty(w, b.downs)
}

func eventsThatDoNotFit(w *world) {
	a, b := w.open(), w.open()
	a.events, b.events = a.events[:1], b.events[:1]
	atA, _ := w.connect(a, b)
	const many = 40
	ops := make([]rail.Op, many)
	for i := range ops {
		ops[i] = withImm(a.op(rail.Write, 0, b.remote(), 0, 4), uint32(i))
	}
	a.postAll(atA, []*node{b}, ops...)
	w.until("all events", func() bool { return a.idle() && len(b.immediates) == many }, a, b)
	n, _ := a.rail.Turn(w.now(), nil)
	require.Zero(w, n)
}

// asleep tells whether a rail has nothing to do and will notify.
func (n *node) asleep() bool {
	did, _ := n.turn()
	return did == 0 && !n.rail.Arm()
}

// awaitNotification waits in the rail, while others take turns.
func (n *node) awaitNotification(others ...*node) {
	n.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), n.suite.patience())
	defer cancel()
	woke := make(chan error, 1)
	go func() { woke <- n.rail.Wait(ctx) }()
	for len(woke) == 0 {
		n.round(others)
		runtime.Gosched()
	}
	require.NoError(n, <-woke)
}

// armingAndWaiting has a rail sleep until something comes, or there is room again.
func armingAndWaiting(w *world) {
	a, b, atA, _ := w.pair()
	imm := func() rail.Op { return withImm(a.op(rail.Write, 0, b.remote(), 0, 4), 1) }
	for i := range 20 {
		w.until("nothing to do", b.asleep, a)
		a.postAll(atA, nil, imm())
		b.awaitNotification(a)
		w.until("the immediate", func() bool { return len(b.immediates) == i+1 && a.idle() }, a, b)
	}
	room := func(take func() bool) {
		const most = 1 << 12 // a rail may have room without end
		for tried, refused := 0, 0; refused < 20; tried, refused = tried+1, refused+1 {
			if tried == most {
				return
			}
			if take() {
				refused = 0
			}
			w.round([]*node{a})
		}
		for w.until("nothing to do", a.asleep, a); !take(); w.until("nothing to do", a.asleep, a) {
			a.awaitNotification(b)
		}
	}
	room(func() bool { return a.post(atA, imm()) == 1 })
	room(func() bool { return a.send(atA, nil) })
	w.until("all have completed", a.idle, a, b)
	w.until("nothing to do", a.asleep, b)
	a.rail.Disconnect(w.now(), atA) // completes nothing, and yet there is something to do
	require.True(w, a.rail.Arm())
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for range 2 { // a notification may have been left
		_ = b.rail.Wait(ended)
	}
	require.Error(w, b.rail.Wait(ended))
}

// lookingWithoutATurn has a rail that can spin see what has come, and lose nothing by that.
func lookingWithoutATurn(w *world) {
	a, b, atA, _ := w.pair()
	spinner, can := b.rail.(rail.Spinner)
	if !can {
		return
	}
	for i := range 20 {
		w.until("nothing to do", b.asleep, a)
		a.postAll(atA, nil, withImm(a.op(rail.Write, 0, b.remote(), 0, 4), 1))
		var call atomic.Uint64
		w.until("it is seen", func() bool { return spinner.Spin(10*time.Microsecond, &call, 0) }, a)
		require.True(w, spinner.Spin(0, &call, 1), "it is there until the next turn, whoever calls")
		w.until("the immediate", func() bool { return len(b.immediates) == i+1 && a.idle() }, a, b)
	}
}

func messages(w *world) {
	a, b, atA, atB := w.pair()
	_, err := a.rail.Send(atA, make([]byte, a.caps.MaxSend+1))
	require.Error(w, err)
	_, err = a.rail.Send(1<<60, nil)
	require.Error(w, err)

	want := make(map[string]int)
	for i := range 300 { // while the other end takes no turns, until it takes no more
		m := make([]byte, []int{0, 1, a.caps.MaxSend, w.random.IntN(a.caps.MaxSend + 1)}[i%4])
		w.fill(m)
		if !a.send(atA, m) {
			require.Greater(w, i, 0, "one at least can be on its way")
			w.until("there is room again", func() bool { return a.send(atA, m) }, a, b)
		}
		want[string(m)]++
		clear(m) // the rail has copied it
	}
	require.True(w, b.send(atB, []byte("back")))
	w.until("all messages", func() bool { return len(b.messages) >= 300 && len(a.messages) == 1 }, a, b)
	w.pass(20*time.Millisecond, a, b)
	require.Equal(w, 300, len(b.messages), "messages")
	for _, e := range b.messages {
		require.Equal(w, atB, e.Peer)
		want[string(e.Data)]--
	}
	for m, n := range want {
		require.Zero(w, n, "a message of %d bytes", len(m))
	}
	require.Equal(w, "back", string(a.messages[0].Data))
}

func badPosts(w *world) {
	a, b, atA, _ := w.pair()
	good := func() rail.Op { return a.op(rail.Write, 0, b.remote(), 0, 8) }
	long, unknown, imm := good(), good(), withImm(a.op(rail.Read, 0, b.remote(), 0, 8), 1)
	long.Length = a.caps.MaxLength + 1
	unknown.Kind = 99
	for _, bad := range []rail.Op{long, unknown, imm} {
		ops, first := []rail.Op{good(), bad, good()}, a.token-1
		n, err := 0, error(nil)
		for range 100 { // as few at a time as it likes
			n, err = a.tryPost(atA, ops)
			if ops = ops[n:]; err != nil || len(ops) == 0 {
				break
			}
			w.round([]*node{a, b})
		}
		require.Error(w, err, "%+v", bad)
		require.Len(w, ops, 2, "those before it are accepted")
		w.until("the good one", a.idle, a, b)
		require.NoError(w, a.done[first])
	}
	n, err := a.rail.Post(1<<60, []rail.Op{good()})
	require.Error(w, err, "to nobody")
	require.Zero(w, n)
	require.Empty(w, a.downs)
}

// messagesAfterImmediates sends a message whenever some writes have completed.
func messagesAfterImmediates(w *world) {
	a, b, atA, _ := w.pair()
	completed := 0
	for round := range 50 {
		for range 1 + w.random.IntN(4) {
			o := withImm(a.op(rail.Write, 0, b.remote(), 0, w.random.IntN(1000)), uint32(round))
			require.NoError(w, a.do(atA, o, b))
			completed++
		}
		b.onMessage = func() { require.GreaterOrEqual(w, len(b.immediates), completed, "immediates before message %d", round) }
		w.until("there is room", func() bool { return a.send(atA, nil) }, a, b)
		w.until("the message", func() bool { return len(b.messages) == round+1 }, a, b)
	}
}
