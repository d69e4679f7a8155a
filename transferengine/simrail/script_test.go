package simrail_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

func TestMain(m *testing.M) { rdmatest.Main(m, nil) }

const (
	addressA = "192.0.2.1"
	addressB = "192.0.2.2"
)

// pair is two engines, of which a is connected to b, under a virtual clock.
type pair struct {
	*simrail.Run
	t       *testing.T
	network *simrail.Network
	a, b    *transferengine.Engine
	toB     *transferengine.Peer
	source  *transferengine.Region
	dest    *transferengine.Region
	to      transferengine.Descriptor
}

func newPair(t *testing.T, config simrail.Config) *pair {
	if config.Seed == 0 {
		config.Seed = rdmatest.Seed(t)
	}
	network := simrail.NewNetwork(config)
	p := &pair{t: t, network: network, Run: network.NewRun(time.Unix(1e9, 0))}
	p.a, p.b = p.open(addressA), p.open(addressB)
	p.source, p.dest = p.register(p.a), p.register(p.b)
	p.to = p.dest.Descriptor()
	for i := range p.source.Bytes() {
		p.source.Bytes()[i] = byte(i) | 1
	}
	t.Cleanup(func() { require.NoError(t, network.Err()) })
	p.connect()
	return p
}

func (p *pair) open(address string) *transferengine.Engine {
	e, err := transferengine.Open(transferengine.Config{Rails: []rail.Opener{p.network.Rail(address)},
		Progress: transferengine.Manual})
	require.NoError(p.t, err)
	p.t.Cleanup(func() { require.NoError(p.t, e.Close()) })
	p.Add(e)
	return e
}

func (p *pair) register(e *transferengine.Engine) *transferengine.Region {
	r, err := e.Register(make([]byte, 1<<16), transferengine.RemoteWrite)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { require.NoError(p.t, r.Close()) })
	return r
}

// connect has the engines connect, by a Connect that only sleeps while this goroutine turns them.
func (p *pair) connect() {
	type result struct {
		peer *transferengine.Peer
		err  error
	}
	done := make(chan result, 1)
	go func() {
		peer, err := p.a.Connect(rdmatest.Context(p.t, 10*time.Second), p.b.Address())
		done <- result{peer, err}
	}()
	for {
		p.Round()
		select {
		case r := <-done:
			require.NoError(p.t, r.err)
			p.toB = r.peer
			p.settle() // to where it does not matter how many rounds there were
			require.Len(p.t, p.b.Peers(), 1)
			return
		default:
		}
	}
}

// write starts a write of the source, with an immediate.
func (p *pair) write(imm uint32) *transferengine.Transfer {
	tr := new(transferengine.Transfer)
	require.NoError(p.t, p.a.Write(tr, transferengine.Write{Peer: p.toB, Source: p.source, Dest: &p.to, Length: 1 << 16,
		Imm: imm, HasImm: true}))
	return tr
}

func (p *pair) settle() { p.t.Helper(); require.NoError(p.t, p.Settle()) }

// nth is a script of one fault.
func nth(n int, fault simrail.Fault) simrail.Script {
	return simrail.Script{Operation: func(o simrail.Operation) simrail.Fault {
		if o.N == n && o.From == addressA && o.To == addressB {
			return fault
		}
		return simrail.Fault{}
	}}
}

// requireMaybe requires a transfer to have ended with the cause, and nothing to be said of its bytes.
func requireMaybe(t *testing.T, tr *transferengine.Transfer, cause error) {
	t.Helper()
	var failed *transferengine.TransferError
	require.ErrorAs(t, tr.Err(), &failed)
	require.ErrorIs(t, failed, cause)
	require.Equal(t, transferengine.MaybeDelivered, failed.Outcome)
	require.False(t, failed.InFlight)
}

var errScripted = errors.New("RNR retries exceeded")

func TestTheNthOperationFails(t *testing.T) {
	p := newPair(t, simrail.Config{Script: nth(1, simrail.Fault{Err: errScripted})})
	first, second, third := p.write(1), p.write(2), p.write(3)
	p.settle()
	require.NoError(t, first.Err())
	requireMaybe(t, second, errScripted)
	require.NoError(t, third.Err())
	require.NoError(t, p.toB.Err())
	require.Zero(t, p.b.Counter(2).Value())
	require.EqualValues(t, 1, p.b.Counter(3).Value())
}

func TestAnOperationThatFailsBreaksItsConnection(t *testing.T) {
	p := newPair(t, simrail.Config{Script: nth(0, simrail.Fault{Err: errScripted, Break: true})})
	first := p.write(1)
	p.settle()
	requireMaybe(t, first, errScripted)
	require.ErrorIs(t, p.toB.Err(), errScripted)
	require.Empty(t, p.b.Peers(), "the other end notices")
}

