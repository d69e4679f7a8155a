package transferengine_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

func TestWriteArrivesWithItsImmediate(t *testing.T) {
	p := newPair(t, 100, transferengine.Config{})
	var tr transferengine.Transfer
	require.ErrorIs(t, tr.Wait(soon(t)), syscall.EINVAL, "it serves no request yet")
	require.NoError(t, p.a.Write(&tr, p.all(7)))
	require.NoError(t, p.finish(&tr))
	p.settle()
	require.Equal(t, p.source.Bytes(), p.dest.Bytes())
	require.EqualValues(t, 1, p.b.Counter(7).Value())
	require.EqualValues(t, 1, p.b.Counter(7).Value(p.toA))
	require.Zero(t, p.b.Counter(8).Value())
	require.NoError(t, p.b.Counter(7).WaitFrom(soon(t), 1, p.toA))
	require.Zero(t, p.b.Counter(7).Value())
	require.NoError(t, tr.Wait(soon(t)), "a Wait for what is done")
}

// TestRandomWrites has both sides send requests of all shapes over a network without order, with back-pressure and delay,
// and compares memory and counts. The immediate of a shard must find the shard's bytes in place.
func TestRandomWrites(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		w := newWorld(t, simrail.Config{Ordered: ordered, MaxLength: 5000, PartialPosts: true,
			Delay: time.Millisecond, Depth: 16, MaxBatch: 8})
		p := newPairIn(w, 60000, transferengine.Config{QueueDepth: 4})
		want := make([]byte, 60000)
		var transfers [12]transferengine.Transfer
		total := uint64(0)
		for range 40 {
			for i := range transfers { // each owns 5000 bytes
				w := p.randomWrite(uint64(i)*5000, 5000)
				err := p.a.Write(&transfers[i], w)
				if errors.Is(err, transferengine.ErrQueueFull) {
					continue
				}
				require.NoError(t, err)
				copy(want[w.DestOffset:], p.source.Bytes()[w.SourceOffset:][:w.Length])
				total += uint64(max(w.Shards, 1))
				if p.random.IntN(3) == 0 {
					p.Round()
				}
			}
			p.settle()
			for i := range transfers {
				require.NoError(t, transfers[i].Err())
			}
			require.True(t, bytes.Equal(want, p.dest.Bytes()))
			require.Equal(t, total, p.b.Counter(3).Value())
		}
		stats := p.a.Stats()
		require.Equal(t, total, stats.ImmediatesSent)
		require.Equal(t, stats.Operations, stats.Completions)
		require.NotZero(t, stats.BackPressure)
		require.NotZero(t, stats.QueueFull)
		require.Zero(t, stats.Stray+stats.Errors)
	}
}

// randomWrite is a write of random size to the range of the destination.
func (p *pair) randomWrite(from, size uint64) transferengine.Write {
	start := p.random.Uint64N(size)
	length := p.random.Uint64N(size - start + 1)
	return transferengine.Write{Peer: p.toB, Source: p.source, Dest: &p.descriptor, DestOffset: from + start,
		SourceOffset: p.random.Uint64N(60000 - length + 1), Length: length, Imm: 3, HasImm: true, Shards: p.random.IntN(6)}
}

func TestImmediateOfAChunkedWriteComesLast(t *testing.T) {
	seed := rdmatest.Seed(t)
	for i := range uint64(30) {
		w := newWorld(t, simrail.Config{Seed: seed + i, MaxLength: 100, Delay: time.Millisecond})
		p := newPairIn(w, 1000, transferengine.Config{})
		var tr transferengine.Transfer
		require.NoError(t, p.a.Write(&tr, p.all(1)))
		p.until(func() bool { return p.b.Counter(1).Value() == 1 })
		require.Equal(t, p.source.Bytes(), p.dest.Bytes(), "seen by whoever has the immediate")
		require.NoError(t, p.finish(&tr))
		require.EqualValues(t, 10, p.a.Stats().Operations)
	}
}

