package transferengine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

// starved is a pair whose sender has credit for so many immediates, and whose receiver takes no turns until the test has it go on.
func starved(t *testing.T, credit int) *pair {
	return newPairIn(newWorld(t, simrail.Config{Immediates: credit, MaxLength: 64}), 1024, transferengine.Config{})
}

// sendFor sends n writes with the immediate, and has the sender alone take turns for a time.
func (p *pair) sendFor(n int, imm uint32, d time.Duration) (failed int) {
	p.t.Helper()
	transfers := make([]transferengine.Transfer, n)
	for i := range transfers {
		w := transferengine.Write{Peer: p.toB, Dest: &p.descriptor, Imm: imm, HasImm: true, Timeout: d / 2}
		require.NoError(p.t, p.a.Write(&transfers[i], w))
	}
	for end := p.Now().Add(d); p.Now().Before(end); p.Advance(time.Millisecond) {
		p.a.Turn(p.Now())
	}
	for i := range transfers {
		require.True(p.t, transfers[i].Finished())
		if transfers[i].Err() != nil {
			failed++
		}
	}
	return failed
}

// forget has the receiver forget the value.
func (p *pair) forget(imm uint32) (ended func() (bool, error)) {
	p.t.Helper()
	ended, err := p.b.StartForget(p.b.Counter(imm), p.toA)
	require.NoError(p.t, err)
	return ended
}

func (p *pair) requireSpoiled(err error, acknowledged, never, unknown uint64) {
	p.t.Helper()
	var spoiled *transferengine.SpoiledError
	require.ErrorAs(p.t, err, &spoiled)
	require.ErrorIs(p.t, err, transferengine.ErrSpoiled)
	require.Same(p.t, p.toA, spoiled.Peer)
	require.Equal(p.t, []uint64{acknowledged, never, unknown},
		[]uint64{spoiled.Acknowledged, spoiled.NeverPosted, spoiled.Unknown})
}

// TestReceiverIsToldOfImmediatesThatAreNotSent and neither side counts a repetition with what came before.
func TestReceiverIsToldOfImmediatesThatAreNotSent(t *testing.T) {
	const imm = 7
	p := starved(t, 4)
	wait := p.b.Counter(imm).StartWait(8, p.toA)
	require.False(t, wait.Met())
	require.Equal(t, 4, p.sendFor(8, imm, 20*time.Millisecond), "those for which there was no credit")
	start := p.Now()
	p.settle()
	require.Less(t, p.Now().Sub(start), time.Second)
	took, err := p.b.Counter(imm).TryTake(8, p.toA)
	require.False(t, took)
	p.requireSpoiled(err, 0, 4, 0)
	var missing *transferengine.MissingError
	require.ErrorAs(t, err, &missing)
	require.EqualValues(t, 4, missing.Missing[0].Count)
	require.True(t, wait.Met(), "who waited has been told")

	var tr transferengine.Transfer
	again := transferengine.Write{Peer: p.toB, Dest: &p.descriptor, Imm: imm, HasImm: true}
	require.ErrorIs(t, p.a.Write(&tr, again), transferengine.ErrSpoiled)
	other := again
	other.Imm++
	require.NoError(t, p.a.Write(&tr, other), "another value")
	p.settle()
	other.HasImm = false
	require.NoError(t, p.a.Write(&tr, other), "none")
	p.settle()

	ended := p.forget(imm)
	p.settle()
	done, err := ended()
	require.True(t, done)
	require.NoError(t, err)
	require.Zero(t, p.b.Counter(imm).Value())
	require.EqualValues(t, 4, p.b.Stats().ImmediatesDropped)
	for range 2 {
		require.NoError(t, p.a.Write(&tr, again))
		p.settle()
		require.NoError(t, tr.Err())
	}
	require.EqualValues(t, 2, p.b.Counter(imm).Value(p.toA), "of the repetition alone")
	require.EqualValues(t, 1, p.b.Counter(imm+1).Value(p.toA))
	require.Zero(t, p.a.Stats().Stray+p.b.Stats().Stray)
}

