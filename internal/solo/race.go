//go:build race

package solo

// Enabled tells whether this is a build with the race detector.
const Enabled = true

// Guard stands for something that one goroutine at a time may use. Its zero value is ready.
type Guard struct{ uses uint64 }

// Use is called at the start of each use, before anything that orders it after an earlier one, such as a lock or an atomic operation: the
// race detector then reports two uses that nothing of the callers' orders.
func (g *Guard) Use() { g.uses++ }
