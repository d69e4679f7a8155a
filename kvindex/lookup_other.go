//go:build !amd64 || race

package kvindex

import "unsafe"

// Where there is no assembly, and under the race detector, which does not see into it.

func descend(node unsafe.Pointer, k uint64) (at unsafe.Pointer) { return goDescend(node, k) }

func search(at unsafe.Pointer, k uint64, size uintptr) (value, slow unsafe.Pointer) {
	return goSearch(at, k, size)
}

func find(node unsafe.Pointer, k uint64, size uintptr) (value, slow unsafe.Pointer) {
	return goSearch(goDescend(node, k), k, size)
}

func seek(node unsafe.Pointer, k uint64, _ uintptr, p *spot) (slow unsafe.Pointer) {
	goSeek(node, k, p)
	return nil
}

func aim(node unsafe.Pointer, k uint64, _ bool, t *target) (slow unsafe.Pointer) {
	goAim(node, k, t)
	return nil
}

func hit(t *target, k uint64) int { return goHit(t, k) }

func matches(b unsafe.Pointer, k uint64, among uint32) uint32 { return goMatches(b, k, among) }

// ahead does nothing: asking for memory is an instruction that Go has no name for.
func ahead(unsafe.Pointer, uint64) {}

// fetch does nothing either.
func fetch(unsafe.Pointer, uintptr) {}
