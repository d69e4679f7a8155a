package kvindex

import (
	"math"
	"math/bits"
)

// model is a line that predicts where a key stands in a sorted array, in unsigned fixed point with 64 fraction bits and
// relative to the array's first key. Distinct integers rise by at least 1 a position, so a slope is at most 1 and fits;
// relative to the first key the product's error stays below one position over the whole range of uint64, where floating
// point on absolute keys misses the window for half of some real key sets.
//
// The window that start and width give holds the predecessor (the last key <= k) of every k, trained or not: if the
// prediction of each trained key is off by at most ε, then for k between keys i and i+1 it lies in [i-ε, i+1+ε], the
// line being monotone, so i is in [p-ε-1, p+ε].
type model struct {
	origin uint64 // the first key
	slope  uint64 // positions per key, times 2^64
	frac   uint64 // fraction of the intercept, times 2^64
	base   int16  // integer part of the intercept, less ε+1: never positive
	limit  uint16 // where the last window begins, less base
	width  uint16 // keys in a window; all of them where no line helps
	eps    uint16 // the bound that was verified; 0 in a plain node, which is searched whole
}

// start returns the first position of the window for k.
func (m *model) start(k uint64) int {
	d := k - m.origin
	if k < m.origin {
		d = 0
	}
	hi, lo := bits.Mul64(d, m.slope)
	_, carry := bits.Add64(lo, m.frac, 0)
	hi += carry
	if limit := uint64(m.limit); hi > limit {
		hi = limit
	}
	p := int(hi) + int(m.base)
	if p < 0 {
		p = 0
	}
	return p
}

// below is 1 where k < key and 0 elsewhere, without a branch.
func below(k, key uint64) int {
	_, borrow := bits.Sub64(k, key, 0)
	return int(borrow)
}

// predecessor returns the position of the last key <= k within keys[lo:lo+width], or lo where there is none. It divides
// the window by three: the two loads of a step do not wait for each other, and nothing but the width decides a branch,
// so a processor runs ahead into the next lookup instead of waiting for this one's cache misses.
func predecessor(keys []uint64, lo, width int, k uint64) int {
	for width > 2 {
		third := width / 3
		one, two := below(k, keys[lo+third])-1, below(k, keys[lo+2*third])-1
		lo += third&one + third&two
		width -= 2 * third
	}
	if width == 2 {
		lo += 1 - below(k, keys[lo+1])
	}
	return lo
}

// Windows of the default ε of leaves, 8, and of inner segments, 4.
const (
	leaf18  = 2*8 + 2
	inner10 = 2*4 + 2
)

// predecessor18 is predecessor for a window of 18 keys: it leaves 6, then 2, then 1.
func predecessor18(w *[leaf18]uint64, k uint64) int {
	i := 6&(below(k, w[6])-1) + 6&(below(k, w[12])-1)
	i += 2&(below(k, w[i+2])-1) + 2&(below(k, w[i+4])-1)
	return i + 1 - below(k, w[i+1])
}

// predecessor10 is predecessor for a window of 10 keys: it leaves 4, then 2, then 1.
func predecessor10(w *[inner10]uint64, k uint64) int {
	i := 3&(below(k, w[3])-1) + 3&(below(k, w[6])-1)
	i += 2 - below(k, w[i+1]) - below(k, w[i+2])
	return i + 1 - below(k, w[i+1])
}

// plainModel is the model of n keys that are searched whole.
func plainModel(n int) model { return model{width: uint16(n)} }

// slopes is the interval of slopes, times 2^64, of the lines that pass within ε of every point of a segment.
type slopes struct{ min, max uint64 }

// mid is the slope that is farthest from being infeasible.
func (s slopes) mid() uint64 { return s.min + (s.max-s.min)/2 }

// fit makes the model of keys for a feasible interval of slopes: the middle slope, the intercept that halves the largest
// error, and then the proof, with start itself, that every key's prediction is within eps. It returns how many leading
// keys passed; rounding could only cost some at spans near 2^64.
func fit(keys []uint64, s slopes, eps int) (model, int) {
	n := len(keys)
	if n <= 2*eps+2 { // the window is the whole array whatever the line says
		m := plainModel(n)
		m.eps = uint16(eps)
		return m, n
	}
	m := model{origin: keys[0], slope: s.mid(), width: uint16(2*eps + 2), eps: uint16(eps)}
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for i, k := range keys { // residuals with 32 fraction bits
		hi, lo := bits.Mul64(k-m.origin, m.slope)
		r := int64(i)<<32 - int64(hi<<32|lo>>32)
		least, most = min(least, r), max(most, r)
	}
	intercept := (least+most)/2 + 1<<31 // one half more: start rounds down
	m.frac = uint64(intercept) << 32
	base := intercept>>32 - int64(eps) - 1
	if base > 0 || base < -int64(4*eps+4) {
		return model{}, 0
	}
	m.base = int16(base)
	m.limit = uint16(n - int(m.width) - int(m.base))
	return m, m.proven(keys)
}

// proven returns how many leading keys the model predicts within its ε.
func (m *model) proven(keys []uint64) int {
	for i, k := range keys {
		hi, lo := bits.Mul64(k-m.origin, m.slope)
		_, carry := bits.Add64(lo, m.frac, 0)
		off := int(hi+carry) + int(m.base) + int(m.eps) + 1 - i
		if off > int(m.eps) || off < -int(m.eps) {
			return i
		}
	}
	return len(keys)
}
