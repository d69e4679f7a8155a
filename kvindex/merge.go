package kvindex

import "math/bits"

// The functions of this file are the loops of merging that go over all keys of a leaf or a buffer. There is assembly of each, of
// places and proven beside the lookups, whose instructions they have, and of the others in merge_amd64.s. It gives the same to
// the bit.

// goPlaces looks up n keys in those of a node: the position of the first one that is not below.
func goPlaces(m *model, keys []uint64, of *[maxBuffer]uint64, n int, at *[maxBuffer]int) {
	c := content[struct{}]{model: *m, keys: keys}
	for i, k := range of[:n] {
		at[i] = c.lowerBound(k)
	}
}

// goProven returns the first key after the very first one that is not in its window, or where a key before it may be looked
// for outside of the window; or how many there are.
func goProven(m *model, keys []uint64) int {
	line, most := *m, uint64(m.width)-1 // i-1-start is at least 0 and less than that
	for i := 1; i < len(keys); i++ {
		if uint64(i-1-line.start(keys[i])) >= most {
			return i
		}
	}
	return len(keys)
}

// goSumOver adds up what keys are above base, each divided by 2^shift.
func goSumOver(keys []uint64, base, shift uint64) (sum uint64) {
	for _, k := range keys {
		sum += (k - base) >> shift
	}
	return sum
}

// pace is a slope in factors of 32 bits, which lead from a distance to a position with 32 fraction bits. They are enough for
// the residuals of a line that is proven afterwards, and two products of this size are one instruction.
type pace struct {
	coarse uint64 // distances are divided by 2 to this
	factor uint64
	shift  uint64 // the products are divided by 2 to this
}

// paceOf returns the pace of a slope, times 2^64, for distances up to span. It is false where these are too many positions for
// any node.
func paceOf(slope, span uint64) (pace, bool) {
	if positions, _ := bits.Mul64(slope, span); positions >= 1<<16 {
		return pace{}, false
	}
	fine, coarse := max(bits.Len64(slope)-32, 0), max(bits.Len64(span)-32, 0)
	return pace{uint64(coarse), slope >> fine, uint64(32 - fine - coarse)}, true
}

// goSpread returns the least and the greatest residual, with 32 fraction bits, of keys from a line that begins at the first.
func goSpread(keys []uint64, p *pace) (least, most int64) {
	for i, k := range keys {
		r := int64(i)<<32 - int64((k-keys[0])>>p.coarse*p.factor>>p.shift)
		least, most = min(least, r), max(most, r)
	}
	return least, most
}

// goRanks puts a buffer's slots in order of their keys. Of those with the same key the newest is there; the places before it
// are left as they are.
func goRanks(keys *[maxBuffer]uint64, order *[maxBuffer]uint8) {
	for slot, k := range keys {
		at := -1
		for _, other := range keys {
			at += atLeast(k, other)
		}
		order[at%maxBuffer] = uint8(slot)
	}
}

// goWeaveWords is weaveAny for words.
func goWeaveWords(to, from []uint64, written *[maxBuffer]uint64, g *gaps) {
	weaveAny(to, from, written, g)
}
