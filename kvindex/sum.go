package kvindex

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// bytesOf is the memory of values of any type. What a leaf or a slot holds never changes, so its bytes do not either:
// pointers and padding among them stay as they are.
func bytesOf[V any](values []V) []byte {
	if len(values) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), uintptr(len(values))*unsafe.Sizeof(values[0]))
}

// contentSum changes whenever a bit of a key or of a value does: odd factors lose none.
func contentSum[V any](keys []uint64, values []V) (sum uint64) {
	for i, k := range keys {
		sum += k * uint64(2*i+1)
	}
	factor := uint64(1)
	raw := bytesOf(values)
	for ; len(raw) >= 8; raw = raw[8:] {
		sum += binary.LittleEndian.Uint64(raw) * factor
		factor += 2
	}
	for _, b := range raw {
		sum += uint64(b) * factor
		factor += 2
	}
	return sum
}

// tagOf changes whenever a single bit of a slot's key, value, version or state does.
func tagOf[V any](k uint64, value []V, kind uint64, delta uint8) uint8 {
	sum := k ^ kind<<32 ^ uint64(delta)<<48
	raw := bytesOf(value)
	for ; len(raw) >= 8; raw = raw[8:] {
		sum = bits.RotateLeft64(sum, 11) ^ binary.LittleEndian.Uint64(raw)
	}
	for _, b := range raw {
		sum = bits.RotateLeft64(sum, 11) ^ uint64(b)
	}
	sum ^= sum >> 32
	sum ^= sum >> 16
	return uint8(sum ^ sum>>8)
}
