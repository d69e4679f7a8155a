package rdmatest

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A limit of a test bounds a hang. It must hold on a machine that is several times slower than the one on which it was
// written, or busy with something else, so every limit is scaled by a measure that the test process takes of its machine.
const (
	// loopSteps is the length of the measured loop, on every processor at once.
	loopSteps = 5_000_000
	// loopTime is what the loop takes on an idle machine of the kind on which the limits were written (2 cores at about
	// 3 GHz), and in its soft-RoCE guest: the emulator translates register arithmetic one to one.
	loopTime = 10 * time.Millisecond
	// mostSlowness keeps a limit finite when the measure itself met a pause.
	mostSlowness = 30
)

// Deadline returns d scaled by how much slower this machine is now than an idle machine of the kind on which the tests were
// written, and at least d. Every limit of a wait in a test goes through it, or through Context, which does so itself: limits
// bound hangs, not speed. The machine is measured once, at the first call, by a fixed loop on all of its processors.
func Deadline(d time.Duration) time.Duration { return time.Duration(float64(d) * slowness()) }

// soakVar asks for soaks.
const soakVar = "WEFT_SOAK"

// Soak reports whether the long form of a test is asked for, by WEFT_SOAK in the environment: the everyday form runs the same
// code with fewer repetitions.
func Soak() bool { return os.Getenv(soakVar) != "" }

// slowness is the factor of Deadline.
var slowness = sync.OnceValue(func() float64 { return scale(max(measure(), measure()), loopTime) })

// scale returns taken as a multiple of reference, from 1 to mostSlowness.
func scale(taken, reference time.Duration) float64 {
	return min(max(float64(taken)/float64(reference), 1), mostSlowness)
}

// measure returns how long the fixed loop takes when every processor runs it, in wall time: processors that others use
// count as slow ones.
func measure() time.Duration {
	start := time.Now()
	var loops sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		loops.Go(func() { loopResult.Add(loop(loopSteps)) })
	}
	loops.Wait()
	return time.Since(start)
}

// loopResult keeps the compiler from dropping the loop.
var loopResult atomic.Uint64

// loop computes a xorshift sequence (Marsaglia, 2003): register arithmetic, which neither the race detector nor a sanitizer
// slows down.
func loop(steps int) uint64 {
	x := uint64(88172645463325252)
	for range steps {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}
