package verbsrail_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/verbsrail"
)

func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed)
	}
}

func TestWriteSizes(t *testing.T) {
	a, b := newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{})
	id, _ := connect(t, a, b)
	sizes := []int{0, 1, 3, 8, 4095, 4096, 4097, 1023, 1024, 1025, 3*4096 + 13, 1 << 19}
	for i, size := range sizes {
		for _, imm := range []bool{false, true} {
			clear(b.memory)
			fill(a.memory, i)
			token := uint64(2*i + 1)
			w := a.write(token, 17, b.remote(), 33, size)
			if imm {
				token++
				w = withImm(w, uint32(token))
				w.Token = token
			}
			a.post(id, w)
			until(t, "a write", func() bool {
				_, done := a.done[token]
				return done && (!imm || len(b.immediates) == i+1)
			}, a, b)
			require.NoError(t, a.done[token])
			require.Equal(t, a.memory[17:17+size], b.memory[33:33+size], "%d bytes", size)
			require.Equal(t, make([]byte, 100), b.memory[33+size:][:100], "nothing behind %d bytes", size)
		}
	}
	for i, ev := range b.immediates {
		require.Equal(t, uint32(2*i+2), ev.Imm)
		require.Equal(t, b.ups[0], ev.Peer)
	}
}

func TestManyWritesInFlight(t *testing.T) {
	a, b := newEngine(t, verbsrail.Config{WriteDepth: 64}), newEngine(t, verbsrail.Config{})
	id, _ := connect(t, a, b)
	const many, size = 3000, 300
	fill(a.memory, 3)
	refused := 0
	for posted := 0; posted < many; {
		var batch []rail.Op
		for i := posted; i < min(posted+100, many); i++ {
			w := a.write(uint64(i), i*size, b.remote(), i*size, size)
			if i%3 == 0 {
				w = withImm(w, uint32(i))
			}
			batch = append(batch, w)
		}
		n, err := a.rail.Post(id, batch)
		require.NoError(t, err)
		require.LessOrEqual(t, n, 64)
		if n < len(batch) {
			refused++
		}
		posted += n
		a.turn()
		b.turn()
	}
	require.Positive(t, refused)
	until(t, "all", func() bool { return a.completed == many && len(b.immediates) == many/3 }, a, b)
	for i, token := range a.order {
		require.Equal(t, uint64(i), token)
		require.NoError(t, a.done[token])
	}
	require.Equal(t, a.memory[:many*size], b.memory[:many*size])
}

func TestMoreImmediatesThanGranted(t *testing.T) {
	a, b := newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{Immediates: 8})
	id, _ := connect(t, a, b)
	const many = 500
	var batch []rail.Op
	for i := range 100 {
		batch = append(batch, withImm(a.write(uint64(i), 0, b.remote(), 0, i), uint32(i)))
	}
	n, err := a.rail.Post(id, batch)
	require.NoError(t, err)
	require.Equal(t, 8, n)
	until(t, "what was granted", func() bool { return a.completed == 8 }, a) // b takes no turns
	for range 100 {
		a.turn()
		n, err = a.rail.Post(id, batch[8:])
		require.NoError(t, err)
		require.Zero(t, n)
	}
	n, err = a.rail.Post(id, []rail.Op{a.write(1000, 0, b.remote(), 0, 8)})
	require.NoError(t, err)
	require.Equal(t, 1, n, "a write without immediate needs no credit")

	posted := 8
	for end := time.Now().Add(rdmatest.Deadline(patience)); len(b.immediates) < many; {
		require.True(t, time.Now().Before(end))
		var more []rail.Op
		for i := posted; i < min(posted+20, many); i++ {
			more = append(more, withImm(a.write(uint64(i), 0, b.remote(), 0, 4), uint32(i)))
		}
		n, err := a.rail.Post(id, more)
		require.NoError(t, err)
		posted += n
		a.turn()
		b.turn()
	}
	for i, ev := range b.immediates {
		require.Equal(t, uint32(i), ev.Imm)
	}
	require.Empty(t, a.downs)
}

