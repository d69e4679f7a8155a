//go:build !amd64 || race

package kvindex

// Where there is no assembly, and under the race detector, which does not see into it.

func places(m *model, keys []uint64, of *[maxBuffer]uint64, n int, at *[maxBuffer]int) {
	goPlaces(m, keys, of, n, at)
}

func proven(m *model, keys []uint64) int { return goProven(m, keys) }

func sumOver(keys []uint64, base, shift uint64) uint64 { return goSumOver(keys, base, shift) }

func spread(keys []uint64, p *pace) (least, most int64) { return goSpread(keys, p) }

func ranks(keys *[maxBuffer]uint64, order *[maxBuffer]uint8) { goRanks(keys, order) }

func weaveWords(to, from []uint64, written *[maxBuffer]uint64, g *gaps) {
	goWeaveWords(to, from, written, g)
}
