package kvindex

import (
	"math"
	"math/bits"
)

// maxCapacity is the largest number of keys in a leaf or in a segment of an inner node (DPA-Store, OSDI '26).
const maxCapacity = 128

// point is a bound on the position of a key: the key relative to the segment's first one, and the position ± ε.
type point struct {
	x uint64
	y int64
}

// rise is the way from one point to another, whose x is larger.
type rise struct {
	dx int64 // the bits of a uint64
	dy int64
}

func (a point) to(b point) rise { return rise{int64(b.x - a.x), b.y - a.y} }

// steeper tells whether r rises faster than s. Exact: no quotient is formed. Positions differ by less than 2^8, so products
// of distances below 2^55, which nearly all are, fit a word. It is small enough for the compiler to put it into its callers.
func (r rise) steeper(s rise, far bool) bool {
	if far {
		return steeperFar(r, s)
	}
	return s.dx*r.dy > r.dx*s.dy
}

// steeperFar is steeper for any distances: a product needs up to 74 bits.
//
//go:noinline
func steeperFar(r, s rise) bool {
	hi1, lo1 := product(uint64(s.dx), r.dy)
	hi2, lo2 := product(uint64(r.dx), s.dy)
	return hi1 > hi2 || hi1 == hi2 && lo1 > lo2
}

// product is the signed 128-bit product of an unsigned and a signed number.
func product(x uint64, y int64) (hi int64, lo uint64) {
	h, l := bits.Mul64(x, uint64(y))
	return int64(h - x&uint64(y>>63)), l
}

// ratio returns dy/dx times 2^64, rounded to nearest and kept within what a model can hold.
func ratio(dx uint64, dy int64) uint64 {
	if dy <= 0 {
		return 0
	}
	if uint64(dy) >= dx {
		return math.MaxUint64
	}
	q, r := bits.Div64(uint64(dy), 0, dx)
	if r >= dx-r && q < math.MaxUint64 {
		q++
	}
	return q
}

// feasible tracks the lines that pass within ε of every point so far (J. O'Rourke, "An on-line algorithm for fitting
// straight lines between data ranges", CACM 24(9), 1981, in the form of the PGM-index): the two extreme lines, and of
// the bounds' convex hulls the part that can still become an end of one.
type feasible struct {
	n          int
	far        bool     // distances may be 2^55 or more
	flat       [2]point // ends of the line with the least slope: an upper bound, then a lower one
	steep      [2]point // ends of the line with the greatest slope: a lower bound, then an upper one
	upper      [maxCapacity]point
	lower      [maxCapacity]point
	upperStart int
	upperEnd   int
	lowerStart int
	lowerEnd   int
}

// add takes the next point, or returns false and changes nothing when no line passes all of them.
func (f *feasible) add(x uint64, y, eps int64) bool {
	above, below := point{x, y + eps}, point{x, y - eps}
	f.far = x >= 1<<55 // keys rise, so no distance is greater
	switch {
	case f.n == 0:
		f.flat[0], f.steep[0] = above, below
		f.upper[0], f.lower[0] = above, below
		f.upperStart, f.lowerStart = 0, 0
		f.upperEnd, f.lowerEnd = 1, 1
	case f.n == 1:
		f.flat[1], f.steep[1] = below, above
		f.upper[1], f.lower[1] = above, below
		f.upperEnd, f.lowerEnd = 2, 2
	case f.flat[0].to(f.flat[1]).steeper(f.flat[1].to(above), f.far), f.steep[1].to(below).steeper(f.steep[0].to(f.steep[1]), f.far):
		return false
	default:
		if f.steep[0].to(f.steep[1]).steeper(f.steep[0].to(above), f.far) {
			f.lowerSteep(above)
		}
		if f.flat[0].to(below).steeper(f.flat[0].to(f.flat[1]), f.far) {
			f.raiseFlat(below)
		}
	}
	f.n++
	return true
}

// lowerSteep turns the steepest line down to the new upper bound, around the lower bound that allows most.
func (f *feasible) lowerSteep(above point) {
	best := f.lowerStart
	for i := best + 1; i < f.lowerEnd && !f.lower[i].to(above).steeper(f.lower[best].to(above), f.far); i++ {
		best = i
	}
	f.steep = [2]point{f.lower[best], above}
	f.lowerStart = best
	end := f.upperEnd
	for end >= f.upperStart+2 && !f.upper[end-1].to(above).steeper(f.upper[end-2].to(f.upper[end-1]), f.far) {
		end--
	}
	f.upper[end] = above
	f.upperEnd = end + 1
}

// raiseFlat turns the flattest line up to the new lower bound, around the upper bound that allows most.
func (f *feasible) raiseFlat(below point) {
	best := f.upperStart
	for i := best + 1; i < f.upperEnd && !f.upper[best].to(below).steeper(f.upper[i].to(below), f.far); i++ {
		best = i
	}
	f.flat = [2]point{f.upper[best], below}
	f.upperStart = best
	end := f.lowerEnd
	for end >= f.lowerStart+2 && !f.lower[end-2].to(f.lower[end-1]).steeper(f.lower[end-1].to(below), f.far) {
		end--
	}
	f.lower[end] = below
	f.lowerEnd = end + 1
}

// slopes returns the feasible interval.
func (f *feasible) slopes() slopes {
	if f.n < 2 {
		return slopes{}
	}
	return slopes{
		min: ratio(f.flat[1].x-f.flat[0].x, f.flat[1].y-f.flat[0].y),
		max: ratio(f.steep[1].x-f.steep[0].x, f.steep[1].y-f.steep[0].y),
	}
}

// optimalRun returns the longest prefix of keys, of at most limit <= maxCapacity, that one line predicts within eps, with
// its model. Taking longest prefixes gives the fewest segments. At least one key is taken.
func optimalRun(keys []uint64, eps, limit int) (model, int) {
	var f feasible
	return f.run(keys[:min(len(keys), limit)], eps)
}

// run is optimalRun with the memory of an earlier one.
func (f *feasible) run(keys []uint64, eps int) (model, int) {
	f.n = 0
	for i, k := range keys {
		if !f.add(k-keys[0], int64(i), int64(eps)) {
			break
		}
	}
	return fitRun(keys[:f.n], f.slopes(), eps)
}

// halves is a slope that nearly always does where keys are evenly spread, at a tenth of the work of the optimal one: that
// of the line through the means of the lower and the upper half (M. S. Bartlett, Biometrics 5, 1949).
func halves(keys []uint64) slopes {
	n := len(keys)
	half := n / 2
	if half == 0 {
		return slopes{}
	}
	shift := max(bits.Len64(keys[n-1]-keys[0])+bits.Len(maxCapacity/2)-64, 0) // keeps the sums within 64 bits
	lower, upper := sumOver(keys[:half], keys[0], uint64(shift)), sumOver(keys[n-half:], keys[0], uint64(shift))
	slope := ratio((upper-lower)/uint64(half), int64(n-half)) >> shift
	return slopes{slope, slope}
}

// fitRun makes the model of a run, shortened until the code that serves it passes every key.
func fitRun(keys []uint64, s slopes, eps int) (model, int) {
	for {
		m, passed := fit(keys, s, eps)
		if passed == len(keys) {
			return m, passed
		}
		keys = keys[:max(passed, 1)]
	}
}
