package kvindex

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"time"
)

const signBit = uint64(1) << 63

// Int64Key is the key of an int64: keys are in the order of the numbers.
func Int64Key(v int64) uint64 { return uint64(v) ^ signBit }

// KeyInt64 is the number of a key that Int64Key made.
func KeyInt64(k uint64) int64 { return int64(k ^ signBit) }

// Float64Key is the key of a float64: keys are in the total order of IEEE 754, which puts -0 below 0, negative NaNs below
// all numbers and positive ones above.
func Float64Key(v float64) uint64 {
	bits := math.Float64bits(v)
	if bits&signBit != 0 {
		return ^bits
	}
	return bits | signBit
}

// KeyFloat64 is the number of a key that Float64Key made.
func KeyFloat64(k uint64) float64 {
	if k&signBit != 0 {
		return math.Float64frombits(k &^ signBit)
	}
	return math.Float64frombits(^k)
}

// TimeKey is the key of an instant, in nanoseconds. Those before 1677-09-21 and after 2262-04-11, which an int64 of
// nanoseconds cannot name, are an error. The zone is not part of the key.
func TimeKey(t time.Time) (uint64, error) {
	if !time.Unix(0, t.UnixNano()).Equal(t) {
		return 0, fmt.Errorf("kvindex: key of time %v: outside the years that int64 nanoseconds reach, 1677 to 2262", t)
	}
	return Int64Key(t.UnixNano()), nil
}

// KeyTime is the instant of a key that TimeKey made, in UTC.
func KeyTime(k uint64) time.Time { return time.Unix(0, KeyInt64(k)).UTC() }

// v6Base separates the keys of the two address families: every IPv4 address is its own key below it.
const v6Base = uint64(1) << 32

// AddrKey is the key of an address, in the order of netip.Addr.Compare: the zero Addr and IPv4 addresses first, which
// are exact (but the zero Addr is equal to 0.0.0.0), then IPv6 addresses by their upper 64 bits. NewAddrs makes a map
// that tells apart what this does not.
func AddrKey(a netip.Addr) uint64 {
	switch {
	case !a.IsValid():
		return 0
	case a.Is4():
		b := a.As4()
		return uint64(binary.BigEndian.Uint32(b[:]))
	}
	b := a.As16()
	return max(binary.BigEndian.Uint64(b[:8]), v6Base)
}

// StringKey is the key of a string: its first 8 bytes, filled with zeros. Keys are in the order of strings, and equal for
// strings that begin alike; NewStrings makes a map that tells them apart.
func StringKey(s string) uint64 {
	var b [8]byte
	copy(b[:], s)
	return binary.BigEndian.Uint64(b[:])
}