// TestShardsOfAFailedRequest: its immediates are told apart.
func TestShardsOfAFailedRequest(t *testing.T) {
	p := starved(t, 4)
	var tr transferengine.Transfer
	w := p.all(3)
	w.Shards, w.Timeout = 8, 5*time.Millisecond
	require.NoError(t, p.a.Write(&tr, w))
	for range 20 {
		p.Advance(time.Millisecond)
		p.a.Turn(p.Now())
	}
	require.Error(t, tr.Err())
	p.settle()
	_, err := p.b.Counter(3).TryTake(8, p.toA)
	p.requireSpoiled(err, 4, 4, 0)
}

// TestWhatIsUnknownLastsAsLongAsTheConnection does.
func TestWhatIsUnknownLastsAsLongAsTheConnection(t *testing.T) {
	broken := errors.New("not acknowledged")
	fifth := func(o simrail.Operation) (f simrail.Fault) {
		if o.N == 4 {
			f.Err, f.Delivered = broken, true
		}
		return f
	}
	p := newPairIn(newWorld(t, simrail.Config{Script: simrail.Script{Operation: fifth}}), 64, transferengine.Config{})
	require.Equal(t, 1, p.sendFor(8, 7, 20*time.Millisecond))
	p.settle()
	_, err := p.b.Counter(7).TryTake(9, p.toA)
	p.requireSpoiled(err, 0, 0, 1)
	ended := p.forget(7)
	p.settle()
	done, _ := ended()
	require.False(t, done, "the fifth could come yet")
	require.EqualValues(t, 8, p.b.Counter(7).Value())
	require.NoError(t, p.toB.Close())
	p.settle()
	done, err = ended()
	require.True(t, done)
	require.NoError(t, err)
	require.Zero(t, p.b.Counter(7).Value())
	ended = p.forget(7)
	p.settle()
	done, _ = ended()
	require.True(t, done, "nothing is left to forget")
}

// TestForgetAfterTheConnection takes away what came of it.
func TestForgetAfterTheConnection(t *testing.T) {
	p := starved(t, 4)
	require.Equal(t, 2, p.sendFor(6, 7, 20*time.Millisecond))
	p.settle()
	require.NoError(t, p.toB.Close())
	p.settle()
	require.EqualValues(t, 4, p.b.Counter(7).Value())
	ended := p.forget(7)
	p.settle()
	done, err := ended()
	require.True(t, done)
	require.NoError(t, err)
	require.Zero(t, p.b.Counter(7).Value())
}

// TestForgetWaitsForWhatIsUnderWay: a request of the value that did not fail is settled before.
func TestForgetWaitsForWhatIsUnderWay(t *testing.T) {
	slow := func(o simrail.Operation) (f simrail.Fault) {
		if o.N == 0 {
			f.Delay = time.Second
		}
		return f
	}
	p := newPairIn(newWorld(t, simrail.Config{Immediates: 1, Script: simrail.Script{Operation: slow}}), 64, transferengine.Config{})
	var first, second transferengine.Transfer
	w := transferengine.Write{Peer: p.toB, Dest: &p.descriptor, Imm: 7, HasImm: true, Timeout: 10 * time.Second}
	require.NoError(t, p.a.Write(&first, w))
	w.Timeout = 5 * time.Millisecond
	require.NoError(t, p.a.Write(&second, w))
	p.until(func() bool { return second.Finished() })
	require.Error(t, second.Err())
	require.False(t, first.Finished())
	p.until(func() bool { _, err := p.b.Counter(7).TryTake(2, p.toA); return err != nil })
	ended := p.forget(7)
	p.until(func() bool { done, _ := ended(); return done })
	require.True(t, first.Finished(), "its immediate is one of those that are forgotten")
	require.Zero(t, p.b.Counter(7).Value())
	p.settle()
	require.Zero(t, p.b.Counter(7).Value())
}

// TestAWaitForATotal fails when nobody is left who could send the value.
func TestAWaitForATotal(t *testing.T) {
	p := starved(t, 4)
	c := p.open(transferengine.Config{})
	_, bToC := p.connect(c, p.b)
	require.Equal(t, 2, p.sendFor(6, 7, 20*time.Millisecond))
	p.settle()
	took, err := p.b.Counter(7).TryTake(6)
	require.NoError(t, err, "the other peer may send it")
	require.False(t, took)
	require.NoError(t, bToC.Close())
	p.settle()
	_, err = p.b.Counter(7).TryTake(6)
	p.requireSpoiled(err, 0, 2, 0)
	took, err = p.b.Counter(7).TryTake(4)
	require.NoError(t, err)
	require.True(t, took, "as many as there are")
}