func TestADelayComesOnTop(t *testing.T) {
	p := newPair(t, simrail.Config{Delay: time.Millisecond, Script: nth(0, simrail.Fault{Delay: 5 * time.Millisecond})})
	p.settle()
	start := p.Now()
	slow, quick := p.write(1), p.write(2)
	require.NoError(t, p.Until(func() bool { return p.b.Counter(2).Value() == 1 }))
	require.Less(t, p.Now().Sub(start), time.Millisecond)
	require.Zero(t, p.b.Counter(1).Value())
	require.NoError(t, p.Until(func() bool { return p.b.Counter(1).Value() == 1 }))
	require.GreaterOrEqual(t, p.Now().Sub(start), 5*time.Millisecond)
	p.settle()
	require.NoError(t, errors.Join(slow.Err(), quick.Err()))
}

func TestWhatLandsIsCorrupt(t *testing.T) {
	p := newPair(t, simrail.Config{Script: nth(0, simrail.Fault{Corrupt: true})})
	tr := p.write(1)
	p.settle()
	require.NoError(t, tr.Err(), "nobody notices")
	want := append([]byte(nil), p.source.Bytes()...)
	want[len(want)/2] ^= 1
	require.Equal(t, want, p.dest.Bytes())
}

func TestTheAcknowledgementIsLost(t *testing.T) {
	p := newPair(t, simrail.Config{Script: nth(0, simrail.Fault{Err: errScripted, Delivered: true})})
	tr := p.write(1)
	p.settle()
	requireMaybe(t, tr, errScripted)
	require.EqualValues(t, 1, p.b.Counter(1).Value())
	require.Equal(t, p.source.Bytes(), p.dest.Bytes())
}

func TestPacketsOutliveTheirQueuePair(t *testing.T) {
	p := newPair(t, simrail.Config{Delay: time.Millisecond, DeathWithin: time.Hour,
		Script: nth(0, simrail.Fault{Delay: 5 * time.Millisecond})})
	slow := p.write(1)
	p.Round()
	p.network.Kill(addressA) // it notices at once, and B in an hour
	p.a.Turn(p.Now())
	requireMaybe(t, slow, rail.ErrFlushed)
	require.Zero(t, p.dest.Bytes()[0])
	clear(p.source.Bytes()) // the sender's again
	p.settle()
	require.EqualValues(t, byte(1), p.dest.Bytes()[0], "it was on the wire")
}

func TestHandshakesAreLostAndDoubled(t *testing.T) {
	for name, c := range map[string]struct {
		copies func(simrail.Handshake) int
		least  int // handshakes until both ends are up
	}{
		"the first five are lost": {func(h simrail.Handshake) int { return h.N / 5 }, 7},
		"welcomes are lost": {func(h simrail.Handshake) int {
			if h.From == addressB && h.N < 6 {
				return 0
			}
			return 1
		}, 7},
		"all come three times": {func(simrail.Handshake) int { return 3 }, 4}, // a hello and its three welcomes
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			script := simrail.Script{Handshake: func(h simrail.Handshake) int {
				require.Equal(t, asked, h.N)
				asked++
				return c.copies(h)
			}}
			p := newPair(t, simrail.Config{Delay: time.Millisecond, Script: script})
			tr := p.write(1)
			p.settle()
			require.GreaterOrEqual(t, asked, c.least)
			require.NoError(t, tr.Err())
			require.Len(t, p.a.Peers(), 1)
			require.Len(t, p.b.Peers(), 1)
			require.EqualValues(t, 1, p.a.Stats().PeersUp)
			require.EqualValues(t, 1, p.b.Stats().PeersUp)
		})
	}
}

func TestACutThatHealsLosesNothing(t *testing.T) {
	p := newPair(t, simrail.Config{Delay: time.Millisecond, DeathWithin: time.Second})
	p.network.Cut(addressA, addressB)
	tr := p.write(1)
	p.a.Turn(p.Now())
	p.Advance(2 * time.Millisecond)
	p.a.Turn(p.Now())
	require.Zero(t, p.dest.Bytes()[0])
	p.network.Heal(addressB, addressA)
	p.settle()
	require.NoError(t, tr.Err())
	require.EqualValues(t, 1, p.b.Counter(1).Value())
}

