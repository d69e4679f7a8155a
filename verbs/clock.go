package verbs

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Ticks is a reading of a device's free-running counter, which begins anywhere: only the difference of two readings of one
// device means anything. How long a tick is, is [ExtendedAttr.CoreClockKHz].
type Ticks uint64

// Clock reads the device's counter: ticks, not nanoseconds. [ExtendedAttr.Between] turns two readings into time. The error
// wraps [errors.ErrUnsupported] where the device has no counter that can be read.
//
// Implements:
//
//	int ibv_query_rt_values_ex(struct ibv_context *context, struct ibv_values_ex *values)
func (c *Context) Clock() (Ticks, error) {
	if err := c.life.Enter(); err != nil {
		return 0, err
	}
	defer c.life.Exit()
	ticks, err := cDeviceClock(c.ptr)
	if err != nil {
		return 0, fmt.Errorf("clock of %s: %w", c.name, err)
	}
	return Ticks(ticks), nil
}

// Between is the time from one reading of the device's counter to a later one. A counter of fewer than 64 bits
// (TimestampMask) begins again at 0: readings that are further apart than it counts look closer. The error wraps
// [errors.ErrUnsupported] where the driver does not tell how long a tick is.
func (a *ExtendedAttr) Between(from, to Ticks) (time.Duration, error) {
	if a.CoreClockKHz == 0 {
		return 0, fmt.Errorf("verbs: the driver does not tell the frequency of the device's counter: %w", errors.ErrUnsupported)
	}
	ticks := uint64(to - from)
	if a.TimestampMask != 0 {
		ticks &= a.TimestampMask
	}
	// ticks / (kHz * 1000) seconds; the product has up to 84 bits.
	hi, lo := bits.Mul64(ticks, uint64(time.Millisecond))
	if hi >= a.CoreClockKHz {
		return math.MaxInt64, nil
	}
	ns, _ := bits.Div64(hi, lo, a.CoreClockKHz)
	return time.Duration(min(ns, math.MaxInt64)), nil
}
