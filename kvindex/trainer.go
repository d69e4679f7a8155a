package kvindex

import "slices"

// piece is a run of sorted keys that becomes one leaf or one inner segment.
type piece struct {
	n     int
	model model
}

// trainer cuts sorted keys into pieces. Its methods are pure functions of the keys.
type trainer struct {
	eps, widest int // error bounds: of the first line that is tried, and of the last
	capacity    int
	search      Search
}

// learnedRun is how many keys a line has to carry to win. At 30 keys a line (8-byte prefixes of words) lookups in learned
// leaves take 0.9 of the time of those in full plain ones (measured), at five times the memory beside the keys, since a
// leaf costs 190 bytes; with shorter lines the many leaves fall out of the caches.
const learnedRun = 24

// winningRun is learnedRun for any bound: a line is no help where its window is most of the keys that it carries.
func winningRun(eps int) int { return max(learnedRun, 3*eps) }

// retrainBound is how many keys a piece gets when a node overflows: a quarter of the capacity, so that the pieces take
// many more keys before they are cut again.
func (t trainer) retrainBound() int { return max(t.capacity/4, 2) }

// load cuts keys as full as they get.
func (t trainer) load(keys []uint64) []piece {
	pieces := make([]piece, 0, len(keys)/t.capacity+1)
	cut := cutter{trainer: t}
	for len(keys) > 0 {
		p := cut.first(keys)
		pieces = append(pieces, p)
		keys = keys[p.n:]
	}
	return pieces
}

// loadInner cuts pivots as full as they get. Pivots are few and hot, so a short line gives way to a plain segment without
// a probe.
func (t trainer) loadInner(pivots []uint64) (pieces []piece) {
	cut := cutter{trainer: t}
	for len(pivots) > 0 {
		p := cut.first(pivots)
		if whole := min(len(pivots), t.capacity); t.search == SearchAuto && p.n < min(whole, learnedRun) {
			p = piece{whole, plainModel(whole)}
		}
		pieces = append(pieces, p)
		pivots = pivots[p.n:]
	}
	return pieces
}

// cutter cuts one piece after the other from the front of sorted keys.
type cutter struct {
	trainer
	lines feasible
	easy  bool // a line carried as many keys as a node holds
}

// first cuts the longest piece. Where the last one was full a cheap line comes first: if it carries a full piece, no
// other carries more.
func (c *cutter) first(keys []uint64) piece {
	keys = keys[:min(len(keys), c.capacity)]
	if c.search == SearchPlain {
		return piece{len(keys), plainModel(len(keys))}
	}
	if c.easy {
		if m, n := fit(keys, halves(keys), c.eps); n == len(keys) {
			return piece{n, m}
		}
	}
	m, n := c.lines.run(keys, c.eps)
	c.easy = n == c.capacity
	return piece{n, m}
}

// retrain cuts the keys of a node that has changed: into one piece where one will do, otherwise into pieces of at most
// retrainBound, or, where the node grows at one end, into pieces as full as they get. A cheap line comes first. Where none fits
// and the node has been plain, it stays plain: searching for the best line each time would cost more than it brings, and splits
// make learned nodes again.
func (t trainer) retrain(keys []uint64, plain bool, grew edge) []piece {
	switch {
	case len(keys) == 0:
		return []piece{{}}
	case t.search == SearchPlain:
		return t.plain(keys, grew)
	case len(keys) > t.capacity && grew != inside:
		return t.grown(keys, grew)
	case len(keys) > t.capacity:
		return t.unlessShort(keys, t.sparse(keys), t.retrainBound()*2/3, inside)
	}
	if p := t.whole(keys); p.model.eps > 0 {
		return []piece{p}
	}
	if plain && t.search == SearchAuto {
		return t.plain(keys, grew)
	}
	if grew != inside {
		return t.grown(keys, grew)
	}
	pieces := t.load(keys)
	if len(pieces) == 1 {
		return pieces
	}
	if pieces = t.unlessShort(keys, pieces, learnedRun, inside); pieces[0].model.eps == 0 {
		return pieces
	}
	return t.sparse(keys)
}