// TestForgetIsForWhatIsSpoiled.
func TestForgetIsForWhatIsSpoiled(t *testing.T) {
	p := newPair(t, 64, transferengine.Config{})
	require.Zero(t, p.sendFor(3, 7, 20*time.Millisecond))
	p.settle()
	ended := p.forget(7)
	p.settle()
	done, err := ended()
	require.True(t, done)
	require.NoError(t, err)
	require.EqualValues(t, 3, p.b.Counter(7).Value())
	require.Error(t, p.b.Counter(7).Forget(soon(t), p.toB), "another engine's peer")
	require.Error(t, p.b.Counter(7).Forget(soon(t), nil))
}

// TestFailuresAreBounded: a receiver that never forgets costs no more than Config.MaxImmediates.
func TestFailuresAreBounded(t *testing.T) {
	w := newWorld(t, simrail.Config{Immediates: 1})
	p := newPairIn(w, 64, transferengine.Config{MaxImmediates: 4})
	for imm := uint32(0); p.toB.Err() == nil && imm < 10; imm++ {
		p.sendFor(2, imm, 4*time.Millisecond)
	}
	require.ErrorContains(t, p.toB.Err(), "requests with more than 4 distinct immediates to it have failed that it has not forgotten")
	p.settle()
}

// TestRepetitionsAfterFailures fails requests at random on a network without order, forgets and repeats them, and counts.
func TestRepetitionsAfterFailures(t *testing.T) {
	w := newWorld(t, simrail.Config{Delay: time.Millisecond, Immediates: 8, PartialPosts: true, MaxLength: 100})
	p := newPairIn(w, 4096, transferengine.Config{MaxImmediates: 1000})
	const values = 3
	whole := make([]int, values)
	for round := range 200 {
		imm := uint32(p.random.IntN(values))
		request := p.all(imm)
		request.Shards = 1 + p.random.IntN(12)
		request.Length = p.random.Uint64N(4096)
		request.Timeout = time.Duration(1+p.random.IntN(8)) * time.Millisecond
		w.network.Exhaust("192.0.2.2", p.random.IntN(2) == 0)
		var tr transferengine.Transfer
		require.NoError(t, p.a.Write(&tr, request), "round %d", round)
		p.until(tr.Finished)
		w.network.Exhaust("192.0.2.2", false)
		p.settle()
		if p.toB.Err() != nil { // something was in flight at its deadline
			p.toB, p.toA = p.connect(p.a, p.b)
			clear(whole)
			continue
		}
		if tr.Err() == nil {
			whole[imm] += request.Shards
			require.EqualValues(t, whole[imm], p.b.Counter(imm).Value(p.toA), "round %d", round)
			continue
		}
		_, err := p.b.Counter(imm).TryTake(1000, p.toA)
		require.ErrorIs(t, err, transferengine.ErrSpoiled, "round %d: %v", round, tr.Err())
		ended := p.forget(imm)
		p.settle()
		done, err := ended()
		require.True(t, done, "round %d", round)
		require.NoError(t, err)
		require.Zero(t, p.b.Counter(imm).Value(p.toA), "round %d", round)
		whole[imm] = 0
	}
	require.Zero(t, p.a.Stats().Stray+p.b.Stats().Stray)
}

// TestMessagesThatFitNothing are counted and change nothing.
func TestMessagesThatFitNothing(t *testing.T) {
	s := &sink{}
	p := toRail(t, s, false)
	forget := golden(t, "message-forget.golden")
	for _, data := range [][]byte{nil, []byte("WtMS"), forget[:20], forget, forget} { // the last one comes twice
		s.events = append(s.events, rail.Event{Kind: rail.Message, Peer: sinkPeer, Data: data})
	}
	s.events = append(s.events, rail.Event{Kind: rail.Message, Peer: 99, Data: forget})
	p.settle1(p.a)
	require.EqualValues(t, 6, p.a.Stats().Stray)
}
