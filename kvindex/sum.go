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

// wordOf is a value that is one word, aligned as one.
func wordOf[V any](value *V) uint64 { return *(*uint64)(unsafe.Pointer(value)) }

// contentSum changes whenever a key or a value does. It is the sum of those of the pairs, so that merging need not look at the
// pairs that stay.
func contentSum[V any](keys []uint64, values []V) (sum uint64) {
	for i, k := range keys {
		sum += pairSum(k, &values[i])
	}
	return sum
}

// oddFactor is 2^64 divided by the golden ratio: to multiply by it loses no bit, and spreads each over those above.
const oddFactor = 0x9e3779b97f4a7c15

// pairSum changes whenever a key changes, or a word of its value. For a given key each step can be undone.
func pairSum[V any](k uint64, value *V) uint64 {
	sum := k * oddFactor
	if unsafe.Sizeof(*value) == 8 && unsafe.Alignof(*value) == 8 {
		sum = (sum ^ wordOf(value)) * oddFactor
		return sum ^ sum>>32
	}
	raw := bytesOf(unsafe.Slice(value, 1))
	for ; len(raw) >= 8; raw = raw[8:] {
		sum = (sum ^ binary.LittleEndian.Uint64(raw)) * oddFactor
		sum ^= sum >> 32
	}
	for _, b := range raw {
		sum = (sum ^ uint64(b)) * oddFactor
		sum ^= sum >> 32
	}
	return sum
}

// tagOf changes whenever a single bit of a slot's key, value, version or state does.
func tagOf[V any](k uint64, value *V, kind uint64, delta uint8) uint8 {
	sum := k ^ kind<<32 ^ uint64(delta)<<48
	if unsafe.Sizeof(*value) == 8 && unsafe.Alignof(*value) == 8 {
		sum = bits.RotateLeft64(sum, 11) ^ wordOf(value)
	} else {
		raw := bytesOf(unsafe.Slice(value, 1))
		for ; len(raw) >= 8; raw = raw[8:] {
			sum = bits.RotateLeft64(sum, 11) ^ binary.LittleEndian.Uint64(raw)
		}
		for _, b := range raw {
			sum = bits.RotateLeft64(sum, 11) ^ uint64(b)
		}
	}
	sum ^= sum >> 32
	sum ^= sum >> 16
	return uint8(sum ^ sum>>8)
}