// grown cuts keys that come at one end into the longest runs, from the other end on.
func (t trainer) grown(keys []uint64, grew edge) []piece {
	if grew == back {
		return t.unlessShort(keys, t.load(keys), learnedRun, back)
	}
	mirrored := make([]uint64, len(keys))
	for i, k := range keys {
		mirrored[len(keys)-1-i] = ^k
	}
	var pieces []piece
	from := 0
	for _, p := range slices.Backward(t.load(mirrored)) {
		pieces = append(pieces, t.load(keys[from:from+p.n])...) // one, but for rounding
		from += p.n
	}
	return t.unlessShort(keys, pieces, learnedRun, front)
}

// sparse cuts keys into equal pieces of at most retrainBound, and again those that no line fits.
func (t trainer) sparse(keys []uint64) []piece {
	bound := t.retrainBound()
	count := (len(keys) + bound - 1) / bound
	pieces := make([]piece, 0, count)
	for i := range count {
		part := keys[i*len(keys)/count : (i+1)*len(keys)/count]
		if m, n := fit(part, halves(part), t.eps); n == len(part) {
			pieces = append(pieces, piece{n, m})
		} else {
			pieces = append(pieces, t.load(part)...)
		}
	}
	return pieces
}

// whole makes one piece of keys: with a cheap line of the least bound that does, or else plain.
func (t trainer) whole(keys []uint64) piece {
	if t.search != SearchPlain {
		s := halves(keys)
		for eps := t.eps; eps == t.eps || eps <= t.widest && winningRun(eps) <= len(keys); eps *= 2 {
			if m, n := fit(keys, s, eps); n == len(keys) {
				return piece{n, m}
			}
		}
	}
	return piece{len(keys), plainModel(len(keys))}
}

// unlessShort gives plain pieces instead where the learned ones carry fewer keys than run on average.
func (t trainer) unlessShort(keys []uint64, pieces []piece, run int, grew edge) []piece {
	if t.search == SearchAuto && len(keys) < run*len(pieces) {
		return t.plain(keys, grew)
	}
	return pieces
}

// plain cuts keys into pieces that no line has to fit: one where they fit; otherwise equal ones of half the capacity, or, where
// the node grows at one end, full ones from the other end on.
func (t trainer) plain(keys []uint64, grew edge) (pieces []piece) {
	if len(keys) <= t.capacity {
		return []piece{t.whole(keys)}
	}
	if grew == inside {
		count := (len(keys)*2 + t.capacity - 1) / t.capacity
		pieces = make([]piece, 0, count)
		for i := range count {
			pieces = append(pieces, t.whole(keys[i*len(keys)/count:(i+1)*len(keys)/count]))
		}
		return pieces
	}
	if rest := len(keys) % t.capacity; grew == front && rest > 0 {
		pieces, keys = append(pieces, t.whole(keys[:rest])), keys[rest:]
	}
	for part := range slices.Chunk(keys, t.capacity) {
		pieces = append(pieces, t.whole(part))
	}
	return pieces
}

// The probe's sample: so many stretches, each long enough for two full segments.
const (
	probeStretches = 32
	probeLength    = 2 * maxCapacity
)

// probe decides for a whole key set, which comes in runs, how it is loaded: with lines of the least bound with which they
// win, or else plain.
func (t trainer) probe(runs [][]uint64) trainer {
	if t.search == SearchPlain || t.capacity <= learnedRun {
		return t
	}
	for wide := t; wide.eps <= t.widest; wide.eps *= 2 {
		if sampled, segments := wide.sample(runs); sampled >= winningRun(wide.eps)*segments {
			return wide
		}
	}
	if t.search == SearchAuto {
		t.search = SearchPlain
	}
	return t
}

// sample counts keys and segments in stretches spread evenly over the keys. A stretch ends with its run.
func (t trainer) sample(runs [][]uint64) (sampled, segments int) {
	total := 0
	for _, keys := range runs {
		total += len(keys)
	}
	for i, skipped := 0, 0; i < probeStretches && len(runs) > 0; {
		from := i*max(total-probeLength, 0)/probeStretches - skipped
		if from >= len(runs[0]) {
			skipped += len(runs[0])
			runs = runs[1:]
			continue
		}
		i++
		stretch := runs[0][from:min(from+probeLength, len(runs[0]))]
		for len(stretch) > 0 {
			_, n := optimalRun(stretch, t.eps, t.capacity)
			if n == len(stretch) && segments > 0 {
				break // cut short by the stretch's end
			}
			sampled, segments = sampled+n, segments+1
			stretch = stretch[n:]
		}
	}
	return sampled, segments
}
