package life_test

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/rdmatest"
)

func TestMain(m *testing.M) {
	rdmatest.Main(m, rdmatest.Children{"leak pinned memory": leakPinnedMemory})
}

func nothing() error { return nil }

// open returns an open object that the test's end closes.
func open(t testing.TB, kind string, parent *life.Object) *life.Object {
	t.Helper()
	o := new(life.Object)
	require.NoError(t, o.Init(kind, parent, nothing))
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	return o
}

// inParallel runs the functions at the same time, as closely as the scheduler allows.
func inParallel(functions ...func()) {
	var waiting atomic.Int32
	waiting.Store(int32(len(functions)))
	var done sync.WaitGroup
	for _, f := range functions {
		done.Go(func() {
			waiting.Add(-1)
			for spins := 0; waiting.Load() > 0; spins++ {
				if spins > 1000 { // the last to come would mostly be first, if the others slept
					runtime.Gosched()
				}
			}
			f()
		})
	}
	done.Wait()
}

func TestChildAppearsOrParentClosesNeverBoth(t *testing.T) {
	outcomes := map[string]int{}
	for i := range 5000 {
		var parent, child life.Object
		require.NoError(t, parent.Init("protection domain", nil, nothing))
		var initErr, closeErr error
		race := []func(){
			func() { initErr = child.Init("queue pair", &parent, nothing) },
			func() { closeErr = parent.Close() },
		}
		if i%2 == 0 {
			slices.Reverse(race)
		}
		inParallel(race...)
		if initErr == nil {
			outcomes["child first"]++
			require.ErrorIs(t, closeErr, syscall.EBUSY)
			require.NoError(t, child.Close())
			require.NoError(t, parent.Close())
		} else {
			outcomes["close first"]++
			require.ErrorIs(t, initErr, net.ErrClosed)
			require.NoError(t, closeErr)
			require.ErrorIs(t, child.Enter(), net.ErrClosed)
		}
	}
	t.Log(outcomes)
}

// TestWhoeverSeesTheChildClosedCanCloseTheParent has several goroutines close both: none may find the child closed and
// still registered.
func TestWhoeverSeesTheChildClosedCanCloseTheParent(t *testing.T) {
	for range 5000 {
		var parent, child life.Object
		var refused atomic.Int32
		require.NoError(t, parent.Init("protection domain", nil, nothing))
		require.NoError(t, child.Init("queue pair", &parent, nothing))
		closeBoth := func() {
			if child.Close() != nil || parent.Close() != nil {
				refused.Add(1)
			}
		}
		inParallel(closeBoth, closeBoth, closeBoth)
		require.Zero(t, refused.Load())
	}
}

func TestNoCallRunsOnAFreedObject(t *testing.T) {
	for range 100 {
		var o life.Object
		var freed atomic.Bool
		var late atomic.Int32
		require.NoError(t, o.Init("completion queue", nil, func() error { freed.Store(true); return nil }))
		call := func() {
			for o.Enter() == nil {
				if freed.Load() {
					late.Add(1)
				}
				o.Exit()
			}
		}
		inParallel(call, call, call, func() {
			if err := o.Close(); err != nil {
				late.Add(1)
			}
		})
		require.True(t, freed.Load())
		require.Zero(t, late.Load())
	}
}

func TestCloseWaitsForTheCallInProgress(t *testing.T) {
	var o, child life.Object
	var freed atomic.Bool
	require.NoError(t, o.Init("completion queue", nil, func() error { freed.Store(true); return nil }))
	require.NoError(t, o.Enter())

	closed := make(chan error, 2)
	go func() { closed <- o.Close() }()
	for o.Enter() == nil { // until Close has begun
		o.Exit()
		runtime.Gosched()
	}
	go func() { closed <- o.Close() }()
	require.ErrorIs(t, child.Init("work request", &o, nothing), net.ErrClosed, "a child on a closing object")
	require.False(t, freed.Load())
	require.Empty(t, closed)

	o.Exit()
	ctx := rdmatest.Context(t, 10*time.Second)
	for range 2 {
		select {
		case err := <-closed:
			require.NoError(t, err)
		case <-ctx.Done():
			t.Fatal("Close did not notice that the last call had ended")
		}
	}
	require.True(t, freed.Load())
}

