package ring_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/internal/ring"
)

func TestCapacityIsRoundedUp(t *testing.T) {
	for asked, got := range map[int]int{-1: 2, 0: 2, 1: 2, 2: 2, 3: 4, 4: 4, 5: 8, 1000: 1024} {
		require.Equal(t, got, ring.New[int](asked).Cap(), "capacity %d", asked)
	}
}

// TestAgainstASlice compares random pushes and pops with a slice, over many laps.
func TestAgainstASlice(t *testing.T) {
	random := rand.New(rand.NewPCG(rdmatest.Seed(t), 0))
	for _, capacity := range []int{2, 8} {
		q := ring.New[int](capacity)
		var model []int
		var pushed uint64
		for i := range 10000 {
			if random.IntN(2) == 0 {
				require.Equal(t, len(model) < capacity, q.Push(i))
				if len(model) < capacity {
					model = append(model, i)
					pushed++
				}
			} else {
				v, ok := q.Pop()
				require.Equal(t, len(model) > 0, ok)
				if ok {
					require.Equal(t, model[0], v)
					model = model[1:]
				}
			}
			require.Equal(t, len(model), q.Len())
			require.Equal(t, pushed, q.Pushed().Load())
		}
	}
}

type message struct{ producer, number int }

// push and pop wait for the ring, or give up when the test's time is over.
func push[T any](ctx context.Context, q *ring.MPSC[T], v T) {
	for !q.Push(v) && ctx.Err() == nil {
		runtime.Gosched()
	}
}

func pop[T any](ctx context.Context, t *testing.T, q *ring.MPSC[T]) T {
	for {
		require.LessOrEqual(t, q.Len(), q.Cap())
		if v, ok := q.Pop(); ok {
			return v
		}
		require.NoError(t, ctx.Err(), "a value was lost")
		runtime.Gosched()
	}
}

// TestManyProducers has producers contend for a ring that is mostly full.
func TestManyProducers(t *testing.T) {
	const producers, each = 8, 20000
	ctx := rdmatest.Context(t, time.Minute)
	q := ring.New[message](16)
	var wait sync.WaitGroup
	for p := range producers {
		wait.Go(func() {
			for n := range each {
				push(ctx, q, message{p, n})
			}
		})
	}
	var next [producers]int
	for range producers * each {
		m := pop(ctx, t, q)
		if next[m.producer] != m.number {
			t.Fatalf("producer %d: message %d came, %d was next", m.producer, m.number, next[m.producer])
		}
		next[m.producer]++
	}
	wait.Wait()
	_, ok := q.Pop()
	require.False(t, ok, "a message came twice")
	require.Zero(t, q.Len())
}

// TestConsumerMayChange hands the consuming end around: whoever gets the flag by compare-and-swap pops one value.
func TestConsumerMayChange(t *testing.T) {
	const consumers, total = 4, 20000
	ctx := rdmatest.Context(t, time.Minute)
	q := ring.New[int](64)
	var taken, over atomic.Bool
	var popped []int // by whoever has the flag
	consume := func() {
		for !over.Load() && ctx.Err() == nil {
			if taken.CompareAndSwap(false, true) {
				if v, ok := q.Pop(); ok {
					popped = append(popped, v)
				}
				over.Store(len(popped) == total)
				taken.Store(false)
			}
			runtime.Gosched()
		}
	}
	var wait sync.WaitGroup
	for range consumers {
		wait.Go(consume)
	}
	for n := range total {
		push(ctx, q, n)
	}
	wait.Wait()
	require.Len(t, popped, total)
	for i, v := range popped {
		if i != v {
			t.Fatalf("value %d came at place %d", v, i)
		}
	}
}

func TestPoppedValuesAreLetGo(t *testing.T) {
	q := ring.New[*[64]byte](4)
	value := new([64]byte)
	gone := weak.Make(value)
	require.True(t, q.Push(value))
	value, ok := q.Pop()
	require.True(t, ok)
	runtime.KeepAlive(value)
	runtime.GC()
	require.Nil(t, gone.Value(), "the slot still refers to the value")
	runtime.KeepAlive(q)
}

func TestPushAndPopAllocateNothing(t *testing.T) {
	q := ring.New[message](8)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		q.Push(message{1, 2})
		q.Pop()
	}))
}

func BenchmarkPushPop(b *testing.B) {
	q := ring.New[message](1024)
	b.ReportAllocs()
	for b.Loop() {
		q.Push(message{1, 2})
		q.Pop()
	}
}

// BenchmarkContended has as many producers as there are processors and one consumer.
func BenchmarkContended(b *testing.B) {
	q := ring.New[message](1024)
	stop := make(chan struct{})
	var consumer sync.WaitGroup
	consumer.Go(func() {
		for {
			if _, ok := q.Pop(); ok {
				continue
			}
			select {
			case <-stop:
				return
			default:
				runtime.Gosched()
			}
		}
	})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			for !q.Push(message{1, 2}) {
				runtime.Gosched()
			}
		}
	})
	close(stop)
	consumer.Wait()
}