func TestEmptyWritesCount(t *testing.T) {
	p := newPair(t, 64, transferengine.Config{})
	var tr transferengine.Transfer
	w := transferengine.Write{Peer: p.toB, Dest: &p.descriptor, Imm: math.MaxUint32, HasImm: true, Shards: 100}
	require.NoError(t, p.a.Write(&tr, w))
	require.NoError(t, p.finish(&tr))
	p.settle()
	require.EqualValues(t, 100, p.b.Counter(math.MaxUint32).Value())
	require.EqualValues(t, 100, p.a.Stats().Operations)

	w.HasImm = false
	require.NoError(t, p.a.Write(&tr, w))
	require.NoError(t, p.finish(&tr))
	require.EqualValues(t, 100, p.a.Stats().Operations, "nothing to say: nothing sent")

	w = transferengine.Write{Peer: p.toB, Source: p.source, SourceOffset: 64, Dest: &p.descriptor, DestOffset: 64}
	require.NoError(t, p.a.Write(&tr, w), "no bytes at the very end")
	require.NoError(t, p.finish(&tr))
}

func TestWritePages(t *testing.T) {
	const pageLength, stride, pages = 24, 32, 50
	w := newWorld(t, simrail.Config{Delay: time.Millisecond})
	p := newPairIn(w, pages*stride, transferengine.Config{})
	from, to := numbersOf(p.random.Perm(pages)[:20]), numbersOf(p.random.Perm(pages)[:20])
	want := make([]byte, pages*stride)
	for i := range from {
		copy(want[3+stride*to[i]:][:pageLength], p.source.Bytes()[5+stride*from[i]:])
	}
	var tr transferengine.Transfer
	request := transferengine.PagedWrite{Peer: p.toB, Source: p.source, SourceOffset: 5, SourceStride: stride,
		SourcePages: from, Dest: &p.descriptor, DestOffset: 3, DestStride: stride, DestPages: to, PageLength: pageLength,
		Imm: 9, HasImm: true, Shards: 3}
	require.NoError(t, p.a.WritePages(&tr, request))
	p.until(func() bool { return p.b.Counter(9).Value() == 3 })
	require.Equal(t, want, p.dest.Bytes())
	require.NoError(t, p.finish(&tr))
	require.EqualValues(t, 20, p.a.Stats().Operations)

	request.SourcePages, request.DestPages = nil, nil
	require.NoError(t, p.a.WritePages(&tr, request))
	require.NoError(t, p.finish(&tr))
	p.settle()
	require.EqualValues(t, 6, p.b.Counter(9).Value(), "no pages, as many immediates")
}

func numbersOf(n []int) (pages []uint32) {
	for _, i := range n {
		pages = append(pages, uint32(i))
	}
	return pages
}

func TestRequestsBeyondBoundsAreRefused(t *testing.T) {
	p := newPair(t, 100, transferengine.Config{})
	readOnly, err := p.b.Register(make([]byte, 100), transferengine.RemoteRead)
	require.NoError(t, err)
	defer func() { require.NoError(t, readOnly.Close()) }()
	forbidden := readOnly.Descriptor()
	own := p.source.Descriptor()
	type writes = transferengine.Write
	for name, c := range map[string]struct {
		change func(w *writes)
		want   error
	}{
		"destination too short":  {func(w *writes) { w.DestOffset = 1 }, syscall.EFAULT},
		"destination overflows":  {func(w *writes) { w.DestOffset = math.MaxUint64 }, syscall.EFAULT},
		"source too short":       {func(w *writes) { w.SourceOffset = 1 }, syscall.EFAULT},
		"source overflows":       {func(w *writes) { w.SourceOffset = math.MaxUint64 - 50 }, syscall.EFAULT},
		"length overflows":       {func(w *writes) { w.Length = math.MaxUint64 }, syscall.EFAULT},
		"no source":              {func(w *writes) { w.Source = nil }, syscall.EINVAL},
		"source of another":      {func(w *writes) { w.Source = p.dest }, syscall.EINVAL},
		"no destination":         {func(w *writes) { w.Dest = nil }, syscall.EINVAL},
		"empty destination":      {func(w *writes) { w.Dest = &transferengine.Descriptor{} }, syscall.EINVAL},
		"destination of another": {func(w *writes) { w.Dest = &own }, syscall.EINVAL},
		"no right to write":      {func(w *writes) { w.Dest = &forbidden }, syscall.EACCES},
		"no peer":                {func(w *writes) { w.Peer = nil }, syscall.EINVAL},
		"empty peer":             {func(w *writes) { w.Peer = &transferengine.Peer{} }, syscall.EINVAL},
		"peer of another":        {func(w *writes) { w.Peer = p.toA }, syscall.EINVAL},
		"shards below zero":      {func(w *writes) { w.Shards = -1 }, syscall.EINVAL},
		"too many shards":        {func(w *writes) { w.Shards = transferengine.MaxShards + 1 }, syscall.EINVAL},
	} {
		w := p.all(1)
		c.change(&w)
		var tr transferengine.Transfer
		require.ErrorIs(t, p.a.Write(&tr, w), c.want, name)
	}
	p.settle()
	require.Zero(t, p.a.Stats().Operations)
	require.NoError(t, p.source.Close(), "a refused request holds its source")
}