func TestCloseFreesOnce(t *testing.T) {
	for range 1000 {
		var o life.Object
		var freed, failed atomic.Int32
		require.NoError(t, o.Init("address handle", nil, func() error { freed.Add(1); return nil }))
		closeIt := func() {
			if o.Close() != nil || freed.Load() != 1 {
				failed.Add(1)
			}
		}
		inParallel(closeIt, closeIt, closeIt)
		require.NoError(t, o.Close())
		require.EqualValues(t, 1, freed.Load())
		require.Zero(t, failed.Load(), "a Close failed, or returned before the object was freed")
	}
}

func TestARefusedFreeLeavesTheObjectOpen(t *testing.T) {
	broken := errors.New("in use")
	frees := 0
	parent := open(t, "device", nil)
	var o life.Object
	require.NoError(t, o.Init("protection domain", parent, func() error {
		if frees++; frees == 1 {
			return life.Refused(broken)
		}
		return nil
	}))
	err := o.Close()
	require.ErrorIs(t, err, broken)
	require.EqualError(t, err, "in use")
	require.ErrorIs(t, parent.Close(), syscall.EBUSY)
	require.NoError(t, o.Enter())
	o.Exit()
	var child life.Object
	require.NoError(t, child.Init("memory region", &o, nothing))
	require.NoError(t, child.Close())
	require.NoError(t, o.Close())
	require.Equal(t, 2, frees)
	require.NoError(t, life.Refused(nil))
}

// TestAFailedFreeClosesTheObject: what free has begun cannot be done again, and nothing is called on what is left.
func TestAFailedFreeClosesTheObject(t *testing.T) {
	broken := errors.New("half of it is gone")
	for name, failure := range map[string]error{
		"plain":                broken,
		"wraps a refusal":      fmt.Errorf("%w: %w", broken, life.Refused(syscall.EBUSY)),
		"joins with a refusal": errors.Join(broken, life.Refused(syscall.EBUSY)),
	} {
		t.Run(name, func(t *testing.T) {
			frees := 0
			parent := open(t, "device", nil)
			var o life.Object
			require.NoError(t, o.Init("protection domain", parent, func() error { frees++; return failure }))
			require.ErrorIs(t, o.Close(), broken)
			require.NoError(t, o.Close(), "the second Close")
			require.Equal(t, 1, frees)
			require.ErrorIs(t, o.Enter(), net.ErrClosed)
			require.ErrorIs(t, new(life.Object).Init("memory region", &o, nothing), net.ErrClosed)
			require.NoError(t, parent.Close(), "the parent itself knows whether it is in use")
		})
	}
}

// TestARefusalPassesThroughWhatStandsForIt: an object whose free is another's Close is as open as that one.
func TestARefusalPassesThroughWhatStandsForIt(t *testing.T) {
	var region, registration life.Object
	require.NoError(t, region.Init("memory region", nil, nothing))
	require.NoError(t, registration.Init("registration", nil, region.Close))
	window := open(t, "memory window", &region)
	require.ErrorIs(t, registration.Close(), syscall.EBUSY)
	require.NoError(t, registration.Enter())
	registration.Exit()
	require.NoError(t, window.Close())
	require.NoError(t, registration.Close())
	require.ErrorIs(t, region.Enter(), net.ErrClosed)
}

func TestEveryParentWaitsForItsChild(t *testing.T) {
	domain, sends, recvs := open(t, "protection domain", nil), open(t, "completion queue", nil), open(t, "completion queue", nil)
	var pair life.Object
	require.NoError(t, pair.Init("queue pair", domain, nothing, sends, nil, recvs, sends))
	for _, parent := range []*life.Object{domain, sends, recvs} {
		require.ErrorContains(t, parent.Close(), "(1 × queue pair)")
	}
	require.NoError(t, pair.Close())
	for _, parent := range []*life.Object{domain, sends} {
		require.NoError(t, parent.Close())
	}
	var late life.Object
	require.ErrorIs(t, late.Init("queue pair", nil, nothing, recvs, sends), net.ErrClosed)
	require.NoError(t, recvs.Close(), "a refused Init left a child behind")
}