func TestEventsThatDoNotFitAreHeldBack(t *testing.T) {
	a, b := newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{})
	id, _ := connect(t, a, b)
	var batch []rail.Op
	for i := range 50 {
		batch = append(batch, withImm(a.write(uint64(i), 0, b.remote(), 0, 4), uint32(i)))
	}
	a.post(id, batch...) // one completion
	for end := time.Now().Add(rdmatest.Deadline(patience)); a.completed < 50 || len(b.immediates) < 50; {
		require.True(t, time.Now().Before(end))
		for _, e := range []*engine{a, b} {
			var one [1]rail.Event
			if n, _ := e.rail.Turn(time.Now(), one[:]); n == 1 {
				require.NoError(t, e.note(one[0]))
			}
		}
	}
	n, _ := a.rail.Turn(time.Now(), nil)
	require.Zero(t, n)
	for i, token := range a.order {
		require.Equal(t, uint64(i), token)
	}
}

func TestWritesThatCannotBePosted(t *testing.T) {
	a, b := newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{})
	id, _ := connect(t, a, b)
	good := a.write(1, 0, b.remote(), 0, 8)
	long, wide, wideRemote := good, good, good
	long.Length = a.rail.Caps().MaxLength + 1
	wide.LocalKey = 1 << 32
	wideRemote.RemoteKey = 1 << 32
	for i, bad := range []rail.Op{long, wide, wideRemote} {
		good.Token = uint64(i)
		n, err := a.rail.Post(id, []rail.Op{good, bad, good})
		require.Error(t, err)
		require.Equal(t, 1, n)
	}
	until(t, "the good ones", func() bool { return a.completed == 3 }, a, b)
	_, err := a.rail.Post(99, []rail.Op{good})
	require.ErrorContains(t, err, "peer 99: peer is not up")
	require.Empty(t, a.downs)
}

// requireAllOnce checks that each of n writes, of tokens from 0 on, completed.
func requireAllOnce(t *testing.T, e *engine, n int) (failed int) {
	t.Helper()
	require.Equal(t, n, e.completed)
	for token := range uint64(n) {
		err, done := e.done[token]
		require.True(t, done, "token %d", token)
		if err != nil {
			failed++
		}
	}
	return failed
}

func TestRefusedByThePeersMemory(t *testing.T) {
	for name, spoil := range map[string]func(*rail.Op){
		"key":    func(w *rail.Op) { w.RemoteKey ^= 0x5500 },
		"bounds": func(w *rail.Op) { w.RemoteAddr += memorySize - 100 },
	} {
		t.Run(name, func(t *testing.T) {
			patient := verbsrail.Config{DrainTimeout: time.Hour}
			a, b := newEngine(t, patient), newEngine(t, patient)
			id, atB := connect(t, a, b)
			var batch []rail.Op
			for i := range 20 {
				batch = append(batch, a.write(uint64(i), 0, b.remote(), 0, 1000))
			}
			spoil(&batch[10])
			a.post(id, batch...)
			until(t, "down at both", func() bool { return a.isDown(id)() && b.isDown(atB)() }, a, b)
			requireAllOnce(t, a, 20)
			for token := range uint64(10) {
				require.NoError(t, a.done[token])
			}
			require.ErrorIs(t, a.done[10], rail.ErrAccess)
			require.ErrorContains(t, a.done[10], "or its process is ending")
			for token := uint64(11); token < 20; token++ {
				require.ErrorIs(t, a.done[token], rail.ErrFlushed)
			}
			require.ErrorIs(t, a.downs[id], rail.ErrAccess)
			require.ErrorIs(t, b.downs[atB], rail.ErrPeerGone)
			id, _ = connect(t, a, b) // and again
			a.post(id, withImm(a.write(100, 0, b.remote(), 0, 8), 9))
			until(t, "a write after it", func() bool { return len(b.immediates) == 1 }, a, b)
		})
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	a, b := newEngine(t, verbsrail.Config{}), newEngine(t, verbsrail.Config{})
	id, _ := connect(t, a, b)
	batch := make([]rail.Op, 16)
	var eventsA, eventsB [64]rail.Event
	now := time.Now()
	round := func() {
		for i := range batch {
			batch[i] = withImm(a.write(1, 0, b.remote(), 0, 64), uint32(i))
		}
		posted, completed, immediates := 0, 0, 0
		for completed < len(batch) || immediates < len(batch) {
			n, err := a.rail.Post(id, batch[posted:])
			if err != nil {
				panic(err)
			}
			posted += n
			n, _ = a.rail.Turn(now, eventsA[:])
			completed += n
			n, _ = b.rail.Turn(now, eventsB[:])
			immediates += n
		}
	}
	require.Zero(t, testing.AllocsPerRun(100, round))
}
