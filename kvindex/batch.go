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

// getLanes does one pass. Each loop does for every key what a single lookup does next; the loops' iterations do not
// depend on each other, so the processor runs ahead over those that wait for memory.
func (x *Index[V]) getLanes(keys []uint64, values []V, found []bool) {
	var nodes [lanes]*inner[V]
	var leaves [lanes]*leaf[V]
	root := x.tree()
	for i := range keys {
		nodes[i] = root
	}
	for leaves[0] == nil {
		for i, k := range keys {
			seg, at := nodes[i].route(k)
			if seg.leaves != nil {
				leaves[i] = seg.leaves[at].Load()
			} else {
				nodes[i] = seg.nodes[at].Load()
			}
		}
	}
	var touched uint64
	var starts [lanes]int
	for i, k := range keys {
		l := leaves[i]
		at := l.model.start(k)
		starts[i] = at
		if at < len(l.keys) {
			touched |= l.keys[at] // asks for the line, and waits for nothing
		}
	}
	_ = touched
	for i, k := range keys {
		l := leaves[i]
		if b := l.buf.Load(); b != nil {
			values[i], found[i] = x.Get(k)
			continue
		}
		at := predecessor(l.keys, starts[i], int(l.model.width), k)
		if found[i] = at < len(l.keys) && l.keys[at] == k; found[i] {
			values[i] = l.values[at]
		} else {
			var none V
			values[i] = none
		}
	}
}
