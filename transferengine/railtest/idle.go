//go:build unix

package railtest

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
)

// BenchmarkIdle reports what an engine takes of a processor that is connected and has nothing to do, in percent: two of them
// in this process do nothing for b.N seconds but tell each other that they live.
func BenchmarkIdle(b *testing.B, opener func() rail.Opener) {
	for _, progress := range progresses {
		b.Run(fmt.Sprintf("progress=%d", progress), func(b *testing.B) {
			ctx := rdmatest.Context(b, time.Minute)
			var engines [2]*transferengine.Engine
			for i := range engines {
				e, err := transferengine.Open(transferengine.Config{Rails: []rail.Opener{opener()}, Progress: progress})
				require.NoError(b, err)
				b.Cleanup(func() { require.NoError(b, e.Close()) })
				engines[i] = e
			}
			_, err := engines[0].Connect(ctx, engines[1].Address())
			require.NoError(b, err)
			<-rdmatest.Context(b, time.Second).Done() // what connecting took is over
			before, start := processorTime(b), time.Now()
			<-rdmatest.Context(b, time.Duration(b.N)*time.Second).Done()
			took := processorTime(b) - before
			b.ReportMetric(100*took.Seconds()/time.Since(start).Seconds()/float64(len(engines)), "%core/engine")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// processorTime is what this process has taken of all processors, in the kernel too.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
