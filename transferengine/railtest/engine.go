package railtest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
)

// promptly is how long a write to a target that computes may take.
const promptly = 50 * time.Millisecond

// progresses are the modes of an engine that nobody drives by hand.
var progresses = []transferengine.Progress{transferengine.Inline, transferengine.Dedicated}

// takesEngines tells whether an engine can use the rails, and lives in real time from then on, as engines that drive
// themselves do.
func (w *world) takesEngines() bool {
	real := *w.suite
	real.Virtual = false
	w.suite = &real
	return w.probe().ImmSource
}

// engine opens an engine, which the end of the clause closes.
func (w *world) engine(opener rail.Opener, progress transferengine.Progress) *transferengine.Engine {
	w.Helper()
	e, err := transferengine.Open(transferengine.Config{Rails: []rail.Opener{opener}, Progress: progress,
		TransferTimeout: 2 * w.suite.patience(), CloseTimeout: w.suite.patience()}) // a wait's context ends first
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, e.Close()) })
	return e
}

// engines opens a sender and a receiver, connected, and returns the receiver's memory.
func (w *world) engines(ctx context.Context, progress transferengine.Progress) (a, b *transferengine.Engine,
	toB *transferengine.Peer, dest transferengine.Descriptor) {
	w.Helper()
	a, b = w.engine(w.network.Opener(), progress), w.engine(w.network.Opener(), progress)
	region, err := b.Register(make([]byte, 4096), transferengine.RemoteWrite)
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, region.Close()) })
	toB, err = a.Connect(ctx, b.Address())
	require.NoError(w, err)
	return a, b, toB, region.Descriptor()
}

// targetThatComputes has a target call nothing for a time, while writes to it, with more immediates than it granted, are to
// complete promptly. What a goroutine that does nothing else was without a processor meanwhile is not the engine's. It does
// not see all of that: a write goes back and forth between several goroutines, and where processors are as few as here each
// may find them taken, by the target for as long as the runtime lets a goroutine go on (10 ms). So one write in a hundred
// may take longer, but none much longer.
func targetThatComputes(w *world) {
	if !w.takesEngines() {
		return
	}
	for _, progress := range progresses {
		ctx := rdmatest.Context(w.TB, w.suite.Patience)
		a, b, toB, dest := w.engines(ctx, progress)
		computing, stop := context.WithTimeout(ctx, w.suite.Compute)
		done := make(chan int)
		go func() {
			n := 0
			for computing.Err() == nil {
				n++
			}
			done <- n
		}()
		processor := watchProcessor(computing)
		source, err := a.Register(make([]byte, 4096), 0)
		require.NoError(w, err)
		w.Cleanup(func() {
			_ = a.Shutdown(computing) // which has ended: what is in flight, after a failure, is cut off
			require.NoError(w, source.Close())
		})
		prompt := w.suite.limit(promptly)
		writes, late := 0, 0
		var longest, longestOwn time.Duration
		for computing.Err() == nil {
			var t transferengine.Transfer
			start, missed := time.Now(), processor.missed()
			require.NoError(w, a.Write(&t, transferengine.Write{Peer: toB, Source: source, Dest: &dest, Length: 4096, Imm: 1,
				HasImm: true, Shards: 40}))
			require.NoError(w, t.Wait(ctx))
			took := time.Since(start)
			own := took - (processor.missed() - missed)
			longest, longestOwn = max(longest, took), max(longestOwn, own)
			if writes++; own > prompt {
				late++
			}
		}
		stop()
		<-done
		w.Logf("progress %d: %d writes of 40 immediates while the target computed: %d took over %v, the longest %v, of which %v "+
			"with a processor", progress, writes, late, prompt, longest, longestOwn)
		require.Positive(w, writes)
		require.LessOrEqual(w, late, max(writes/100, 1))
		require.LessOrEqual(w, longestOwn, 4*prompt)
		require.NoError(w, b.Counter(1).Wait(ctx, uint64(40*writes)))
	}
}

// processor is how long a goroutine that asks for a processor every watchInterval was without one.
type processor struct {
	mu     sync.Mutex
	since  time.Time // when it had one last
	absent time.Duration
}

const watchInterval = time.Millisecond

// watchProcessor watches until the context ends.
func watchProcessor(ctx context.Context) *processor {
	p := &processor{since: time.Now()}
	go func() {
		for ctx.Err() == nil {
			time.Sleep(watchInterval)
			p.had(time.Now())
		}
	}()
	return p
}

// had notes that the goroutine has a processor.
func (p *processor) had(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.absent, p.since = p.absent+p.late(now), now
}

// late is how much longer the goroutine sleeps than it should; as much again as it should is usual. Under mu.
func (p *processor) late(now time.Time) time.Duration {
	return max(now.Sub(p.since)-2*watchInterval, 0)
}

// missed is how long it was without a processor until now.
func (p *processor) missed() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.absent + p.late(time.Now())
}

// observed remembers the address of the rail that it opened.
type observed struct {
	rail.Opener
	address []byte
}

// Open implements [rail.Opener].
func (o *observed) Open(i rail.Incarnation) (rail.Rail, error) {
	r, err := o.Opener.Open(i)
	if err == nil {
		o.address = r.Address()
	}
	return r, err
}

// receiverIsTold has a receiver wait for immediates of a sender that dies.
func receiverIsTold(w *world) {
	if !w.takesEngines() {
		return
	}
	within := w.probe().DeathWithin + w.suite.limit(slack)
	for _, progress := range progresses {
		ctx := rdmatest.Context(w.TB, w.suite.Patience)
		opener := &observed{Opener: w.network.Opener()}
		e := w.engine(opener, progress)
		v := w.victim(opener.address)
		for len(e.Peers()) == 0 && ctx.Err() == nil {
			e.Poll()
			for _, n := range v.nodes {
				n.turn()
			}
		}
		require.NoError(w, ctx.Err())
		told := make(chan error, 1)
		peers := e.Peers() // before it dies: a Wait that names nobody has nobody to lose
		go func() { told <- e.Counter(1).WaitFrom(ctx, 1, peers...) }()
		v.kill()
		killed := time.Now()
		err := <-told
		var missing *transferengine.MissingError
		require.ErrorAs(w, err, &missing)
		require.ErrorIs(w, err, rail.ErrPeerGone)
		require.LessOrEqual(w, time.Since(killed), within, "told too late")
		w.settle(v)
	}
}
