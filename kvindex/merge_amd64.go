//go:build !race

package kvindex

// places is goPlaces.
//
//go:noescape
func places(m *model, keys []uint64, of *[maxBuffer]uint64, n int, at *[maxBuffer]int)

// proven is goProven, with the instructions that lookups have.
//
//go:noescape
func proven(m *model, keys []uint64) int

// sumOver is goSumOver.
//
//go:noescape
func sumOver(keys []uint64, base, shift uint64) uint64

// spread is goSpread.
//
//go:noescape
func spread(keys []uint64, p *pace) (least, most int64)

// ranks is goRanks.
//
//go:noescape
func ranks(keys *[maxBuffer]uint64, order *[maxBuffer]uint8)

// weaveWords is goWeaveWords.
//
//go:noescape
func weaveWords(to, from []uint64, written *[maxBuffer]uint64, all *gaps)
