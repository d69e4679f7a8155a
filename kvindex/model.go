package kvindex

import (
	"math/bits"
)

// model is a line that predicts where a key stands in a sorted array, in unsigned fixed point with 64 fraction bits and
// relative to a key. Distinct integers rise by at least 1 a position, so a slope is at most 1 and fits; relative to a near
// key the product's error stays below one position over the whole range of uint64, where floating point on absolute keys
// misses the window for half of some real key sets.
//
// The window that start and width give holds the predecessor (the last key <= k) of every k, trained or not: if the
// prediction of each trained key is off by at most ε, then for k between keys i and i+1 it lies in [i-ε, i+1+ε], the
// line being monotone, so i is in [p-ε-1, p+ε]. The origin is the key whose prediction is ε+1, where the first window that
// does not begin at 0 would come: with it there, neither an intercept nor a lower clamp is left to compute.
type model struct {
	origin uint64 // windows of keys up to here begin at 0
	slope  uint64 // positions per key, times 2^64
	limit  uint16 // where the last window begins
	width  uint16 // keys in a window; all of them where no line helps
	eps    uint16 // the bound that was verified; 0 in a plain node, which is searched whole
}

// start returns the first position of the window for k.
func (m *model) start(k uint64) int {
	p, _ := bits.Mul64(max(k, m.origin)-m.origin, m.slope)
	back, beyond := bits.Sub64(uint64(m.limit), p, 0)
	return int(p + back&-beyond) // the lesser of p and limit, without a branch that random keys make unforeseeable
}

// atLeast is 1 where k >= key and 0 elsewhere. It compiles to a comparison and a copy of its flag: a branch that depends on
// a random key would be foreseen wrongly every second time.
func atLeast(k, key uint64) int {
	if k >= key {
		return 1
	}
	return 0
}

// predecessor returns the position of the last key <= k within keys[lo:lo+width], or lo where there is none. It divides
// the window by three: the two loads of a step do not wait for each other, and nothing but the width decides a branch,
// so a processor runs ahead into the next lookup instead of waiting for this one's cache misses.
func predecessor(keys []uint64, lo, width int, k uint64) int {
	for width > 2 {
		third := width / 3
		lo += third * (atLeast(k, keys[lo+third]) + atLeast(k, keys[lo+2*third]))
		width -= 2 * third
	}
	if width == 2 {
		lo += atLeast(k, keys[lo+1])
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
	i := 6 * (atLeast(k, w[6]) + atLeast(k, w[12]))
	i += 2 * (atLeast(k, w[i+2]) + atLeast(k, w[i+4]))
	return i + atLeast(k, w[i+1])
}

// plainModel is the model of n keys that are searched whole.
func plainModel(n int) model { return model{width: uint16(n)} }

// slopes is the interval of slopes, times 2^64, of the lines that pass within ε of every point of a segment.
type slopes struct{ min, max uint64 }

// mid is the slope that is farthest from being infeasible.
func (s slopes) mid() uint64 { return s.min + (s.max-s.min)/2 }

// fit makes the model of keys for a feasible interval of slopes: the middle slope, the origin that halves the largest
// error, and then the proof, with start itself, that every key's window is right. It returns how many leading keys
// passed; rounding could only cost some at spans near 2^64 and in runs of consecutive keys.
func fit(keys []uint64, s slopes, eps int) (model, int) {
	n := len(keys)
	if n <= 2*eps+2 { // the window is the whole array whatever the line says
		m := plainModel(n)
		m.eps = uint16(eps)
		return m, n
	}
	m := model{slope: s.mid(), width: uint16(2*eps + 2), eps: uint16(eps)}
	m.limit = uint16(n) - m.width
	first := keys[0]
	p, ok := paceOf(m.slope, keys[n-1]-first)
	if !ok {
		return model{}, 0
	}
	least, most := spread(keys, &p)
	// Half a position less, since start rounds down: windows begin at slope * (k - first) - late.
	late := int64(eps)<<32 + 1<<31 - (least+most)/2
	if late < 0 || uint64(late>>32) >= m.slope {
		return model{}, 0 // not a line within ε
	}
	distance, _ := bits.Div64(uint64(late>>32), uint64(late<<32), m.slope)
	if distance > keys[n-1]-first {
		return model{}, 0
	}
	m.origin = first + distance
	return m, m.proven(keys)
}

// proven returns how many leading keys, and keys below them, the model gives the right window for: one that holds the key
// and, as a key before it may be asked for, the position before.
func (m *model) proven(keys []uint64) int {
	if len(keys) > 0 && m.start(keys[0]) > 0 {
		return 0
	}
	return proven(m, keys)
}
