package kvindex

// lanes is how many keys of a batch go down the tree together: enough to overlap the memory latencies of all, few enough
// for their state to stay in the first-level cache.
const lanes = 32

// GetBatch looks up keys[i] into values[i] and found[i], for all i. Many keys go down the tree level by level, so that
// their cache misses overlap: at sizes that miss the caches it takes a third of the time of single gets. The values of
// keys that are not there are set to zero. It panics where the three slices differ in length, and after Close.
func (x *Index[V]) GetBatch(keys []uint64, values []V, found []bool) {
	if len(keys) != len(values) || len(keys) != len(found) {
		panic("kvindex: GetBatch: keys, values and found differ in length")
	}
	for len(keys) > 0 {
		n := min(len(keys), lanes)
		x.getLanes(keys[:n], values[:n], found[:n])
		keys, values, found = keys[n:], values[n:], found[n:]
	}
}

// getLanes takes three rounds: through the inner nodes, which are mostly in the caches; asking for all memory that the
// searches will need; and searching.
func (x *Index[V]) getLanes(keys []uint64, values []V, found []bool) {
	var segs [lanes]*segment[V]
	var slots [lanes]int
	for i, k := range keys {
		segs[i], slots[i] = x.slotOf(k)
	}
	var leaves [lanes]*leaf[V]
	for i, k := range keys {
		s, pivot := &segs[i].leaves[slots[i]], segs[i].pivots[slots[i]]
		prefetchAhead(s.keys.Load(), s.values.Load(), max(k, pivot)-pivot, s.line.Load())
		leaves[i] = s.leaf.Load()
		prefetchLeaf(leaves[i])
	}
	for i, k := range keys {
		l := leaves[i]
		if b := l.buf.Load(); b != nil {
			values[i], found[i] = l.getBuffered(b, k)
			continue
		}
		values[i], found[i] = l.search(k)
	}
}
