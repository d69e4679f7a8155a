package fabric_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
)

func TestCountersCountWhatCompletes(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		var counter *fabric.Counter
		a, b := pair(t, provider, setting{ep: func(x *side, cfg *fabric.EndpointConfig) {
			if counter == nil {
				counter = opened[*fabric.Counter](t)(x.domain.OpenCounter(fabric.CounterConfig{}))
				cfg.Events = []fabric.CounterEvents{{Counter: counter, Events: fabric.CapWrite}}
			}
		}})
		from, to := a.buffer(8), b.buffer(8)
		for range 5 {
			a.post(a.ep.Write, []fabric.Op{to.at(fabric.Op{ID: 1, NumSeg: 1}, 0)}, from.all(), b)
			a.complete(1, b)
		}
		ctx := rdmatest.Context(t, patience)
		require.NoError(t, counter.Wait(ctx, 5))
		n, err := counter.Read()
		require.NoError(t, err)
		require.Equal(t, uint64(5), n)
		n, err = counter.ReadErrors()
		require.NoError(t, err)
		require.Zero(t, n)
		require.NoError(t, counter.Add(3))
		require.NoError(t, counter.Wait(ctx, 8))
		require.NoError(t, counter.Set(1))
		n, err = counter.Read()
		require.NoError(t, err)
		require.Equal(t, uint64(1), n)
		require.NoError(t, counter.AddErrors(2))
		require.NoError(t, counter.SetErrors(4))
		n, err = counter.ReadErrors()
		require.NoError(t, err)
		require.Equal(t, uint64(4), n)
		require.NotNil(t, counter.Raw())
	})
}

func TestCounterWaitEndsWithItsContext(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	for _, provider := range rdm {
		x := open(t, provider, setting{})
		for _, wait := range []fabric.WaitObject{fabric.WaitNone, fabric.WaitUnspec} {
			counter := opened[*fabric.Counter](t)(x.domain.OpenCounter(fabric.CounterConfig{Wait: wait}))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, counter.Wait(ctx, 1), context.DeadlineExceeded)
			require.NoError(t, counter.Add(1))
			require.NoError(t, counter.Wait(rdmatest.Context(t, patience), 1))
		}
	}
}