func TestPagesBeyondBoundsAreRefused(t *testing.T) {
	p := newPair(t, 100, transferengine.Config{})
	type pages = transferengine.PagedWrite
	for name, c := range map[string]struct {
		change func(w *pages)
		want   error
	}{
		"lawful":                   {func(*pages) {}, nil},
		"a source page too far":    {func(w *pages) { w.SourcePages = []uint32{10, 0} }, syscall.EFAULT},
		"a destination too far":    {func(w *pages) { w.DestPages = []uint32{0, 10} }, syscall.EFAULT},
		"a page cut short":         {func(w *pages) { w.DestOffset = 1 }, syscall.EFAULT},
		"stride times page is big": {func(w *pages) { w.SourceStride = 1 << 63; w.SourcePages = []uint32{0, 2} }, syscall.EFAULT},
		"offset is big":            {func(w *pages) { w.SourceOffset = math.MaxUint64 - 5 }, syscall.EFAULT},
		"length is big":            {func(w *pages) { w.PageLength = math.MaxUint64 }, syscall.EFAULT},
		"not as many":              {func(w *pages) { w.DestPages = []uint32{0} }, syscall.EINVAL},
		"no source":                {func(w *pages) { w.Source = nil }, syscall.EINVAL},
	} {
		w := transferengine.PagedWrite{Peer: p.toB, Source: p.source, SourceStride: 10, SourcePages: []uint32{0, 9},
			Dest: &p.descriptor, DestStride: 10, DestPages: []uint32{9, 0}, PageLength: 10}
		c.change(&w)
		var tr transferengine.Transfer
		require.ErrorIs(t, p.a.WritePages(&tr, w), c.want, name)
		p.settle()
	}
}

// TestTheFirstBadPageIsNamed has 3 of 2,712 pages out of bounds; the page of the largest number is not the first of them.
func TestTheFirstBadPageIsNamed(t *testing.T) {
	p := newPair(t, 100, transferengine.Config{})
	pages := make([]uint32, 2712)
	pages[1903], pages[2000], pages[2711] = 10, 1<<31, 10
	w := transferengine.PagedWrite{Peer: p.toB, Source: p.source, SourceStride: 10, SourcePages: make([]uint32, len(pages)),
		Dest: &p.descriptor, DestStride: 10, DestPages: pages, PageLength: 10}
	var tr transferengine.Transfer
	err := p.a.WritePages(&tr, w)
	require.ErrorIs(t, err, syscall.EFAULT)
	require.ErrorContains(t, err, "DestPages[1903] is page 10: 10 bytes at offset 0 + 10 × 10 reach beyond the 100 bytes of Dest, "+
		"as 3 of all 2712 pages do")
	w.DestPages, w.SourcePages, w.SourceOffset = w.SourcePages, pages, 5
	require.ErrorContains(t, p.a.WritePages(&tr, w), "SourcePages[1903] is page 10: 10 bytes at offset 5 + 10 × 10 reach beyond the "+
		"100 bytes of Source")
}

