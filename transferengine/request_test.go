package transferengine_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

func TestReads(t *testing.T) {
	w := newWorld(t, simrail.Config{MaxLength: 700, Delay: time.Millisecond, PartialPosts: true})
	p := newPairIn(w, 5000, transferengine.Config{})
	copy(p.dest.Bytes(), pattern(p.random, 5000)) // the peer's
	for range 50 {
		clear(p.source.Bytes())
		from, to := p.random.Uint64N(5001), p.random.Uint64N(5001)
		length := p.random.Uint64N(5001 - max(from, to))
		var tr transferengine.Transfer
		require.NoError(t, p.a.Read(&tr, transferengine.Read{Peer: p.toB, Source: &p.descriptor, SourceOffset: from,
			Dest: p.source, DestOffset: to, Length: length}))
		require.NoError(t, p.finish(&tr))
		want := make([]byte, 5000)
		copy(want[to:], p.dest.Bytes()[from:from+length])
		require.Equal(t, want, p.source.Bytes())
	}
	require.Zero(t, p.b.Stats().Immediates)
}

func TestReadsBeyondBoundsAreRefused(t *testing.T) {
	p := newPair(t, 100, transferengine.Config{})
	writeOnly, err := p.b.Register(make([]byte, 100), transferengine.RemoteWrite)
	require.NoError(t, err)
	defer func() { require.NoError(t, writeOnly.Close()) }()
	forbidden := writeOnly.Descriptor()
	good := transferengine.Read{Peer: p.toB, Source: &p.descriptor, Dest: p.source, Length: 100}
	for name, c := range map[string]struct {
		change func(r *transferengine.Read)
		want   error
		text   string
	}{
		"lawful":              {func(*transferengine.Read) {}, nil, ""},
		"source too short":    {func(r *transferengine.Read) { r.SourceOffset = 1 }, syscall.EFAULT, "reach beyond the 100 bytes of Source"},
		"dest too short":      {func(r *transferengine.Read) { r.DestOffset = 1 }, syscall.EFAULT, "reach beyond the 100 bytes of Dest"},
		"no destination":      {func(r *transferengine.Read) { r.Dest = nil }, syscall.EINVAL, "Length is 100 and Dest is nil"},
		"no source":           {func(r *transferengine.Read) { r.Source = nil }, syscall.EINVAL, "Source is nil or empty"},
		"no right":            {func(r *transferengine.Read) { r.Source = &forbidden }, syscall.EACCES, "Source was registered without RemoteRead"},
		"timeout below zero":  {func(r *transferengine.Read) { r.Timeout = -1 }, syscall.EINVAL, "Timeout"},
		"no peer":             {func(r *transferengine.Read) { r.Peer = nil }, syscall.EINVAL, "Peer is nil"},
		"nothing, and nobody": {func(r *transferengine.Read) { r.Length, r.Dest = 0, nil }, nil, ""},
	} {
		r := good
		c.change(&r)
		var tr transferengine.Transfer
		err := p.a.Read(&tr, r)
		require.ErrorIs(t, err, c.want, name)
		if c.want != nil {
			require.ErrorContains(t, err, c.text, name)
		}
		p.settle()
	}
	cannot := toRail(t, &sink{caps: rail.Caps{MaxLength: 1, MaxBatch: 1, ImmSource: true}}, false)
	var tr transferengine.Transfer
	err = cannot.a.Read(&tr, transferengine.Read{Peer: cannot.toB, Source: &cannot.descriptor})
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

// star is a sender that is connected to several receivers.
type star struct {
	*world
	sender  *transferengine.Engine
	source  *transferengine.Region
	peers   []*transferengine.Peer
	engines []*transferengine.Engine
	regions []*transferengine.Region
	targets []transferengine.ScatterTarget // each receiver's whole memory
}

func newStar(w *world, receivers, size int, config transferengine.Config) *star {
	s := &star{world: w, sender: w.open(config)}
	s.source = register(w.t, s.sender, pattern(w.random, receivers*size))
	for i := range receivers {
		e := w.open(transferengine.Config{})
		peer, _ := w.connect(s.sender, e)
		r := register(w.t, e, make([]byte, size))
		d := r.Descriptor()
		s.peers, s.engines, s.regions = append(s.peers, peer), append(s.engines, e), append(s.regions, r)
		s.targets = append(s.targets, transferengine.ScatterTarget{Peer: peer, SourceOffset: uint64(i * size), Dest: &d,
			Length: uint64(size)})
	}
	return s
}

func TestScatter(t *testing.T) {
	w := newWorld(t, simrail.Config{MaxLength: 700, Delay: time.Millisecond, PartialPosts: true})
	s := newStar(w, 9, 1000, transferengine.Config{})
	s.targets[3].Length = 0
	s.targets = append(s.targets, s.targets[2]) // twice
	var tr transferengine.Transfer
	request := transferengine.Scatter{Source: s.source, Targets: s.targets, Imm: 5, HasImm: true, Shards: 3}
	for round := range uint64(3) {
		require.NoError(t, s.sender.Scatter(&tr, request))
		s.until(tr.Finished)
		require.NoError(t, tr.Err())
		s.settle()
		for i, e := range s.engines {
			want := (round + 1) * 3
			if i == 2 {
				want *= 2
			}
			require.Equal(t, want, e.Counter(5).Value(), "receiver %d", i)
			if i == 3 {
				require.Equal(t, make([]byte, 1000), s.regions[i].Bytes())
			} else {
				require.Equal(t, s.source.Bytes()[i*1000:][:1000], s.regions[i].Bytes())
			}
		}
	}
}

// TestAScatterEndsWithItsLastTarget has one of its peers die: the others get theirs, and the error names the one.
func TestAScatterEndsWithItsLastTarget(t *testing.T) {
	w := newWorld(t, simrail.Config{Delay: time.Millisecond})
	s := newStar(w, 4, 1000, transferengine.Config{})
	s.network.Kill("192.0.2.3") // the second receiver
	var tr transferengine.Transfer
	require.NoError(t, s.sender.Scatter(&tr, transferengine.Scatter{Source: s.source, Targets: s.targets, Imm: 5, HasImm: true}))
	s.until(tr.Finished)
	var failed *transferengine.TransferError
	require.ErrorAs(t, tr.Err(), &failed)
	require.Same(t, s.peers[1], failed.Peer)
	require.Equal(t, "scatter", failed.Op)
	require.ErrorContains(t, tr.Err(), "scatter to 192.0.2.3 over sim:192.0.2.1: maybe delivered")
	s.settle()
	for i, e := range s.engines {
		if i != 1 {
			require.EqualValues(t, 1, e.Counter(5).Value())
			require.Equal(t, s.source.Bytes()[i*1000:][:1000], s.regions[i].Bytes())
		}
	}
	err := s.sender.Scatter(&tr, transferengine.Scatter{Source: s.source, Targets: s.targets})
	require.ErrorIs(t, err, rail.ErrPeerGone, "before anything is sent")
	require.NoError(t, s.sender.Scatter(&tr, transferengine.Scatter{Source: s.source, Targets: s.targets[2:]}))
	s.until(tr.Finished)
	require.NoError(t, tr.Err())
}

func TestAScatterIsRefusedWhole(t *testing.T) {
	s := newStar(newWorld(t, simrail.Config{}), 3, 10, transferengine.Config{})
	var tr transferengine.Transfer
	require.ErrorIs(t, s.sender.Scatter(&tr, transferengine.Scatter{}), syscall.EINVAL)
	s.targets[2].DestOffset = 5
	err := s.sender.Scatter(&tr, transferengine.Scatter{Source: s.source, Targets: s.targets})
	require.ErrorIs(t, err, syscall.EFAULT)
	require.ErrorContains(t, err, "scatter: target 2: scatter to 192.0.2.4: 10 bytes at offset 5 reach beyond the 10 bytes of Dest")
	s.settle()
	require.Zero(t, s.sender.Stats().Operations)
	s.targets[2].DestOffset = 0
	require.NoError(t, s.sender.Scatter(&tr, transferengine.Scatter{Source: s.source, Targets: s.targets}))
	require.ErrorIs(t, s.sender.Scatter(&tr, transferengine.Scatter{Source: s.source, Targets: s.targets}), syscall.EBUSY)
	s.settle()
	require.NoError(t, tr.Err())
}

// TestAScatterSaysWhichTargetsFailed, and what became of each.
func TestAScatterSaysWhichTargetsFailed(t *testing.T) {
	w := newWorld(t, simrail.Config{})
	s := newStar(w, 4, 8, transferengine.Config{})
	w.network.SetDelay(time.Second)
	var tr transferengine.Transfer
	require.NoError(t, s.sender.Scatter(&tr, transferengine.Scatter{Source: s.source, Targets: s.targets, Imm: 5, HasImm: true}))
	s.sender.Turn(w.Now())
	for _, i := range []int{1, 3} {
		w.network.Kill(fmt.Sprintf("192.0.2.%d", i+2))
	}
	s.until(tr.Finished)
	var failed *transferengine.ScatterError
	require.ErrorAs(t, tr.Err(), &failed)
	require.ErrorIs(t, tr.Err(), rail.ErrFlushed)
	var targets []int
	for _, f := range failed.Failed {
		targets = append(targets, f.Target)
		require.Same(t, s.peers[f.Target], f.Err.Peer)
		require.Equal(t, transferengine.MaybeDelivered, f.Err.Outcome)
		require.ErrorContains(t, tr.Err(), fmt.Sprintf("target %d: %v", f.Target, f.Err))
	}
	require.ElementsMatch(t, []int{1, 3}, targets)
	w.settle()
	var next transferengine.Transfer
	live := []transferengine.ScatterTarget{s.targets[0], s.targets[2]}
	require.NoError(t, s.sender.Scatter(&tr, transferengine.Scatter{Source: s.source, Targets: live}))
	require.NoError(t, s.sender.Write(&next, transferengine.Write{Peer: s.peers[0], Dest: s.targets[0].Dest}))
	s.until(func() bool { return tr.Finished() && next.Finished() })
	require.NoError(t, tr.Err(), "of the request before")
}

// TestAScatterThatCannotFitSaysSo: with more targets at one peer than may be in flight to it, waiting does not help.
func TestAScatterThatCannotFitSaysSo(t *testing.T) {
	p := newPair(t, 8, transferengine.Config{MaxTransfers: 4})
	targets := slices.Repeat([]transferengine.ScatterTarget{{Peer: p.toB, Dest: &p.descriptor, Length: 8}}, 5)
	var tr transferengine.Transfer
	err := p.a.Scatter(&tr, transferengine.Scatter{Source: p.source, Targets: targets})
	require.ErrorIs(t, err, syscall.EINVAL)
	require.NotErrorIs(t, err, transferengine.ErrQueueFull)
	require.ErrorContains(t, err, "5 targets are at this peer, at most 4 are possible (Config.MaxTransfers)")
	require.NoError(t, p.a.Scatter(&tr, transferengine.Scatter{Source: p.source, Targets: targets[:3]}))
	var next transferengine.Transfer
	require.ErrorIs(t, p.a.Scatter(&next, transferengine.Scatter{Source: p.source, Targets: targets[:2]}),
		transferengine.ErrQueueFull, "it fits once the other is done")
	p.settle()
	require.NoError(t, p.a.Scatter(&next, transferengine.Scatter{Source: p.source, Targets: targets[:4]}))
	p.settle()
}

func TestDeadlines(t *testing.T) {
	t.Run("nothing was posted", func(t *testing.T) {
		w := newWorld(t, simrail.Config{Immediates: 1})
		p := newPairIn(w, 8, transferengine.Config{TransferTimeout: time.Minute})
		w.network.Exhaust("192.0.2.2", true)
		var first, second, third transferengine.Transfer
		require.NoError(t, p.a.Write(&first, p.all(1)))
		request := p.all(1)
		request.Timeout = time.Second
		require.NoError(t, p.a.Write(&second, request))
		request.HasImm, request.Timeout = false, 0
		start := p.Now()
		p.until(second.Finished)
		require.Equal(t, time.Second, p.Now().Sub(start))
		require.NoError(t, first.Err())
		var failed *transferengine.TransferError
		require.ErrorAs(t, second.Err(), &failed)
		require.ErrorIs(t, failed, os.ErrDeadlineExceeded)
		require.Equal(t, transferengine.NotDelivered, failed.Outcome)
		require.ErrorContains(t, failed, "not done within 1s (Timeout, or Config.TransferTimeout): the peer or the NIC accepted no more")
		require.NoError(t, p.toB.Err(), "nothing has to be had back")
		require.NoError(t, p.a.Write(&third, request))
		require.NoError(t, p.finish(&third))
		require.EqualValues(t, 1, p.a.Stats().DeadlinesMissed)
	})
	t.Run("the peer does not acknowledge", func(t *testing.T) {
		w := newWorld(t, simrail.Config{})
		p := newPairIn(w, 8, transferengine.Config{TransferTimeout: 3 * time.Second})
		w.network.SetDelay(time.Hour)
		var tr, other transferengine.Transfer
		require.NoError(t, p.a.Write(&tr, p.all(1)))
		request := p.all(1)
		request.Timeout = time.Hour
		require.NoError(t, p.a.Write(&other, request))
		start := p.Now()
		p.until(func() bool { return tr.Finished() && other.Finished() })
		require.InDelta(t, 3*time.Second, p.Now().Sub(start), float64(20*time.Millisecond))
		require.ErrorIs(t, tr.Err(), os.ErrDeadlineExceeded)
		require.ErrorContains(t, tr.Err(), "maybe delivered: not done within 3s (Timeout, or Config.TransferTimeout): 1 operations were not acknowledged")
		p.until(func() bool { return p.toB.Err() != nil })
		require.ErrorIs(t, p.toB.Err(), os.ErrDeadlineExceeded)
		require.ErrorContains(t, p.toB.Err(), "this engine gave up the peer, because a write missed its deadline")
		require.Error(t, other.Err())
		require.NoError(t, p.source.Close())
	})
}

// TestAPeerThatAnswersNothingKeepsNobodyWaiting has one peer whose operations do not end.
func TestAPeerThatAnswersNothingKeepsNobodyWaiting(t *testing.T) {
	w := newWorld(t, simrail.Config{DeathWithin: time.Hour, Depth: 20})
	s := newStar(w, 2, 64, transferengine.Config{MaxTransfers: 64})
	s.network.Cut("192.0.2.1", "192.0.2.2")
	write := func(i int, tr *transferengine.Transfer) error {
		return s.sender.Write(tr, transferengine.Write{Peer: s.peers[i], Source: s.source, Dest: s.targets[i].Dest, Length: 64,
			Imm: 1, HasImm: true})
	}
	stuck := make([]transferengine.Transfer, 65)
	for i := range stuck[:64] {
		require.NoError(t, write(0, &stuck[i]))
	}
	err := write(0, &stuck[64])
	require.ErrorIs(t, err, transferengine.ErrQueueFull)
	require.ErrorContains(t, err, "write to 192.0.2.2: queue is full: 64 requests to this peer are in flight (Config.MaxTransfers)")
	for range 500 {
		var tr transferengine.Transfer
		require.NoError(t, write(1, &tr))
		s.until(tr.Finished)
		require.NoError(t, tr.Err())
	}
	require.EqualValues(t, 500+20, s.sender.Stats().Operations, "what the NIC takes for the peer is all that it has of it")
	require.False(t, stuck[0].Finished())
	s.network.Heal("192.0.2.1", "192.0.2.2")
	s.settle()
	require.NoError(t, stuck[63].Err())
}

// TestSilentPeersCostNothing has many peers answer nothing, each with as many requests as may be under way to it, and healthy ones
// be as fast as without.
func TestSilentPeersCostNothing(t *testing.T) {
	const healthy = 3
	took := func(silent int) time.Duration {
		w := newWorld(t, simrail.Config{Seed: 7, DeathWithin: time.Hour, Delay: time.Millisecond, Depth: 8})
		s := newStar(w, silent+healthy, 64, transferengine.Config{MaxTransfers: 20})
		write := func(i int, tr *transferengine.Transfer) error {
			return s.sender.Write(tr, transferengine.Write{Peer: s.peers[i], Source: s.source, Dest: s.targets[i].Dest, Length: 64,
				Imm: 1, HasImm: true, Timeout: time.Minute})
		}
		for i := range silent {
			s.network.Cut("192.0.2.1", fmt.Sprintf("192.0.2.%d", i+2))
			for range 20 {
				require.NoError(t, write(i, new(transferengine.Transfer)))
			}
			require.ErrorIs(t, write(i, new(transferengine.Transfer)), transferengine.ErrQueueFull)
			s.sender.Turn(w.Now())
		}
		w.network.SetDelay(0)
		start := w.Now()
		for range 20 {
			var transfers [healthy]transferengine.Transfer
			for i := range transfers {
				require.NoError(t, write(silent+i, &transfers[i]))
			}
			for i := range transfers {
				s.until(transfers[i].Finished)
				require.NoError(t, transfers[i].Err())
			}
		}
		passed := w.Now().Sub(start)
		for i := range silent {
			s.network.Heal("192.0.2.1", fmt.Sprintf("192.0.2.%d", i+2))
		}
		w.settle()
		return passed
	}
	alone := took(0)
	for _, silent := range []int{4, 16, 200} {
		require.Equal(t, alone, took(silent), "beside %d silent peers", silent)
	}
}

// TestTransfersBeyond4GiB copies the ends of each operation only.
func TestTransfersBeyond4GiB(t *testing.T) {
	const size = 5<<30 + 4097
	memory := func() []byte {
		b, err := mem.Map(size)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		return b.Bytes()
	}
	source, dest := memory(), memory()
	w := newWorld(t, simrail.Config{CopyEnds: 64, Delay: time.Millisecond, MaxLength: 1<<30 + 512})
	p := &pair{world: w, a: w.open(transferengine.Config{}), b: w.open(transferengine.Config{})}
	p.toB, _ = p.connect(p.a, p.b)
	p.source, p.dest = register(t, p.a, source), register(t, p.b, dest)
	p.descriptor = p.dest.Descriptor()
	marks := []int{0, 1<<30 + 511, 1<<30 + 512, 2<<30 + 1023, 2<<30 + 1024, 4 << 30, 4<<30 + 2048, size - 1}
	for i, at := range marks {
		source[at] = byte(i + 1)
	}
	var tr transferengine.Transfer
	require.NoError(t, p.a.Write(&tr, transferengine.Write{Peer: p.toB, Source: p.source, Dest: &p.descriptor, Length: size,
		Imm: 1, HasImm: true}))
	require.NoError(t, p.finish(&tr))
	p.settle()
	require.EqualValues(t, 6, p.a.Stats().Operations)
	require.EqualValues(t, size, p.a.Stats().Bytes)
	require.EqualValues(t, 1, p.b.Counter(1).Value())
	for i, at := range marks {
		if at != 4<<30 { // far from the ends of an operation
			require.Equal(t, byte(i+1), dest[at], fmt.Sprintf("at %d", at))
		}
	}
}
