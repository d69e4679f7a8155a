package transferengine_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

// sink is a rail with one peer that takes every write and completes it in the next turn, so that what a test measures is
// the engine. Every write with an immediate also arrives back.
type sink struct {
	rail.Rail // a real one, for what is not measured
	caps      rail.Caps
	up        bool
	events    []rail.Event
	as        func(*sink) rail.Rail // what an engine gets; nil: the sink

	// Contracts that a rail can break.
	forgetful bool // writes never come back
	stubborn  bool // peers never go down
	held      bool // events are kept back
}

const sinkPeer rail.PeerID = 1

func (s *sink) Open(i rail.Incarnation) (_ rail.Rail, err error) {
	s.Rail, err = simrail.NewNetwork(simrail.Config{}).Rail("192.0.2.1").Open(i)
	if err == nil && s.caps == (rail.Caps{}) {
		s.caps = s.Rail.Caps()
	}
	if s.as != nil {
		return s.as(s), err
	}
	return s, err
}

func (s *sink) Caps() rail.Caps { return s.caps }

func (s *sink) Connect(time.Time, []byte, time.Time) (rail.PeerID, error) {
	if !s.up {
		s.events = append(s.events, rail.Event{Kind: rail.PeerUp, Peer: sinkPeer, Info: &rail.PeerInfo{Name: "sink"}})
	}
	s.up = true
	return sinkPeer, nil
}

func (s *sink) Disconnect(time.Time, rail.PeerID) {
	if s.stubborn {
		return
	}
	s.events = append(s.events, rail.Event{Kind: rail.PeerLost, Peer: sinkPeer}, rail.Event{Kind: rail.PeerDown, Peer: sinkPeer})
}

func (s *sink) Post(_ rail.PeerID, writes []rail.Op) (int, error) {
	if s.forgetful {
		return len(writes), nil
	}
	for i := range writes {
		if writes[i].HasImm {
			s.events = append(s.events, rail.Event{Kind: rail.Immediate, Peer: sinkPeer, Imm: writes[i].Imm})
		}
		s.events = append(s.events, rail.Event{Kind: rail.Completed, Peer: sinkPeer, Token: writes[i].Token})
	}
	return len(writes), nil
}

func (s *sink) Turn(_ time.Time, events []rail.Event) (int, time.Time) {
	if s.held {
		return 0, time.Time{}
	}
	n := copy(events, s.events)
	s.events = s.events[:copy(s.events, s.events[n:])]
	return n, time.Time{}
}

// toSink is an engine whose one peer is a sink.
func toSink(t testing.TB, driven bool) *pair { return toRail(t, &sink{}, driven) }

func toRail(t testing.TB, s *sink, driven bool) *pair {
	return toRailWith(t, s, driven, transferengine.Config{})
}

func toRailWith(t testing.TB, s *sink, driven bool, config transferengine.Config) *pair {
	config.Rails = []rail.Opener{s}
	if s.stubborn {
		config.CloseTimeout = 10 * time.Millisecond
	}
	open := transferengine.OpenUndriven
	if driven {
		open = transferengine.Open
	}
	network := simrail.NewNetwork(simrail.Config{})
	p := &pair{world: &world{t: t, Run: network.NewRun(time.Unix(1e9, 0))}}
	var err error
	p.a, err = open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.Equal(t, s.stubborn, p.a.Close() != nil) })
	var address transferengine.Address // of the rail's kind, and of no incarnation
	require.NoError(t, address.UnmarshalBinary(message("WtAD", field(1, make([]byte, 16)...),
		field(2, append([]byte{3}, "sim\x00\x01a"...)...))))
	if driven {
		p.toB, err = p.a.Connect(rdmatest.Context(t, 10*time.Second), address)
		require.NoError(t, err)
	} else {
		ended, err := p.a.StartConnect(address)
		require.NoError(t, err)
		p.settle1(p.a)
		p.toB, _, err = ended()
		require.NoError(t, err)
	}
	p.source = register(t, p.a, make([]byte, 1<<20))
	one := []byte{0, 0, 0, 0, 0, 0, 0, 1}
	require.NoError(t, p.descriptor.UnmarshalBinary(message("WtDS", field(1, make([]byte, 16)...),
		field(2, append(one, 0, 0, 0, 0, 0, 16, 0, 0)...), field(3, 3), field(4, one...), field(5, one...))))
	return p
}