func TestATransferServesOneRequestAtATime(t *testing.T) {
	p := newPair(t, 100, transferengine.Config{})
	var tr transferengine.Transfer
	require.NoError(t, p.a.Write(&tr, p.all(1)))
	require.ErrorIs(t, p.a.Write(&tr, p.all(1)), syscall.EBUSY)
	require.ErrorIs(t, p.source.Close(), syscall.EBUSY)
	require.NoError(t, p.finish(&tr))
	require.NoError(t, p.a.Write(&tr, p.all(1)))
	require.NoError(t, p.finish(&tr))
	p.settle()
	require.EqualValues(t, 2, p.b.Counter(1).Value())
	require.NoError(t, p.source.Close())
	require.ErrorIs(t, p.a.Write(&tr, p.all(1)), net.ErrClosed, "from a closed region")
}

func TestAFullQueueRefuses(t *testing.T) {
	p := newPair(t, 100, transferengine.Config{QueueDepth: 4})
	transfers := make([]transferengine.Transfer, 5)
	for i := range 4 {
		require.NoError(t, p.a.Write(&transfers[i], p.all(1)))
	}
	require.ErrorIs(t, p.a.Write(&transfers[4], p.all(1)), transferengine.ErrQueueFull)
	require.EqualValues(t, 1, p.a.Stats().QueueFull)
	p.settle()
	require.NoError(t, p.a.Write(&transfers[4], p.all(1)), "the transfer that was refused is free")
	p.settle()
	require.EqualValues(t, 5, p.b.Counter(1).Value())
}

func TestAFailedWriteFailsItsTransferAlone(t *testing.T) {
	broken := errors.New("receiver not ready")
	third := func(o simrail.Operation) (f simrail.Fault) {
		if o.N == 2 {
			f.Err = broken
		}
		return f
	}
	w := newWorld(t, simrail.Config{MaxLength: 10, Depth: 2, Script: simrail.Script{Operation: third}})
	p := newPairIn(w, 100, transferengine.Config{})
	var bad, good transferengine.Transfer
	request := p.all(1)
	require.NoError(t, p.a.Write(&bad, request))
	request.Length, request.Imm = 10, 2
	require.NoError(t, p.a.Write(&good, request))
	err := p.finish(&bad)
	var failed *transferengine.TransferError
	require.ErrorAs(t, err, &failed)
	require.ErrorIs(t, err, broken)
	require.Equal(t, transferengine.MaybeDelivered, failed.Outcome)
	require.Same(t, p.toB, failed.Peer)
	require.False(t, failed.InFlight)
	require.EqualError(t, err, "write to 192.0.2.2 over sim:192.0.2.1: maybe delivered: receiver not ready")
	require.NoError(t, p.finish(&good))
	p.settle()
	require.Zero(t, p.b.Counter(1).Value(), "the immediate of a write that failed")
	require.EqualValues(t, 1, p.b.Counter(2).Value())
	require.Less(t, p.a.Stats().Operations, uint64(11), "the rest of a failed transfer is not sent")
}

// TestCauseWhileAPeerGoesDown: what is written to a peer whose end the rail knows of, and has not reported, fails for the reason of
// that end.
func TestCauseWhileAPeerGoesDown(t *testing.T) {
	w := newWorld(t, simrail.Config{DeathWithin: 10 * time.Millisecond})
	p := newPairIn(w, 8, transferengine.Config{})
	w.network.Kill("192.0.2.2")
	now := w.Now().Add(time.Second)
	p.b.Turn(now) // another engine's turn lets the news arrive
	var tr transferengine.Transfer
	require.NoError(t, p.a.Write(&tr, p.all(1)))
	p.a.Turn(now)
	require.True(t, tr.Finished())
	require.ErrorIs(t, tr.Err(), rail.ErrPeerGone)
	require.ErrorContains(t, tr.Err(), "not delivered")
}

