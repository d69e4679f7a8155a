package verbs

import (
	"crypto/rand"
	"encoding/binary"
	"math"
	"time"
)

// randomPSN makes stale packets of an earlier connection with the same numbers unlikely to be taken for this one's.
func randomPSN() uint32 {
	var b [4]byte
	rand.Read(b[:])
	return binary.NativeEndian.Uint32(b[:]) & (1<<24 - 1)
}

func clampUint8(n int) uint8 { return uint8(min(n, math.MaxUint8)) }

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// timeoutOf is the time of a code, 4.096 µs times two to its power; 0 is 0.
func timeoutOf(code uint8) time.Duration {
	if code == 0 {
		return 0
	}
	return 4096 * time.Nanosecond << min(code, 31)
}

// timeoutCode is the smallest code whose time, 4.096 µs times two to its power, is at least d (IBTA volume 1, 9.7.6.1.3).
func timeoutCode(d time.Duration) uint8 {
	code := uint8(1)
	for code < 31 && 4096*time.Nanosecond<<code < d {
		code++
	}
	return code
}

// rnrTimes are the times of the RNR timer codes 1 to 31 in units of 10 µs; code 0 stands for 655.36 ms (IBTA volume 1,
// table 46).
var rnrTimes = [...]uint16{
	0: math.MaxUint16, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
	4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// rnrTimerCode is the code of the shortest time that is at least d, or the longest there is.
func rnrTimerCode(d time.Duration) uint8 {
	for code := 1; code < len(rnrTimes); code++ {
		if time.Duration(rnrTimes[code])*10*time.Microsecond >= d {
			return uint8(code)
		}
	}
	return 0
}

// rnrTimeOf is the time of a code.
func rnrTimeOf(code uint8) time.Duration {
	if code == 0 {
		return 655360 * time.Microsecond
	}
	return time.Duration(rnrTimes[code&31]) * 10 * time.Microsecond
}
