//go:build !race

package kvindex

import "unsafe"

// descend is goDescend.
//
//go:noescape
func descend(node unsafe.Pointer, k uint64) (at unsafe.Pointer)

// search is goSearch, and asks for the value.
//
//go:noescape
func search(at unsafe.Pointer, k uint64, size uintptr) (value, slow unsafe.Pointer)

// find is search after descend.
//
//go:noescape
func find(node unsafe.Pointer, k uint64, size uintptr) (value, slow unsafe.Pointer)

// ahead asks for the lines that a search for k in the leaf of a slot will need, but for the value's, and does not wait for them.
//
//go:noescape
func ahead(at unsafe.Pointer, k uint64)

// seek is goSeek, and asks for what a scan needs that goes on. It may give back the slot instead. p is on the stack: no write
// barrier sees what comes there.
//
//go:noescape
func seek(node unsafe.Pointer, k uint64, size uintptr, p *spot) (slow unsafe.Pointer)

// aim is goAim, and asks for the buffer and, where a search will come, for the keys. It may give back the slot instead. t is on
// the stack, as in seek.
//
//go:noescape
func aim(node unsafe.Pointer, k uint64, search bool, t *target) (slow unsafe.Pointer)

// hit is goHit.
//
//go:noescape
func hit(t *target, k uint64) int

// matches is goMatches.
//
//go:noescape
func matches(b unsafe.Pointer, k uint64, among uint32) uint32

// fetch asks for a number of bytes.
//
//go:noescape
func fetch(at unsafe.Pointer, bytes uintptr)

// Offsets for the assembly, which linters do not read.
//
//nolint:unused
const (
	innerCount    = unsafe.Offsetof(inner[uint64]{}.count)
	innerSegments = unsafe.Offsetof(inner[uint64]{}.segs)
	segmentBytes  = unsafe.Sizeof(segment[uint64]{})
	segmentOrigin = unsafe.Offsetof(segment[uint64]{}.model) + unsafe.Offsetof(model{}.origin)
	segmentSlope  = unsafe.Offsetof(segment[uint64]{}.model) + unsafe.Offsetof(model{}.slope)
	segmentLimit  = unsafe.Offsetof(segment[uint64]{}.model) + unsafe.Offsetof(model{}.limit)
	segmentWidth  = unsafe.Offsetof(segment[uint64]{}.model) + unsafe.Offsetof(model{}.width)
	segmentWindow = unsafe.Offsetof(segment[uint64]{}.window)
	segmentCount  = unsafe.Offsetof(segment[uint64]{}.pivots) + 8
	segmentLeaves = unsafe.Offsetof(segment[uint64]{}.leaves)
	segmentNodes  = unsafe.Offsetof(segment[uint64]{}.nodes)

	slotBytes      = unsafe.Sizeof(slot[uint64]{})
	slotShown      = unsafe.Offsetof(slot[uint64]{}.shown)
	slotKeys       = unsafe.Offsetof(slot[uint64]{}.keys)
	slotValues     = unsafe.Offsetof(slot[uint64]{}.values)
	slotBuffer     = unsafe.Offsetof(slot[uint64]{}.buffer)
	slotOrigin     = unsafe.Offsetof(slot[uint64]{}.origin)
	slotSlope      = unsafe.Offsetof(slot[uint64]{}.slope)
	bufferKeysAt   = unsafe.Offsetof(buffer[uint64]{}.keys)
	bufferValuesAt = unsafe.Offsetof(buffer[uint64]{}.values)

	slotLimit = unsafe.Offsetof(slot[uint64]{}.shape)
	slotWidth = unsafe.Offsetof(slot[uint64]{}.shape) + 2
)

// What else the assembly takes for granted: it shifts by this, and values follow the keys at once whatever their type is.
var (
	_ = [1]struct{}{}[slotBytes-64]
	_ = [1]struct{}{}[bufferValuesAt-bufferKeysAt-8*maxBuffer]
	_ = [1]struct{}{}[bufferValuesAt%8]
)
