package rdmatest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestScale(t *testing.T) {
	for name, c := range map[string]struct {
		taken, reference time.Duration
		want             float64
	}{
		"as the reference":       {10 * time.Millisecond, 10 * time.Millisecond, 1},
		"a faster machine":       {time.Millisecond, 10 * time.Millisecond, 1},
		"a slower machine":       {25 * time.Millisecond, 10 * time.Millisecond, 2.5},
		"a pause in the measure": {time.Hour, 10 * time.Millisecond, mostSlowness},
	} {
		t.Run(name, func(t *testing.T) { require.InDelta(t, c.want, scale(c.taken, c.reference), 1e-9) })
	}
}

// TestDeadlineIsScaled holds on any machine: the factor is measured once and never shortens a limit.
func TestDeadlineIsScaled(t *testing.T) {
	factor := slowness()
	require.GreaterOrEqual(t, factor, 1.0)
	require.LessOrEqual(t, factor, float64(mostSlowness))
	require.Equal(t, time.Duration(float64(time.Second)*factor), Deadline(time.Second))
	require.Equal(t, Deadline(2*time.Second), 2*Deadline(time.Second))
}