func TestACutThatDoesNotHealTakesBothEndsDown(t *testing.T) {
	p := newPair(t, simrail.Config{Delay: time.Millisecond})
	p.network.Cut(addressA, addressB)
	tr := p.write(1)
	start := p.Now()
	p.settle()
	require.ErrorIs(t, p.toB.Err(), rail.ErrPeerGone)
	requireMaybe(t, tr, rail.ErrFlushed)
	require.Empty(t, p.b.Peers())
	require.LessOrEqual(t, p.Now().Sub(start), 20*time.Millisecond)
	p.network.Heal(addressA, addressB)
	p.connect()
	tr = p.write(2)
	p.settle()
	require.NoError(t, tr.Err())
}

func TestReceivesRunOut(t *testing.T) {
	p := newPair(t, simrail.Config{Immediates: 4})
	p.network.Exhaust(addressB, true)
	tr := new(transferengine.Transfer)
	require.NoError(t, p.a.Write(tr, transferengine.Write{Peer: p.toB, Dest: &p.to, Imm: 1, HasImm: true, Shards: 50}))
	require.NoError(t, p.Until(func() bool { return p.b.Counter(1).Value() == 4 && p.a.Stats().BackPressure > 0 }))
	for range 20 {
		p.a.Turn(p.Now())
		p.b.Turn(p.Now())
	}
	require.EqualValues(t, 4, p.b.Counter(1).Value())
	p.network.Exhaust(addressB, false)
	p.settle()
	require.NoError(t, tr.Err())
	require.EqualValues(t, 50, p.b.Counter(1).Value())
	require.NoError(t, errors.Join(p.toB.Err(), p.b.Peers()[0].Err()), "nothing was torn down")
}

func TestASlowConsumer(t *testing.T) {
	p := newPair(t, simrail.Config{Immediates: 4})
	p.network.Slow(addressB, 1)
	tr := new(transferengine.Transfer)
	require.NoError(t, p.a.Write(tr, transferengine.Write{Peer: p.toB, Dest: &p.to, Imm: 1, HasImm: true, Shards: 50}))
	before := p.b.Stats().Turns
	p.settle()
	require.NoError(t, tr.Err())
	require.EqualValues(t, 50, p.b.Counter(1).Value())
	require.GreaterOrEqual(t, p.b.Stats().Turns-before, uint64(50))
	require.NoError(t, errors.Join(p.toB.Err(), p.b.Peers()[0].Err()), "nothing was torn down")
}

func TestThePeerIsKilled(t *testing.T) {
	p := newPair(t, simrail.Config{Delay: time.Millisecond})
	tr := p.write(1)
	p.Round()
	p.network.Kill(addressB)
	start := p.Now()
	require.NoError(t, p.Until(func() bool { return p.toB.Err() != nil }))
	require.LessOrEqual(t, p.Now().Sub(start), 10*time.Millisecond)
	require.ErrorIs(t, p.toB.Err(), rail.ErrPeerGone)
	requireMaybe(t, tr, rail.ErrFlushed)
	require.Empty(t, p.a.Peers())
	err := p.a.Write(tr, transferengine.Write{Peer: p.toB, Dest: &p.to, HasImm: true})
	require.ErrorIs(t, err, rail.ErrPeerGone, "before anything is sent")
}

// TestOrder looks at whether 200 immediates come in the order in which they were sent.
func TestOrder(t *testing.T) {
	inOrder := func(config simrail.Config) bool {
		p := newPair(t, config)
		var last uint64
		sorted := true
		for i := range uint32(200) {
			tr := new(transferengine.Transfer)
			require.NoError(t, p.a.Write(tr, transferengine.Write{Peer: p.toB, Dest: &p.to, Imm: i, HasImm: true}))
		}
		require.NoError(t, p.Until(func() bool {
			seen := uint64(0)
			for i := range uint32(200) {
				if p.b.Counter(i).Value() == 1 {
					sorted = sorted && seen == uint64(i)
					seen++
				}
			}
			last = seen
			return seen == 200
		}))
		require.EqualValues(t, 200, last)
		return sorted
	}
	require.False(t, inOrder(simrail.Config{Delay: time.Millisecond}))
	require.True(t, inOrder(simrail.Config{Delay: time.Millisecond, Ordered: true}))
}

func TestWhatCannotBe(t *testing.T) {
	for _, config := range []simrail.Config{{MaxBatch: -1}, {Depth: -1}, {Immediates: -1}, {Delay: -1}} {
		_, err := simrail.NewNetwork(config).Rail(addressA).Open(rail.Incarnation{})
		require.ErrorIs(t, err, syscall.EINVAL)
	}
	for _, address := range []string{"", fmt.Sprintf("%257d", 1)} {
		_, err := simrail.NewNetwork(simrail.Config{}).Rail(address).Open(rail.Incarnation{})
		require.ErrorIs(t, err, syscall.EINVAL)
	}
}
