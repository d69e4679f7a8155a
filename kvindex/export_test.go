package kvindex

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
	for _, p := range c.leafTrainer().retrain(keys, plain) {
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
