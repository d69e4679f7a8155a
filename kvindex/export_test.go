package kvindex

import "flag"

// What make soak-kvindex gives: how long TestSoak goes on, and its seed.
var (
	Soak     = flag.Duration("soak", 0, "how long TestSoak goes on; every test that draws cases draws 20 times as many")
	SoakSeed = flag.Uint64("soak.seed", 0, "the seed of TestSoak; 0 draws one")
)

// Rounds is how many cases a test draws: enough to find its fault in an everyday run, and many more in a soak.
func Rounds(everyday int) int {
	if *Soak > 0 {
		return 20 * everyday
	}
	return everyday
}

// Model is the fixed-point model.
type Model = model

// What the tests of the pure functions reach.
var (
	OptimalRun  = optimalRun
	ConeRun     = coneRun
	Predecessor = predecessor
	PlainModel  = plainModel
)

// Start is the model's window.
func (m *model) Start(k uint64) int { return m.start(k) }

// Width is the number of keys in the window.
func (m *model) Width() int { return int(m.width) }

// Retrain cuts keys as a changed node is cut, and returns the sizes and models.
func Retrain(keys []uint64, c Config, plain bool) (sizes []int, models []Model) {
	c = c.withDefaults()
	for _, p := range c.leafTrainer().retrain(keys, plain, inside) {
		sizes, models = append(sizes, p.n), append(models, p.model)
	}
	return sizes, models
}

// leafOf returns the leaf of k.
func (x *Index[V]) leafOf(k uint64) *leaf[V] { return x.tree().descend(k).load() }

// Enter and Leave begin and end what a reader's lookups do around their work.
func Enter(r *Reader) { r.epoch.enter() }

// Leave is the end.
func Leave(r *Reader) { r.epoch.leave() }

// Kept is how many replaced leaves an index keeps for its snapshots.
func Kept[V any](x *Index[V]) (n int) {
	for _, p := range x.snapshots.all() {
		if leaves := p.leaves.Load(); leaves != nil {
			n += leaves.Len()
		}
	}
	return n
}

// Words are memory of this process.
func Words(memory []uint64) Memory { return words(memory) }
