package rdmatest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestContextEndsAtTheEarlierDeadline(t *testing.T) {
	limit := time.Now().Add(time.Minute)
	for name, c := range map[string]struct {
		limit   time.Time
		timeout time.Duration
		want    time.Time
	}{
		"timeout":    {limit, time.Second, time.Now().Add(Deadline(time.Second))},
		"test limit": {limit, time.Hour, limit.Add(-grace)},
		"no limit":   {time.Time{}, time.Hour, time.Now().Add(Deadline(time.Hour))},
	} {
		t.Run(name, func(t *testing.T) {
			f := fakeT{limit: c.limit}
			f.do(func(t testing.TB) {
				deadline, ok := Context(t, c.timeout).Deadline()
				f.log = deadline.String()
				if !ok || deadline.Sub(c.want).Abs() > 5*time.Second {
					f.fatal = "the deadline is " + deadline.String()
				}
			})
			require.Empty(t, f.fatal)
		})
	}
}

func TestContextOutlivesLaterCleanups(t *testing.T) {
	var ctx context.Context
	var during error
	t.Run("test", func(t *testing.T) {
		ctx = Context(t, time.Minute)
		t.Cleanup(func() { during = ctx.Err() })
	})
	require.NoError(t, during, "closing could not use the context")
	require.ErrorIs(t, ctx.Err(), context.Canceled)
}
