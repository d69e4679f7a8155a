//go:build !race

package solo

// Enabled tells whether this is a build with the race detector.
const Enabled = false

// Guard stands for something that one goroutine at a time may use. Its zero value is ready.
type Guard struct{}

// Use is nothing without the race detector.
func (g *Guard) Use() {}