func TestTheLastChildClosesWhatIsUnwanted(t *testing.T) {
	var closed int
	var parent life.Object
	failure := errors.New("the parent's")
	require.NoError(t, parent.Init("parent", nil, func() error { closed++; return failure }))
	first, second := open(t, "child", &parent), open(t, "child", &parent)
	require.NoError(t, parent.CloseAfterChildren())
	require.NoError(t, parent.Enter(), "the children's parent is there")
	parent.Exit()
	require.ErrorIs(t, new(life.Object).Init("child", &parent, nothing), net.ErrClosed)
	require.NoError(t, first.Close())
	require.Zero(t, closed)
	require.ErrorIs(t, second.Close(), failure)
	require.Equal(t, 1, closed)
	require.Error(t, parent.Enter())
	require.NoError(t, second.Close())

	lone := open(t, "parent", nil)
	require.NoError(t, lone.CloseAfterChildren())
	require.Error(t, lone.Enter(), "without children it is Close")
}

func TestBusyCloseNamesTheChildrenAndChangesNothing(t *testing.T) {
	var parent life.Object
	freed := false
	require.NoError(t, parent.Init("protection domain", nil, func() error { freed = true; return nil }))
	regions := []*life.Object{open(t, "memory region", &parent), open(t, "memory region", &parent)}
	pair := open(t, "queue pair", &parent)

	err := parent.Close()
	require.ErrorIs(t, err, syscall.EBUSY)
	require.EqualError(t, err, "close protection domain: objects are open on it (1 × queue pair, 2 × memory region), "+
		"close them first: device or resource busy")
	require.False(t, freed)
	require.NoError(t, parent.Enter())
	parent.Exit()

	require.NoError(t, pair.Close())
	require.ErrorContains(t, parent.Close(), "open on it (2 × memory region)")
	for _, r := range regions {
		require.NoError(t, r.Close())
	}
	require.NoError(t, parent.Close())
	require.True(t, freed)
}

func TestParentsComeAndGo(t *testing.T) {
	first, second, third := open(t, "protection domain", nil), open(t, "protection domain", nil), open(t, "protection domain", nil)
	var region life.Object
	require.ErrorIs(t, region.AddParent(second), net.ErrClosed, "before it is open")
	require.NoError(t, second.Close(), "a refused AddParent left a child behind")
	require.NoError(t, region.Init("memory region", first, nothing))
	require.ErrorIs(t, region.AddParent(second), net.ErrClosed, "a parent that is closed")
	require.NoError(t, region.AddParent(third))
	require.NoError(t, region.AddParent(third))
	require.ErrorIs(t, third.Close(), syscall.EBUSY)
	region.RemoveParent(first)
	region.RemoveParent(first)
	require.NoError(t, first.Close())
	require.ErrorIs(t, third.Close(), syscall.EBUSY)
	require.NoError(t, region.Close())
	require.NoError(t, third.Close())
}

func TestClosedObjectsSayWhatTheyAre(t *testing.T) {
	var pd, qp life.Object
	require.ErrorIs(t, pd.Enter(), net.ErrClosed)
	require.EqualError(t, pd.Enter(), "object was never opened")
	require.NoError(t, pd.Close())
	require.ErrorIs(t, qp.Init("queue pair", &pd, nothing), net.ErrClosed, "on a parent that was never opened")

	require.NoError(t, pd.Init("protection domain", nil, nothing))
	require.NoError(t, pd.Close())
	require.ErrorIs(t, pd.Enter(), net.ErrClosed)
	require.EqualError(t, pd.Enter(), "protection domain is closed")
	err := qp.Init("queue pair", &pd, nothing)
	require.ErrorIs(t, err, net.ErrClosed)
	require.EqualError(t, err, "open queue pair: protection domain is closed")
}

func TestInitIsForOneUse(t *testing.T) {
	parent := open(t, "device", nil)
	pd := open(t, "protection domain", parent)
	require.ErrorIs(t, pd.Init("protection domain", parent, nothing), syscall.EINVAL)
	require.NoError(t, pd.Close())
	require.ErrorIs(t, pd.Init("protection domain", parent, nothing), syscall.EINVAL)
	require.NoError(t, parent.Close(), "a refused Init left a child behind")
}

func TestEnterAndExitAllocateNothing(t *testing.T) {
	o := open(t, "completion queue", nil)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if o.Enter() == nil {
			o.Exit()
		}
	}))
}

func BenchmarkEnterExit(b *testing.B) {
	o := open(b, "completion queue", nil)
	b.ReportAllocs()
	for b.Loop() {
		if o.Enter() == nil {
			o.Exit()
		}
	}
}

func BenchmarkEnterExitParallel(b *testing.B) {
	o := open(b, "completion queue", nil)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if o.Enter() == nil {
				o.Exit()
			}
		}
	})
}
