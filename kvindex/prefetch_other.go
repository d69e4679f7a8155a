//go:build !amd64

package kvindex

// prefetchWindow does nothing where there is no assembly for it.
func prefetchWindow(*uint64, any) {}

// prefetchBuffer does nothing either.
func prefetchBuffer(any) {}

// prefetchLeaf neither.
func prefetchLeaf(any) {}