// TestCauseWhileAPeerIsGivenUp: so does what is written to a peer that this engine has given up, and whose farewell is on its way.
func TestCauseWhileAPeerIsGivenUp(t *testing.T) {
	w := newWorld(t, simrail.Config{DeathWithin: time.Second})
	p := newPairIn(w, 8, transferengine.Config{})
	w.network.SetDelay(time.Hour)
	var first, next transferengine.Transfer
	request := p.all(1)
	request.Timeout = time.Millisecond
	require.NoError(t, p.a.Write(&first, request))
	for p.a.Turn(w.Now()); p.a.Stats().DeadlinesMissed == 0; p.a.Turn(w.Now()) {
		w.Advance(100 * time.Microsecond)
	}
	require.NoError(t, p.a.Write(&next, p.all(1)))
	for _, tr := range []*transferengine.Transfer{&first, &next} {
		require.ErrorIs(t, p.finish(tr), os.ErrDeadlineExceeded)
	}
	require.ErrorContains(t, next.Err(), "not delivered: this engine gave up the peer, because a write missed its deadline")
}

func TestALostPeerEndsItsTransfers(t *testing.T) {
	w := newWorld(t, simrail.Config{Depth: 3})
	p := newPairIn(w, 100, transferengine.Config{})
	w.network.SetDelay(time.Second)
	transfers := make([]transferengine.Transfer, 8)
	for i := range transfers {
		require.NoError(t, p.a.Write(&transfers[i], p.all(1)))
	}
	p.a.Turn(p.Now())
	require.EqualValues(t, 3, p.a.Stats().Operations)
	p.network.Kill("192.0.2.2")
	outcomes := map[transferengine.Outcome]int{}
	for i := range transfers {
		err := p.finish(&transfers[i])
		var failed *transferengine.TransferError
		require.ErrorAs(t, err, &failed)
		outcomes[failed.Outcome]++
	}
	require.Equal(t, map[transferengine.Outcome]int{transferengine.MaybeDelivered: 3, transferengine.NotDelivered: 5}, outcomes)
	require.ErrorIs(t, p.toB.Err(), rail.ErrPeerGone)
	<-p.toB.Done()
	require.Empty(t, p.a.Peers())
	err := p.a.Write(&transfers[0], p.all(1))
	require.ErrorIs(t, err, rail.ErrPeerGone)
	require.ErrorContains(t, err, "not delivered")
	require.NoError(t, p.source.Close())
}

func TestTheSameSeedReplaysTheSameRun(t *testing.T) {
	run := func(seed uint64) (hash, turns uint64) {
		w := newWorld(t, simrail.Config{Seed: seed, PartialPosts: true, Delay: time.Millisecond, MaxLength: 700})
		engines := make([]*transferengine.Engine, 20)
		regions := make([]*transferengine.Region, len(engines))
		for i := range engines {
			engines[i] = w.open(transferengine.Config{QueueDepth: 128})
			regions[i] = register(t, engines[i], make([]byte, 5000))
		}
		transfers := make([]transferengine.Transfer, 200)
		for i := range transfers {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			from, to := random.IntN(len(engines)), random.IntN(len(engines))
			if from == to {
				continue
			}
			peer, _ := w.connect(engines[from], engines[to])
			d := regions[to].Descriptor()
			require.NoError(t, engines[from].Write(&transfers[i], transferengine.Write{Peer: peer, Source: regions[from],
				Dest: &d, Length: random.Uint64N(5000), Imm: 1, HasImm: true, Shards: random.IntN(4)}))
		}
		w.settle()
		for _, e := range engines {
			turns += e.Stats().Turns
		}
		return w.network.Hash(), turns
	}
	seed := rdmatest.Seed(t)
	hash, turns := run(seed)
	require.Greater(t, turns, uint64(200))
	again, _ := run(seed)
	require.Equal(t, hash, again)
	other, _ := run(seed + 1)
	require.NotEqual(t, hash, other)
}