// TestARailThatForgetsWritesHangsNobody has a peer come down while the rail still owes completions.
func TestARailThatForgetsWritesHangsNobody(t *testing.T) {
	s := &sink{forgetful: true}
	p := toRail(t, s, false)
	var tr transferengine.Transfer
	require.NoError(t, p.a.Write(&tr, p.all(1)))
	p.settle1(p.a)
	require.False(t, tr.Finished())
	s.events = append(s.events, rail.Event{Kind: rail.PeerLost, Peer: sinkPeer, Err: rail.ErrPeerGone},
		rail.Event{Kind: rail.PeerLost, Peer: sinkPeer}, rail.Event{Kind: rail.PeerDown, Peer: sinkPeer},
		rail.Event{Kind: rail.Completed, Peer: sinkPeer}, rail.Event{Kind: rail.Completed, Peer: sinkPeer, Token: 1 << 31},
		rail.Event{Kind: rail.Immediate, Peer: sinkPeer}, rail.Event{Kind: rail.PeerDown, Peer: sinkPeer})
	p.settle1(p.a)
	require.ErrorIs(t, tr.Err(), rail.ErrPeerGone)
	require.ErrorContains(t, tr.Err(), "still in flight")
	require.NoError(t, p.source.Close(), "it is the rail's word that nothing is")
	require.EqualValues(t, 5, p.a.Stats().Stray, "what fits nothing is counted, and harms nobody")
}

// TestARailThatSaysDownAlone, without PeerLost before, is taken at its word.
func TestARailThatSaysDownAlone(t *testing.T) {
	s := &sink{forgetful: true}
	p := toRail(t, s, false)
	var tr transferengine.Transfer
	require.NoError(t, p.a.Write(&tr, p.all(1)))
	p.settle1(p.a)
	s.events = append(s.events, rail.Event{Kind: rail.PeerDown, Peer: sinkPeer, Err: rail.ErrPeerGone})
	p.settle1(p.a)
	require.ErrorIs(t, tr.Err(), rail.ErrPeerGone)
	require.ErrorContains(t, tr.Err(), "maybe delivered")
	require.True(t, isClosed(p.toB.Done()))
	require.True(t, isClosed(p.toB.Down()))
	require.NoError(t, p.source.Close())
}

// TestCloseIsBounded has a rail that never takes a peer down.
func TestCloseIsBounded(t *testing.T) {
	p := toRail(t, &sink{forgetful: true, stubborn: true}, true)
	var tr transferengine.Transfer
	empty := transferengine.Write{Peer: p.toB, Dest: &p.descriptor, HasImm: true}
	require.NoError(t, p.a.Write(&tr, empty))
	err := p.a.Shutdown(ended(t))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "1 peers and 1 requests had not ended after 10ms (Config.CloseTimeout)")
	require.False(t, tr.Finished(), "the rail may still use its memory")
	require.NoError(t, p.source.Close())
	require.Error(t, p.a.Close())
	require.ErrorIs(t, tr.Wait(soon(t)), net.ErrClosed)
	require.ErrorIs(t, p.toB.Err(), net.ErrClosed)
}

// TestALeftWorkerGoesToWhoWaits has no back-up goroutine.
func TestALeftWorkerGoesToWhoWaits(t *testing.T) {
	p := toSink(t, false)
	ctx := rdmatest.Context(t, 20*time.Second)
	var tr transferengine.Transfer
	leave := p.a.Drive()
	require.NoError(t, p.a.Write(&tr, p.all(1)))
	done := make(chan error, 1)
	go func() { done <- tr.Wait(ctx) }()
	p.a.AwaitWaiters(1)
	leave()
	require.NoError(t, <-done)
}

// lateSink is a sink whose immediates come at every third look that finds nothing else.
type lateSink struct {
	*sink
	late  []rail.Event
	looks int
}

func (l *lateSink) Post(peer rail.PeerID, writes []rail.Op) (int, error) {
	n, err := l.sink.Post(peer, writes)
	l.late, l.events = append(l.late, l.events[0]), l.events[1:]
	return n, err
}

func (l *lateSink) Spin(time.Duration, *atomic.Uint64, uint64) bool {
	if len(l.events) > 0 {
		return true
	}
	if l.looks++; l.looks%3 == 0 {
		l.events, l.late = append(l.events, l.late...), nil
	}
	return len(l.events) > 0
}

// Arm finds that something may be there, so that nobody sleeps.
func (l *lateSink) Arm() bool { return true }

// TestADriverLooksAfterATurn that did something and left nothing, too: what waits for an answer takes a turn for its own
// write, and one for the answer.
func TestADriverLooksAfterATurn(t *testing.T) {
	l := &lateSink{}
	p := toRail(t, &sink{as: func(s *sink) rail.Rail { l.sink = s; return l }}, false)
	ctx := rdmatest.Context(t, 20*time.Second)
	var tr transferengine.Transfer
	turns := p.a.Stats().Turns
	const rounds = 10
	for range rounds {
		require.NoError(t, p.a.Write(&tr, p.all(1)))
		require.NoError(t, p.a.Counter(1).WaitFrom(ctx, 1, p.toB))
		require.NoError(t, tr.Err())
	}
	require.EqualValues(t, 2*rounds, p.a.Stats().Turns-turns)
	require.Equal(t, 3*rounds, l.looks)
}
