package simrail_test

import (
	"math/rand/v2"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

// ends is rails of a network without engines, under a virtual clock.
type ends struct {
	t       *testing.T
	network *simrail.Network
	now     time.Time
	rails   []rail.Rail
	events  map[rail.Rail][]rail.Event
}

func newEnds(t *testing.T, config simrail.Config, addresses ...string) *ends {
	if config.Seed == 0 {
		config.Seed = rdmatest.Seed(t)
	}
	e := &ends{t: t, network: simrail.NewNetwork(config), now: time.Unix(1e9, 0), events: make(map[rail.Rail][]rail.Event)}
	for i, address := range addresses {
		r, err := e.network.Rail(address).Open(rail.Incarnation{byte(i)})
		require.NoError(t, err)
		e.rails = append(e.rails, r)
		t.Cleanup(func() { require.NoError(t, r.Close()) })
	}
	return e
}

// turn has all rails take turns at the time, until nothing more happens then, and returns when they are due next.
func (e *ends) turn() (next time.Time) {
	for quiet := 0; quiet < 2; quiet++ {
		for _, r := range e.rails {
			events := make([]rail.Event, 8)
			var n int
			if n, next = r.Turn(e.now, events); n > 0 {
				quiet = 0
			}
			e.events[r] = append(e.events[r], events[:n]...)
		}
	}
	return next
}

// settle goes on until nothing is left to happen.
func (e *ends) settle() {
	for range 1000 {
		next := e.turn()
		if next.IsZero() {
			return
		}
		e.now = next
	}
	e.t.Fatal("there is still something to do after 1000 turns")
}

func (e *ends) connect(from, to rail.Rail, within time.Duration) rail.PeerID {
	id, err := from.Connect(e.now, to.Address(), e.now.Add(within))
	require.NoError(e.t, err)
	return id
}

// only returns the events of one kind.
func (e *ends) only(r rail.Rail, kind rail.EventKind) (found []rail.Event) {
	for _, event := range e.events[r] {
		if event.Kind == kind {
			found = append(found, event)
		}
	}
	return found
}

// word is registered memory of 8 bytes.
type word struct {
	rail.Registration
	bytes []byte
}

func (e *ends) word(r rail.Rail) word {
	w := word{bytes: make([]byte, 8)}
	var err error
	w.Registration, err = r.Register(w.bytes, rail.RemoteWrite)
	require.NoError(e.t, err)
	e.t.Cleanup(func() { require.NoError(e.t, w.Close()) })
	return w
}

func write(from, to word) rail.Op {
	return rail.Op{Kind: rail.Write, LocalAddr: mem.Addr(from.bytes), LocalKey: from.LocalKey(),
		RemoteAddr: to.RemoteAddr(), RemoteKey: to.RemoteKey(), Length: 8}
}

// TestOrderSurvivesACut heals a cut while some of what was sent waits for that and some is still on its way.
func TestOrderSurvivesACut(t *testing.T) {
	seed := rdmatest.Seed(t)
	for i := range uint64(20) {
		e := newEnds(t, simrail.Config{Seed: seed + i, Ordered: true, Delay: time.Millisecond, DeathWithin: time.Hour},
			addressA, addressB)
		a, b := e.rails[0], e.rails[1]
		to := e.connect(a, b, time.Minute)
		e.settle()
		dest := e.word(b)
		post := func(imm uint32) {
			n, err := a.Post(to, []rail.Op{{RemoteAddr: dest.RemoteAddr(), RemoteKey: dest.RemoteKey(), Imm: imm, HasImm: true}})
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		for imm := range uint32(50) {
			switch imm {
			case 20:
				e.network.Cut(addressA, addressB)
			case 40:
				e.network.Heal(addressA, addressB)
			}
			post(imm)
			e.now = e.now.Add(100 * time.Microsecond)
			e.turn()
		}
		e.settle()
		immediates := e.only(b, rail.Immediate)
		require.Len(t, immediates, 50)
		for i, event := range immediates {
			require.EqualValues(t, i, event.Imm)
		}
	}
}

// TestACallGoesOnThroughACut until its deadline: who calls knows of nobody yet that could be lost.
func TestACallGoesOnThroughACut(t *testing.T) {
	for _, heals := range []bool{true, false} {
		e := newEnds(t, simrail.Config{Delay: time.Millisecond}, addressA, addressB)
		a, b := e.rails[0], e.rails[1]
		start := e.now
		id := e.connect(a, b, time.Minute)
		e.network.Cut(addressA, addressB)
		for next := e.turn(); next.After(e.now) && next.Before(start.Add(time.Second)); next = e.turn() {
			e.now = next
		}
		require.Empty(t, e.events[a])
		if heals {
			e.network.Heal(addressA, addressB)
			e.settle()
			require.Equal(t, []rail.Event{{Kind: rail.PeerUp, Peer: id,
				Info: &rail.PeerInfo{Incarnation: rail.Incarnation{1}, Address: []byte(addressB), Name: addressB}}}, e.events[a])
			require.Len(t, e.events[b], 1)
			continue
		}
		e.settle()
		downs := e.only(a, rail.PeerDown)
		require.Len(t, downs, 1)
		require.ErrorIs(t, downs[0].Err, rail.ErrUnreachable)
		require.Equal(t, time.Minute, e.now.Sub(start))
	}
}

// TestAFarewellThatIsOvertaken by the hello of the next connection proves that nothing lands all the same, and both ends say
// what happened.
func TestAFarewellThatIsOvertaken(t *testing.T) {
	seed := rdmatest.Seed(t)
	overtaken := 0
	for i := range uint64(50) {
		e := newEnds(t, simrail.Config{Seed: seed + i, Delay: time.Millisecond, DeathWithin: time.Second}, addressA, addressB)
		a, b := e.rails[0], e.rails[1]
		source, dest := e.word(a), e.word(b)
		first := e.connect(a, b, time.Minute)
		e.settle()
		_, err := a.Post(first, []rail.Op{write(source, dest)})
		require.NoError(t, err)
		a.Disconnect(e.now, first)
		second := e.connect(a, b, time.Minute)
		require.NotEqual(t, first, second)
		e.settle()
		downs := e.only(a, rail.PeerDown)
		require.Len(t, downs, 1)
		require.ErrorIs(t, downs[0].Err, net.ErrClosed)
		require.True(t, downs[0].Proven, "the peer is alive")
		downs = e.only(b, rail.PeerDown)
		require.Len(t, downs, 1)
		require.ErrorIs(t, downs[0].Err, rail.ErrPeerClosed)
		require.Len(t, e.only(b, rail.PeerUp), 2)
		if e.events[b][len(e.events[b])-1].Kind == rail.PeerUp {
			overtaken++ // at B the next connection was there at once
		}
	}
	require.NotZero(t, overtaken)
}

// TestAnOperationOvertakesTheWelcome has who was called write before the caller knows that he is heard.
func TestAnOperationOvertakesTheWelcome(t *testing.T) {
	seed := rdmatest.Seed(t)
	before := 0
	for i := range uint64(50) {
		e := newEnds(t, simrail.Config{Seed: seed + i, Delay: time.Millisecond}, addressA, addressB)
		a, b := e.rails[0], e.rails[1]
		source, dest := e.word(b), e.word(a)
		e.connect(a, b, time.Minute)
		for next := e.turn(); len(e.only(b, rail.PeerUp)) == 0; next = e.turn() {
			require.True(t, next.After(e.now))
			e.now = next
		}
		if len(e.only(a, rail.PeerUp)) == 0 {
			before++
		}
		op := write(source, dest)
		op.HasImm = true
		n, err := b.Post(e.only(b, rail.PeerUp)[0].Peer, []rail.Op{op})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		e.settle()
		require.Len(t, e.events[a], 2)
		require.Equal(t, rail.PeerUp, e.events[a][0].Kind)
		require.Equal(t, rail.Immediate, e.events[a][1].Kind)
	}
	require.NotZero(t, before)
}

// TestNothingLandsInTheDead has packets on their way when both ends die.
func TestNothingLandsInTheDead(t *testing.T) {
	e := newEnds(t, simrail.Config{Delay: time.Millisecond}, addressA, addressB)
	a, b := e.rails[0], e.rails[1]
	source, dest := e.word(a), e.word(b)
	source.bytes[0] = 1
	to := e.connect(a, b, time.Minute)
	e.settle()
	_, err := a.Post(to, []rail.Op{write(source, dest)})
	require.NoError(t, err)
	e.network.Kill(addressA)
	e.network.Kill(addressB)
	e.settle()
	require.Zero(t, dest.bytes[0])
	require.NoError(t, e.network.Err())
}

// TestMisuseIsTold to whoever asks the network.
func TestMisuseIsTold(t *testing.T) {
	for want, misuse := range map[string]func(e *ends){
		"kill: there is no rail at \"192.0.2.9\"":    func(e *ends) { e.network.Kill("192.0.2.9") },
		"exhaust: there is no rail at \"192.0.2.9\"": func(e *ends) { e.network.Exhaust("192.0.2.9", true) },
		"slow: there is no rail at \"192.0.2.9\"":    func(e *ends) { e.network.Slow("192.0.2.9", 1) },
		"192.0.2.1: memory is deregistered under an operation in flight": func(e *ends) {
			a, b := e.rails[0], e.rails[1]
			source, dest := e.word(a), e.word(b)
			_, err := a.Post(e.only(a, rail.PeerUp)[0].Peer, []rail.Op{write(source, dest)})
			require.NoError(e.t, err)
			require.ErrorIs(e.t, source.Close(), syscall.EBUSY)
			e.settle()
		},
		"192.0.2.1: the time goes back by 1ns": func(e *ends) { e.rails[0].Turn(e.now.Add(-1), nil) },
		"192.0.2.1: two goroutines use the rail": func(e *ends) {
			stop := make(chan struct{})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for events := make([]rail.Event, 8); ; {
					select {
					case <-stop:
						return
					default:
						e.rails[0].Turn(e.now, events)
					}
				}
			}()
			ctx := rdmatest.Context(e.t, time.Minute)
			for events := make([]rail.Event, 8); e.network.Err() == nil && ctx.Err() == nil; runtime.Gosched() {
				e.rails[0].Turn(e.now, events)
			}
			close(stop)
			<-ended
		},
	} {
		e := newEnds(t, simrail.Config{}, addressA, addressB)
		e.connect(e.rails[0], e.rails[1], time.Minute)
		e.settle()
		require.NoError(t, e.network.Err())
		misuse(e)
		require.ErrorContains(t, e.network.Err(), want)
	}
}

// TestWhatARailRefuses has no peer.
func TestWhatARailRefuses(t *testing.T) {
	e := newEnds(t, simrail.Config{}, addressA)
	a := e.rails[0]
	for _, address := range []string{"", string(make([]byte, rail.MaxAddress+1))} {
		_, err := a.Connect(e.now, []byte(address), e.now)
		require.ErrorIs(t, err, syscall.EINVAL)
	}
	e.network.Kill(addressA)
	_, err := a.Connect(e.now, []byte(addressB), e.now)
	require.ErrorIs(t, err, rail.ErrUnreachable)
}

// TestLocalMemoryThatIsNotRegistered fails its operation alone.
func TestLocalMemoryThatIsNotRegistered(t *testing.T) {
	e := newEnds(t, simrail.Config{}, addressA, addressB)
	a, b := e.rails[0], e.rails[1]
	source, dest := e.word(a), e.word(b)
	to := e.connect(a, b, time.Minute)
	e.settle()
	op := write(source, dest)
	op.LocalKey++
	_, err := a.Post(to, []rail.Op{op})
	require.NoError(t, err)
	e.settle()
	done := e.only(a, rail.Completed)
	require.Len(t, done, 1)
	require.ErrorContains(t, done[0].Err, "local memory: ")
	require.ErrorIs(t, done[0].Err, syscall.EFAULT)
	require.NotErrorIs(t, done[0].Err, rail.ErrAccess, "it is not the peer who refused")
}

// TestARunThatHangsNamesItsSeed both ways.
func TestARunThatHangsNamesItsSeed(t *testing.T) {
	network := simrail.NewNetwork(simrail.Config{Seed: 77})
	run := network.NewRun(time.Unix(1e9, 0))
	never := func() bool { return false }
	require.EqualError(t, run.Until(never), "simrail: nothing is left to happen at "+run.Now().Format(time.TimeOnly)+
		" and the condition does not hold (seed 77)")
	require.NoError(t, run.Settle())
	run.Add(busy{})
	require.EqualError(t, run.Until(never), "simrail: the condition does not hold after 1048576 rounds (seed 77)")
	require.EqualError(t, run.Settle(), "simrail: there is still something to do after 1048576 rounds (seed 77)")
}

// busy always has something to do.
type busy struct{}

func (busy) Turn(time.Time) (did int, next time.Time) { return 1, time.Time{} }

// TestASeedReplaysItsRun though connecting takes another goroutine, which the scheduler runs when it likes.
func TestASeedReplaysItsRun(t *testing.T) {
	play := func(seed uint64) uint64 {
		p := newPair(t, simrail.Config{Seed: seed, Delay: time.Millisecond, PartialPosts: true, Immediates: 8, MaxLength: 5000,
			Script: simrail.Script{Handshake: func(h simrail.Handshake) int { return h.N % 3 }}})
		random := rand.New(rand.NewPCG(seed, 4))
		var transfers []*transferengine.Transfer
		for range 20 {
			transfers = append(transfers, p.write(random.Uint32N(3)))
			if random.IntN(2) == 0 {
				p.Round()
			}
		}
		p.network.Cut(addressA, addressB)
		p.Round()
		p.network.Heal(addressA, addressB)
		p.settle()
		for _, tr := range transfers {
			require.NoError(t, tr.Err())
		}
		return p.network.Hash()
	}
	seed := rdmatest.Seed(t)
	want := play(seed)
	for range 10 {
		require.Equal(t, want, play(seed))
	}
	require.NotEqual(t, want, play(seed+1))
}
