package rdmatest

import (
	"os"
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

// slow makes this machine three times slower for the test.
func slow(t *testing.T) {
	measured := slowness
	slowness = func() float64 { return 3 }
	t.Cleanup(func() { slowness = measured })
}

func TestDeadlineIsScaled(t *testing.T) {
	slow(t)
	require.Equal(t, 3*time.Second, Deadline(time.Second))
}

func TestContextIsScaled(t *testing.T) {
	slow(t)
	ends, ok := Context(t, time.Minute).Deadline()
	require.True(t, ok)
	require.Greater(t, time.Until(ends), 2*time.Minute)
}

func TestChildrenHaveScaledLimits(t *testing.T) {
	slow(t)
	c := StartChild(t, "hang")
	_, err := c.ReadLine(patience)
	require.NoError(t, err)
	start := time.Now()
	require.ErrorIs(t, c.Wait(10*time.Millisecond), os.ErrDeadlineExceeded)
	require.GreaterOrEqual(t, time.Since(start), 30*time.Millisecond)
	start = time.Now()
	_, err = c.ReadLine(10 * time.Millisecond)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.GreaterOrEqual(t, time.Since(start), 30*time.Millisecond)
}

func TestMeasureIsPlausible(t *testing.T) {
	factor := slowness()
	require.GreaterOrEqual(t, factor, 1.0)
	require.LessOrEqual(t, factor, float64(mostSlowness))
}
