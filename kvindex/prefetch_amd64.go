package kvindex

// prefetchAhead asks for the keys around a predicted position, and for the value there, and does not wait for them: the
// position that a slot's line gives for a distance from the pivot. values is a pointer to the first value: as an interface,
// since an assembly function has no type parameters.
//
//go:noescape
func prefetchAhead(keys *uint64, values any, distance, line uint64)

// prefetchScan is prefetchAhead, and asks for the two lines of keys and of values that come then.
//
//go:noescape
func prefetchScan(keys *uint64, values any, distance, line uint64)

// search18 is predecessor18, and asks first for the lines of the values around the window's middle.
//
//go:noescape
func search18(keys *[leaf18]uint64, k uint64, value any) int

// prefetchBuffer asks for the lines of a buffer's states and keys. It takes a pointer to the buffer as an interface.
//
//go:noescape
func prefetchBuffer(buffer any)

// prefetchArrays asks for n keys and as many values, of the first of which it takes a pointer as an interface; of values
// that are larger than a word, for the first ones.
//
//go:noescape
func prefetchArrays(keys *uint64, values any, n int)

// prefetchWritten asks for the lines of a leaf, a pointer to which it takes as an interface, and of the buffer that it
// mostly has behind it.
//
//go:noescape
func prefetchWritten(leaf any)

// prefetchSlots asks for the lines of three slots or four, from the first of which it takes a pointer as an interface.
//
//go:noescape
func prefetchSlots(slot any)

// prefetchLeaf asks for both cache lines of a leaf, a pointer to which it takes as an interface.
//
//go:noescape
func prefetchLeaf(leaf any)
