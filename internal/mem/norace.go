//go:build !race

package mem

// Reads tells the race detector, which does not see into C, that C reads s during the call that follows.
func Reads[T any]([]T) {}

// Writes tells it that C writes s.
func Writes[T any]([]T) {}
