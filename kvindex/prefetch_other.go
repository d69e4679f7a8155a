//go:build !amd64

package kvindex

// prefetchAhead does nothing where there is no assembly for it.
func prefetchAhead(*uint64, any, uint64, uint64) {}

// prefetchScan does nothing either.
func prefetchScan(*uint64, any, uint64, uint64) {}

// search18 is predecessor18 alone.
func search18(keys *[leaf18]uint64, k uint64, _ any) int { return predecessor18(keys, k) }

// prefetchBuffer does nothing either.
func prefetchBuffer(any) {}

// prefetchArrays neither.
func prefetchArrays(*uint64, any, int) {}

// prefetchWritten neither.
func prefetchWritten(any) {}

// prefetchSlots neither.
func prefetchSlots(any) {}

// prefetchLeaf neither.
func prefetchLeaf(any) {}
