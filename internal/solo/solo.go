// Package solo notices, in builds with the race detector, goroutines that use without any order between them what one goroutine at a
// time may use. What is not concurrent often lies in C, where the race detector sees nothing. In other builds it is nothing.
package solo
