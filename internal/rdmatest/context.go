package rdmatest

import (
	"context"
	"testing"
	"time"
)

// grace is kept of the test binary's own time limit, so that a test that hangs fails with its own message and clean-up
// rather than with the dump of every goroutine.
const grace = time.Second

// Context returns a context that ends after Deadline(timeout), or one second before the test binary's time limit if that is
// sooner, and when the test's clean-up functions that were registered later have run.
func Context(t testing.TB, timeout time.Duration) context.Context {
	t.Helper()
	deadline := time.Now().Add(Deadline(timeout))
	if limited, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if limit, ok := limited.Deadline(); ok && limit.Add(-grace).Before(deadline) {
			deadline = limit.Add(-grace)
		}
	}
	// Not derived from t.Context, which ends before the first clean-up function: closing needs a context too.
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	t.Cleanup(cancel)
	return ctx
}
