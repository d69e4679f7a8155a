package transferengine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
)

// sink is a rail with one peer that takes every write and completes it in the next turn, so that what a test measures is
// the engine. Every write with an immediate also arrives back.
type sink struct {
	rail.Rail // the fake's, for what is not measured
	up        bool
	events    []rail.Event
}

const sinkPeer rail.PeerID = 1

func (s *sink) Open(i rail.Incarnation) (rail.Rail, error) { return s, nil }

func (s *sink) Peer(rail.PeerID) rail.PeerInfo { return rail.PeerInfo{Name: "sink"} }

func (s *sink) Connect(time.Time, []byte, time.Time) (rail.PeerID, error) {
	if !s.up {
		s.events = append(s.events, rail.Event{Kind: rail.PeerUp, Peer: sinkPeer})
	}
	s.up = true
	return sinkPeer, nil
}

func (s *sink) Disconnect(time.Time, rail.PeerID) {
	s.events = append(s.events, rail.Event{Kind: rail.PeerDown, Peer: sinkPeer})
}

func (s *sink) Post(_ rail.PeerID, writes []rail.Write) (int, error) {
	for i := range writes {
		if writes[i].HasImm {
			s.events = append(s.events, rail.Event{Kind: rail.Immediate, Peer: sinkPeer, Imm: writes[i].Imm})
		}
		s.events = append(s.events, rail.Event{Kind: rail.Completed, Peer: sinkPeer, Token: writes[i].Token})
	}
	return len(writes), nil
}

func (s *sink) Turn(_ time.Time, events []rail.Event) (int, time.Time) {
	n := copy(events, s.events)
	s.events = s.events[:copy(s.events, s.events[n:])]
	return n, time.Time{}
}

// toSink is an engine whose one peer is a sink.
func toSink(t testing.TB, driven bool) *pair {
	fake, err := newFabric(t, 1).at("192.0.2.1").Open(rail.Incarnation{})
	require.NoError(t, err)
	config := transferengine.Config{Rails: []rail.Opener{&sink{Rail: fake}}}
	open := transferengine.OpenUndriven
	if driven {
		open = transferengine.Open
	}
	p := &pair{world: &world{t: t, clock: time.Unix(1e9, 0)}}
	p.a, err = open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.a.Close()) })
	var address transferengine.Address // of the fake's kind, and of no incarnation
	require.NoError(t, address.UnmarshalBinary(message("WtAD", field(1, make([]byte, 16)...),
		field(2, append([]byte{4}, "fake\x00\x01a"...)...))))
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
		field(2, append(one, 0, 0, 0, 0, 0, 16, 0, 0)...), field(3, 1), field(4, one...), field(5, one...))))
	return p
}

func TestWritesAndCountsAllocateNothing(t *testing.T) {
	p := toSink(t, false)
	var transfers [10]transferengine.Transfer
	pages := []uint32{3, 1, 4, 1, 5, 9, 2, 6}
	w := p.all(7)
	w.Shards = 3
	paged := transferengine.PagedWrite{Peer: p.toB, Source: p.source, SourceStride: 4096, SourcePages: pages,
		Dest: &p.descriptor, DestStride: 4096, DestPages: pages, PageLength: 4096, Imm: 8, HasImm: true, Shards: 2}
	c, d := p.a.Counter(7), p.a.Counter(8)
	from := []*transferengine.Peer{p.toB}
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		for i := range transfers {
			if i%2 == 0 {
				_ = p.a.Write(&transfers[i], w)
			} else {
				_ = p.a.WritePages(&transfers[i], paged)
			}
		}
		p.settle1(p.a)
		for i := range transfers {
			if transfers[i].Wait(ctx) != nil {
				t.Fatal("a transfer failed")
			}
		}
		if c.Wait(ctx, 15, from...) != nil || d.Wait(ctx, 10) != nil {
			t.Fatal("immediates are missing")
		}
	}))
}

func TestWaitingAllocatesNothing(t *testing.T) {
	p := toSink(t, true)
	var tr transferengine.Transfer
	w := p.all(7)
	c := p.a.Counter(7)
	from := []*transferengine.Peer{p.toB}
	ctx := rdmatest.Context(t, 20*time.Second)
	allocs := testing.AllocsPerRun(1000, func() {
		_ = p.a.Write(&tr, w)
		if c.Wait(ctx, 1, from...) != nil || tr.Wait(ctx) != nil {
			t.Fatal("the write did not arrive")
		}
	})
	require.Zero(t, allocs)
}

// BenchmarkWrite is what a write of 8 bytes costs from the request to its completion, in batches of 64, without a NIC.
func BenchmarkWrite(b *testing.B) {
	p := toSink(b, false)
	w := p.all(7)
	w.Length, w.HasImm = 8, false
	benchmarkWrites(b, p, w)
}

// BenchmarkWriteWithImmediate adds the arrival and the counting of an immediate.
func BenchmarkWriteWithImmediate(b *testing.B) {
	p := toSink(b, false)
	w := p.all(7)
	w.Length = 8
	benchmarkWrites(b, p, w)
}

func benchmarkWrites(b *testing.B, p *pair, w transferengine.Write) {
	transfers := make([]transferengine.Transfer, 64)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		i := n % len(transfers)
		if i == 0 {
			p.settle1(p.a)
		}
		if err := p.a.Write(&transfers[i], w); err != nil {
			b.Fatal(err)
		}
	}
	p.settle1(p.a)
}

// BenchmarkWriteAndWait is one write at a time, driven by its own wait.
func BenchmarkWriteAndWait(b *testing.B) {
	p := toSink(b, true)
	w := p.all(7)
	w.Length = 8
	ctx := rdmatest.Context(b, time.Hour)
	var tr transferengine.Transfer
	b.ReportAllocs()
	for b.Loop() {
		if err := p.a.Write(&tr, w); err != nil {
			b.Fatal(err)
		}
		if err := tr.Wait(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
