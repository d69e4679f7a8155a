//go:build linux && cgo && !noverbs

package verbs_test

import (
	"errors"
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/verbs"
)

// The counter of a device is ticks of its own frequency, not nanoseconds: 78.125 MHz is a ConnectX-5's.
func TestClockCountsTicks(t *testing.T) {
	n := openNull(t, nil)
	const khz = 78125
	n.null.SetClock(5_000_000_000, khz) // 64 s, more than a second of what a struct timespec calls nanoseconds
	from, err := n.ctx.Clock()
	require.NoError(t, err)
	require.Equal(t, verbs.Ticks(5_000_000_000), from)
	attr, err := n.ctx.QueryExtended()
	require.NoError(t, err)
	require.Equal(t, uint64(khz), attr.CoreClockKHz)
	n.null.SetClock(5_000_000_000+78_125_000+5, khz)
	to, err := n.ctx.Clock()
	require.NoError(t, err)
	passed, err := attr.Between(from, to)
	require.NoError(t, err)
	require.Equal(t, time.Second+64, passed)
}

func TestClockThatIsAbsent(t *testing.T) {
	n := openNull(t, nil)
	_, err := n.ctx.Clock()
	require.ErrorIs(t, err, errors.ErrUnsupported, "the driver answers, and has read nothing")
	require.ErrorContains(t, err, "null0")
	n.null.SetClock(1, 1000)
	n.null.Fail("query_rt_values", 0, int(syscall.EOPNOTSUPP), 0)
	_, err = n.ctx.Clock()
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = (&verbs.ExtendedAttr{}).Between(1, 2)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestTimeBetweenTicks(t *testing.T) {
	for name, tc := range map[string]struct {
		attr     verbs.ExtendedAttr
		from, to verbs.Ticks
		want     time.Duration
	}{
		"nanoseconds":         {verbs.ExtendedAttr{CoreClockKHz: 1_000_000}, 7, 1_000_000_007, time.Second},
		"a slow counter":      {verbs.ExtendedAttr{CoreClockKHz: 1}, 0, 1, time.Millisecond},
		"156.25 MHz":          {verbs.ExtendedAttr{CoreClockKHz: 156250}, 0, 156_250_000, time.Second},
		"32 bits begin again": {verbs.ExtendedAttr{CoreClockKHz: 1_000_000, TimestampMask: math.MaxUint32}, math.MaxUint32 - 4, 5, 10},
		"64 bits begin again": {verbs.ExtendedAttr{CoreClockKHz: 1_000_000}, math.MaxUint64 - 4, 5, 10},
		"a year":              {verbs.ExtendedAttr{CoreClockKHz: 1_000_000}, 0, verbs.Ticks(365 * 24 * time.Hour), 365 * 24 * time.Hour},
		"more than a time":    {verbs.ExtendedAttr{CoreClockKHz: 1_000_000}, 0, math.MaxUint64, math.MaxInt64},
		"far more":            {verbs.ExtendedAttr{CoreClockKHz: 1}, 0, math.MaxUint64, math.MaxInt64},
	} {
		got, err := tc.attr.Between(tc.from, tc.to)
		require.NoError(t, err)
		require.Equal(t, tc.want, got, name)
	}
}
