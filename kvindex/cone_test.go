package kvindex

// coneRun does what optimalRun does with the swing filter, which holds the line to the first key: less work a key, and up to 1.4
// times the segments.
func coneRun(keys []uint64, eps, limit int) (model, int) {
	keys = keys[:min(len(keys), limit)]
	apex, e := point{}, int64(eps)
	var flat, steep point
	n := 1
	for ; n < len(keys); n++ {
		x := keys[n] - keys[0]
		above, below := point{x, int64(n) + e}, point{x, int64(n) - e}
		if n > 1 && (apex.to(flat).steeper(apex.to(above), true) || apex.to(below).steeper(apex.to(steep), true)) {
			break
		}
		if n == 1 || apex.to(steep).steeper(apex.to(above), true) {
			steep = above
		}
		if n == 1 || apex.to(below).steeper(apex.to(flat), true) {
			flat = below
		}
	}
	var s slopes
	if n > 1 {
		s = slopes{ratio(flat.x, flat.y), ratio(steep.x, steep.y)}
	}
	return fitRun(keys[:n], s, eps)
}
