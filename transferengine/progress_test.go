package transferengine_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

// modes runs a test with both kinds of progress.
func modes(t *testing.T, test func(t *testing.T, progress transferengine.Progress)) {
	t.Run("inline", func(t *testing.T) { test(t, transferengine.Inline) })
	t.Run("dedicated", func(t *testing.T) { test(t, transferengine.Dedicated) })
}

// openDriven opens an engine with its goroutines.
func openDriven(t testing.TB, n *simrail.Network, address string, config transferengine.Config) *transferengine.Engine {
	t.Helper()
	if config.Rails == nil {
		config.Rails = []rail.Opener{n.Rail(address)}
	}
	e, err := transferengine.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// driven is a pair whose engines have their goroutines.
func driven(t testing.TB, n *simrail.Network, size int, config transferengine.Config) *pair {
	t.Helper()
	p := &pair{world: &world{t: t, network: n}}
	p.a, p.b = openDriven(t, n, "192.0.2.1", config), openDriven(t, n, "192.0.2.2", config)
	p.join(size)
	return p
}

// join connects the engines of a pair, from both sides, and registers their memory.
func (p *pair) join(size int) {
	p.t.Helper()
	ctx := rdmatest.Context(p.t, 10*time.Second)
	var err error
	p.toB, err = p.a.Connect(ctx, p.b.Address())
	require.NoError(p.t, err)
	p.toA, err = p.b.Connect(ctx, p.a.Address())
	require.NoError(p.t, err)
	p.source = register(p.t, p.a, make([]byte, size))
	p.dest = register(p.t, p.b, make([]byte, size))
	p.descriptor = p.dest.Descriptor()
}

func TestPingPong(t *testing.T) {
	modes(t, func(t *testing.T, progress transferengine.Progress) {
		ctx := rdmatest.Context(t, 20*time.Second)
		p := driven(t, newNetwork(t, simrail.Config{}), 64, transferengine.Config{Progress: progress})
		dest := register(t, p.a, make([]byte, 64)).Descriptor()
		const rounds = 2000
		var wait sync.WaitGroup
		wait.Go(func() {
			var tr transferengine.Transfer
			for range rounds {
				if p.b.Counter(1).WaitFrom(ctx, 1, p.toA) != nil {
					return
				}
				pong := transferengine.Write{Peer: p.toA, Source: p.dest, Dest: &dest, Length: 64, Imm: 2, HasImm: true}
				if p.b.Write(&tr, pong) != nil || tr.Wait(ctx) != nil {
					return
				}
			}
		})
		var tr transferengine.Transfer
		for i := range rounds {
			p.source.Bytes()[0] = byte(i)
			require.NoError(t, p.a.Write(&tr, p.all(1)))
			require.NoError(t, p.a.Counter(2).WaitFrom(ctx, 1, p.toB))
			require.NoError(t, tr.Wait(ctx))
		}
		wait.Wait()
	})
}

// TestManyGoroutines has many goroutines wait for transfers and counters of the same engines, most of them parked, so that
// the worker is handed on all the time. A lost wake-up ends it by the deadline.
func TestManyGoroutines(t *testing.T) {
	modes(t, func(t *testing.T, progress transferengine.Progress) {
		ctx := rdmatest.Context(t, 30*time.Second)
		f := newNetwork(t, simrail.Config{Delay: 50 * time.Microsecond})
		p := driven(t, f, 64*16, transferengine.Config{Progress: progress})
		const goroutines, rounds = 16, 100
		var wait sync.WaitGroup
		for g := range uint32(goroutines) {
			wait.Go(func() {
				var tr transferengine.Transfer
				for range rounds {
					w := transferengine.Write{Peer: p.toB, Source: p.source, SourceOffset: uint64(g) * 64, Dest: &p.descriptor,
						DestOffset: uint64(g) * 64, Length: 64, Imm: g, HasImm: true, Shards: 2}
					if err := p.a.Write(&tr, w); err != nil {
						t.Error(err)
						return
					}
					if err := tr.Wait(ctx); err != nil {
						t.Error(err)
						return
					}
				}
			})
			wait.Go(func() {
				for range rounds {
					if err := p.b.Counter(g).WaitFrom(ctx, 2, p.toA); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wait.Wait()
		require.EqualValues(t, goroutines*rounds*2, p.b.Stats().Immediates)
		require.Zero(t, p.a.Stats().Stray+p.b.Stats().Stray)
	})
}

// TestAComputingTargetIsDriven has a target that never waits, on a network where only the target's turns move anything.
func TestAComputingTargetIsDriven(t *testing.T) {
	modes(t, func(t *testing.T, progress transferengine.Progress) {
		ctx := rdmatest.Context(t, 20*time.Second)
		f := newNetwork(t, simrail.Config{TargetDriven: true})
		p := driven(t, f, 64, transferengine.Config{Progress: progress})
		computing, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			for computing.Err() == nil { // the target's application
				runtime.Gosched()
			}
		}()
		var tr transferengine.Transfer
		for range 100 {
			require.NoError(t, p.a.Write(&tr, p.all(1)))
			require.NoError(t, tr.Wait(ctx))
		}
		require.EqualValues(t, 100, p.b.Counter(1).Value())
	})
}

// TestAnUnwaitedWriteIsSent has nobody wait, poll or ask at the sender.
func TestAnUnwaitedWriteIsSent(t *testing.T) {
	modes(t, func(t *testing.T, progress transferengine.Progress) {
		ctx := rdmatest.Context(t, 20*time.Second)
		p := driven(t, newNetwork(t, simrail.Config{}), 64, transferengine.Config{Progress: progress})
		transfers := make([]transferengine.Transfer, 100)
		for i := range transfers {
			require.NoError(t, p.a.Write(&transfers[i], p.all(1)))
			require.NoError(t, p.b.Counter(1).WaitFrom(ctx, 1, p.toA))
		}
		for i := range transfers {
			require.NoError(t, transfers[i].Wait(ctx))
		}
	})
}

func TestPollDrives(t *testing.T) {
	modes(t, func(t *testing.T, progress transferengine.Progress) {
		ctx := rdmatest.Context(t, 20*time.Second)
		p := driven(t, newNetwork(t, simrail.Config{}), 64, transferengine.Config{Progress: progress})
		var tr transferengine.Transfer
		require.NoError(t, p.a.Write(&tr, p.all(1)))
		for !tr.Done() && ctx.Err() == nil {
			runtime.Gosched()
		}
		require.NoError(t, ctx.Err())
		require.NoError(t, tr.Err())
		for p.b.Counter(1).Value() == 0 && ctx.Err() == nil {
			p.b.Poll()
			runtime.Gosched()
		}
		require.NoError(t, ctx.Err())
	})
}

// TestTheWorkerIsHandedOn has a waiter that drives leave, by its context, while another depends on the worker.
func TestTheWorkerIsHandedOn(t *testing.T) {
	ctx := rdmatest.Context(t, 20*time.Second)
	for range 50 {
		f := newNetwork(t, simrail.Config{})
		p := driven(t, f, 64, transferengine.Config{})
		leaving, leave := context.WithCancel(ctx)
		left, got := make(chan error, 1), make(chan error, 1)
		go func() { left <- p.b.Counter(1).WaitFrom(leaving, 1, p.toA) }()
		go func() { got <- p.b.Counter(2).WaitFrom(ctx, 1, p.toA) }()
		leave()
		require.ErrorIs(t, <-left, context.Canceled)
		var tr transferengine.Transfer
		require.NoError(t, p.a.Write(&tr, p.all(2)))
		require.NoError(t, <-got)
		require.NoError(t, tr.Wait(ctx))
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	modes(t, func(t *testing.T, progress transferengine.Progress) {
		f := newNetwork(t, simrail.Config{})
		p := driven(t, f, 64, transferengine.Config{Progress: progress})
		short := rdmatest.Context(t, 5*time.Millisecond)
		err := p.b.Counter(1).WaitFrom(short, 1, p.toA)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "1 of 1 from 192.0.2.1")

		f.SetDelay(time.Hour)
		var tr transferengine.Transfer
		require.NoError(t, p.a.Write(&tr, p.all(1)))
		err = tr.Wait(short)
		var failed *transferengine.TransferError
		require.ErrorAs(t, err, &failed)
		require.True(t, failed.InFlight)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "still in flight")
		require.ErrorIs(t, p.a.Shutdown(short), context.DeadlineExceeded)
		require.Error(t, tr.Wait(soon(t)), "what was cut off")
		require.ErrorIs(t, p.toB.Err(), net.ErrClosed)
		<-p.toA.Done()
	})
}

func TestShutdownAwaitsWhatIsInFlight(t *testing.T) {
	modes(t, func(t *testing.T, progress transferengine.Progress) {
		ctx := rdmatest.Context(t, 20*time.Second)
		f := newNetwork(t, simrail.Config{Delay: 5 * time.Millisecond})
		p := driven(t, f, 64, transferengine.Config{Progress: progress})
		transfers := make([]transferengine.Transfer, 50)
		for i := range transfers {
			require.NoError(t, p.a.Write(&transfers[i], p.all(1)))
		}
		require.NoError(t, p.a.Shutdown(ctx))
		for i := range transfers {
			require.NoError(t, transfers[i].Wait(ctx))
		}
		require.ErrorIs(t, p.a.Write(&transfers[0], p.all(1)), net.ErrClosed)
		require.NoError(t, p.b.Counter(1).WaitFrom(ctx, 50, p.toA), "sent before the peer went")
		require.NoError(t, p.a.Shutdown(ctx), "again")
	})
}

// TestALostPeerFailsThoseWhoOnlyWait has nothing in flight to notice by.
func TestALostPeerFailsThoseWhoOnlyWait(t *testing.T) {
	modes(t, func(t *testing.T, progress transferengine.Progress) {
		ctx := rdmatest.Context(t, 20*time.Second)
		f := newNetwork(t, simrail.Config{})
		p := driven(t, f, 64, transferengine.Config{Progress: progress})
		failed := make(chan error, 4)
		for range cap(failed) {
			go func() { failed <- p.b.Counter(1).WaitFrom(ctx, 1, p.toA) }()
		}
		f.Kill("192.0.2.1")
		for range cap(failed) {
			err := <-failed
			require.ErrorIs(t, err, rail.ErrPeerGone)
			require.ErrorContains(t, err, "192.0.2.1")
		}
	})
}

func TestCloseEndsWaits(t *testing.T) {
	modes(t, func(t *testing.T, progress transferengine.Progress) {
		ctx := rdmatest.Context(t, 20*time.Second)
		e := openDriven(t, newNetwork(t, simrail.Config{}), "192.0.2.1", transferengine.Config{Progress: progress})
		nobody := openDriven(t, newNetwork(t, simrail.Config{}), "192.0.2.9", transferengine.Config{}).Address()
		ended := make(chan error, 6)
		for range 3 {
			go func() { ended <- e.Counter(1).Wait(ctx, 1) }()
			go func() { _, err := e.Connect(ctx, nobody); ended <- err }()
		}
		require.NoError(t, e.Close())
		for range cap(ended) {
			require.ErrorIs(t, <-ended, net.ErrClosed)
		}
	})
}

// deafRail cannot wait.
type deafRail struct {
	rail.Rail
	opener rail.Opener
}

func (d *deafRail) Open(i rail.Incarnation) (_ rail.Rail, err error) {
	d.Rail, err = d.opener.Open(i)
	return d, err
}

func (d *deafRail) Wait(context.Context) error { return syscall.EIO }

// TestARailThatCannotWait still makes progress, by a timer.
func TestARailThatCannotWait(t *testing.T) {
	modes(t, func(t *testing.T, progress transferengine.Progress) {
		ctx := rdmatest.Context(t, 20*time.Second)
		f := newNetwork(t, simrail.Config{TargetDriven: true})
		p := &pair{world: &world{t: t, network: f}}
		for _, e := range []struct {
			engine  **transferengine.Engine
			address string
		}{{&p.a, "192.0.2.1"}, {&p.b, "192.0.2.2"}} {
			*e.engine = openDriven(t, f, "", transferengine.Config{Progress: progress,
				Rails: []rail.Opener{&deafRail{opener: f.Rail(e.address)}}})
		}
		p.join(64)
		var tr transferengine.Transfer
		require.NoError(t, p.a.Write(&tr, p.all(1)))
		require.NoError(t, tr.Wait(ctx))
	})
}

// armedRail knows whether it is armed, which is the last thing before an engine sleeps.
type armedRail struct {
	rail.Rail
	opener rail.Opener
	armed  atomic.Bool
}

func (a *armedRail) Open(i rail.Incarnation) (_ rail.Rail, err error) {
	a.Rail, err = a.opener.Open(i)
	return a, err
}

func (a *armedRail) Arm() bool {
	ready := a.Rail.Arm()
	a.armed.Store(!ready)
	return ready
}

func (a *armedRail) Wait(ctx context.Context) error {
	err := a.Rail.Wait(ctx)
	a.armed.Store(false)
	return err
}

func (a *armedRail) awaitSleep() {
	for !a.armed.Load() {
		runtime.Gosched()
	}
}

// TestIdleCostsNothing looks at whether an engine without traffic still turns.
func TestIdleCostsNothing(t *testing.T) {
	modes(t, func(t *testing.T, progress transferengine.Progress) {
		f := newNetwork(t, simrail.Config{})
		p := &pair{world: &world{t: t, network: f}}
		p.a = openDriven(t, f, "192.0.2.1", transferengine.Config{Progress: progress})
		b := &armedRail{opener: f.Rail("192.0.2.2")}
		p.b = openDriven(t, f, "", transferengine.Config{Progress: progress, Rails: []rail.Opener{b}})
		p.join(64)
		b.awaitSleep()
		before := p.b.Stats().Turns
		_ = p.b.Counter(1).WaitFrom(rdmatest.Context(t, 300*time.Millisecond), 1, p.toA)
		// A waiter, on a rail that cannot spin, turns for 2 ms at most, and so may the back-up goroutine.
		require.Less(t, p.b.Stats().Turns-before, uint64(30000))
		b.awaitSleep()
		before = p.b.Stats().Turns
		<-rdmatest.Context(t, 50*time.Millisecond).Done()
		require.LessOrEqual(t, p.b.Stats().Turns-before, uint64(1))
	})
}

// TestAWriteIsPostedByItsOwnCall, also behind others that are in flight; those that say that more follow wait for the last one.
func TestAWriteIsPostedByItsOwnCall(t *testing.T) {
	p := toSink(t, false)
	var transfers [6]transferengine.Transfer
	for i := range transfers[:3] {
		require.NoError(t, p.a.Write(&transfers[i], p.all(1)))
		require.EqualValues(t, i+1, p.a.Stats().Operations)
	}
	request := p.all(1)
	for i := range transfers[3:] {
		request.More = i < 2
		require.EqualValues(t, 3, p.a.Stats().Operations)
		require.NoError(t, p.a.Write(&transfers[3+i], request))
	}
	require.EqualValues(t, 6, p.a.Stats().Operations)
	p.settle1(p.a)
	leave := p.a.Drive()
	request.More = false
	require.NoError(t, p.a.Write(&transfers[0], request))
	require.EqualValues(t, 6, p.a.Stats().Operations, "somebody else drives")
	leave()
	require.EqualValues(t, 7, p.a.Stats().Operations, "who has seen to it before he left")
	p.settle1(p.a)
}

// TestAFullQueueIsEmptiedByWhoFindsItSo, unless somebody else drives.
func TestAFullQueueIsEmptiedByWhoFindsItSo(t *testing.T) {
	p := toRailWith(t, &sink{}, false, transferengine.Config{QueueDepth: 2})
	var transfers [4]transferengine.Transfer
	request := p.all(1)
	request.More = true
	for i := range transfers[:2] {
		require.NoError(t, p.a.Write(&transfers[i], request))
	}
	require.ErrorIs(t, p.a.Write(&transfers[2], request), transferengine.ErrQueueFull)
	require.NoError(t, p.a.Write(&transfers[2], p.all(1)))
	p.settle1(p.a)
	require.EqualValues(t, 3, p.a.Stats().Operations)
}

// TestNobodyWaits for writes that are made at any rate: each is posted soon, also where the rail had no room for it at first.
func TestNobodyWaits(t *testing.T) {
	modes(t, func(t *testing.T, progress transferengine.Progress) {
		for _, every := range []time.Duration{0, 50 * time.Microsecond, 200 * time.Microsecond, time.Millisecond} {
			p := driven(t, newNetwork(t, simrail.Config{Depth: 16}), 64, transferengine.Config{Progress: progress})
			ctx := soon(t)
			const writes = 300
			transfers := make([]transferengine.Transfer, writes)
			for n := range uint64(writes) {
				tr := &transfers[n]
				for errors.Is(p.a.Write(tr, p.all(1)), transferengine.ErrQueueFull) {
					require.NoError(t, ctx.Err())
				}
				for until := time.Now().Add(every); time.Now().Before(until); {
					runtime.Gosched()
				}
				if every > 0 && progress == transferengine.Inline {
					require.Eventually(t, func() bool { return p.a.Stats().Operations > n },
						rdmatest.Deadline(time.Second), 10*time.Microsecond, "write %d every %v", n, every)
				}
			}
			require.NoError(t, p.b.Counter(1).Wait(ctx, writes))
			for i := range transfers {
				require.NoError(t, transfers[i].Wait(ctx))
			}
		}
	})
}

// TestATurnThatFilledAllEvents leaves the rest to whoever drives next, though the rail has nothing new to notify of.
func TestATurnThatFilledAllEvents(t *testing.T) {
	s := &sink{}
	p := toRail(t, s, true)
	p.a.AwaitSleep()
	leave := p.a.Drive()
	s.held = true
	transfers := make([]transferengine.Transfer, 200)
	for i := range transfers {
		require.NoError(t, p.a.Write(&transfers[i], p.all(1)))
	}
	for p.a.Stats().Operations < 200 {
		p.a.TurnHeld()
	}
	s.held = false
	p.a.TurnHeld()
	require.False(t, transfers[199].Finished())
	leave()
	require.Eventually(t, transfers[199].Finished, rdmatest.Deadline(time.Second), 100*time.Microsecond)
}

// spinningRail is a rail that looks by itself, and counts.
type spinningRail struct {
	armedRail
	spins atomic.Int64
}

func (s *spinningRail) Open(i rail.Incarnation) (_ rail.Rail, err error) {
	s.Rail, err = s.opener.Open(i)
	return s, err
}

func (s *spinningRail) Spin(time.Duration, *atomic.Uint64, uint64) bool {
	s.spins.Add(1)
	return s.Arm()
}

// lookingRail looks until it is called.
type lookingRail struct {
	armedRail
	looking chan struct{} // somebody does
	over    atomic.Bool
}

func (l *lookingRail) Open(i rail.Incarnation) (_ rail.Rail, err error) {
	l.Rail, err = l.opener.Open(i)
	return l, err
}

func (l *lookingRail) Spin(_ time.Duration, call *atomic.Uint64, was uint64) bool {
	for call.Load() == was && !l.over.Load() {
		if l.Arm() {
			return true
		}
		select {
		case l.looking <- struct{}{}:
		default:
			runtime.Gosched()
		}
	}
	return false
}

// TestALookEndsWhenSomethingIsQueued however long it would last.
func TestALookEndsWhenSomethingIsQueued(t *testing.T) {
	modes(t, func(t *testing.T, progress transferengine.Progress) {
		ctx, cancel := context.WithCancel(rdmatest.Context(t, 20*time.Second))
		f := newNetwork(t, simrail.Config{})
		p := &pair{world: &world{t: t, network: f}}
		p.a = openDriven(t, f, "192.0.2.1", transferengine.Config{Progress: progress})
		b := &lookingRail{armedRail: armedRail{opener: f.Rail("192.0.2.2")}, looking: make(chan struct{})}
		t.Cleanup(func() { b.over.Store(true) })
		p.b = openDriven(t, f, "", transferengine.Config{Progress: progress, Rails: []rail.Opener{b}})
		p.join(64)
		done := make(chan error, 1)
		go func() { done <- p.b.Counter(1).WaitFrom(ctx, 1, p.toA) }() // drives, when inline
		select {
		case <-b.looking:
		case <-ctx.Done():
			t.Fatal("nobody looks")
		}
		peer, err := p.b.Connect(ctx, p.a.Address())
		b.over.Store(true)
		require.NoError(t, err)
		require.Equal(t, p.toA, peer)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

// TestADriverLooksInsteadOfTurning while nothing comes, and turns for what does.
func TestADriverLooksInsteadOfTurning(t *testing.T) {
	modes(t, func(t *testing.T, progress transferengine.Progress) {
		ctx := rdmatest.Context(t, 20*time.Second)
		f := newNetwork(t, simrail.Config{})
		p := &pair{world: &world{t: t, network: f}}
		p.a = openDriven(t, f, "192.0.2.1", transferengine.Config{Progress: progress})
		b := &spinningRail{armedRail: armedRail{opener: f.Rail("192.0.2.2")}}
		p.b = openDriven(t, f, "", transferengine.Config{Progress: progress, Rails: []rail.Opener{b}})
		p.join(64)
		var tr transferengine.Transfer
		for range 100 {
			require.NoError(t, p.a.Write(&tr, p.all(1)))
			require.NoError(t, p.b.Counter(1).WaitFrom(ctx, 1, p.toA))
			require.NoError(t, tr.Wait(ctx))
		}
		b.awaitSleep()
		before, turns := b.spins.Load(), p.b.Stats().Turns
		_ = p.b.Counter(1).WaitFrom(rdmatest.Context(t, 50*time.Millisecond), 1, p.toA)
		// The traffic alone may leave an inline driver nothing to look for, and a dedicated one is asleep by now.
		require.Positive(t, b.spins.Load())
		require.Less(t, p.b.Stats().Turns-turns, uint64(10+(b.spins.Load()-before)/2))
	})
}

// TestRandomTraffic has goroutines of three engines do all things at once, and one engine die.
func TestRandomTraffic(t *testing.T) {
	modes(t, func(t *testing.T, progress transferengine.Progress) {
		ctx := rdmatest.Context(t, 30*time.Second)
		f := newNetwork(t, simrail.Config{PartialPosts: true, Delay: 20 * time.Microsecond})
		var engines []*transferengine.Engine
		var dests []transferengine.Descriptor
		for i := range 3 {
			e := openDriven(t, f, fmt.Sprintf("192.0.2.%d", i+1), transferengine.Config{Progress: progress})
			engines = append(engines, e)
			dests = append(dests, register(t, e, make([]byte, 100)).Descriptor())
		}
		var wait sync.WaitGroup
		var failures atomic.Int32
		for i, e := range engines {
			for j := range engines {
				if i == j {
					continue
				}
				peer, err := e.Connect(ctx, engines[j].Address())
				require.NoError(t, err)
				wait.Go(func() {
					var tr transferengine.Transfer
					for n := range 300 {
						if i == 2 && j == 0 && n == 150 {
							f.Kill("192.0.2.3")
						}
						w := transferengine.Write{Peer: peer, Dest: &dests[j], Imm: 1, HasImm: true, Shards: n % 5}
						if err := e.Write(&tr, w); err == nil && tr.Wait(ctx) == nil {
							continue
						}
						failures.Add(1)
						return
					}
				})
			}
		}
		wait.Wait()
		require.NoError(t, ctx.Err())
		require.NotZero(t, failures.Load(), "of the engine that died, at least")
		require.EqualValues(t, 0, engines[0].Stats().Stray)
	})
}

// TestDoneWhileARequestBegins asks whether transfers are done that another goroutine is only about to hand over.
func TestDoneWhileARequestBegins(t *testing.T) {
	p := toSink(t, true)
	ctx := soon(t)
	for range 2000 {
		tr := new(transferengine.Transfer)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for !tr.Done() {
				runtime.Gosched()
			}
		}()
		require.NoError(t, p.a.Write(tr, p.all(1)))
		require.NoError(t, tr.Wait(ctx))
		<-done
		require.NoError(t, p.a.Counter(1).Wait(ctx, 1))
	}
}

// TestNoSpin: with Config.NoSpin a driver that finds nothing sleeps at once, however short its last sleep was.
func TestNoSpin(t *testing.T) {
	n := newNetwork(t, simrail.Config{})
	for i, config := range []transferengine.Config{{}, {NoSpin: true}} {
		p := driven(t, n, 64, config)
		short := rdmatest.Context(t, 5*time.Millisecond)
		require.ErrorIs(t, p.b.Counter(1).WaitFrom(short, 1, p.toA), context.DeadlineExceeded)
		require.Equal(t, i == 0, p.b.SpinsFor() > 0)
	}
}
