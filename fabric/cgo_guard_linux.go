//go:build linux && cgo && !nofabric

package fabric

// #include "../csrc/fabric/shim.h"
import "C"

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// As in cgo_linux.go.
const (
	_ = numGuarded - C.WEFT_FI_GUARDS
	_ = C.WEFT_FI_GUARDS - numGuarded
	_ = uint(GuardLook) - C.WEFT_FI_GUARD_LOOK
	_ = C.WEFT_FI_GUARD_LOOK - uint(GuardLook)
)

func cGuardDomain(d unsafe.Pointer) unsafe.Pointer {
	return unsafe.Pointer(C.weft_fi_domain_guard((*C.struct_weft_fi_domain)(d)))
}

func cGuardCalls(guards unsafe.Pointer, which Guarded) unsafe.Pointer {
	return unsafe.Pointer(C.weft_fi_guard_calls((*C.struct_weft_fi_guards)(guards), C.uint32_t(which)))
}

func cBreak(guards unsafe.Pointer, which Guarded, call uint64) bool {
	return C.weft_fi_guard_break((*C.struct_weft_fi_guards)(guards), C.uint32_t(which), C.uint64_t(call)) != 0
}

func cBroken(guards unsafe.Pointer) bool {
	return C.weft_fi_guard_broken((*C.struct_weft_fi_guards)(guards)) != 0
}

func cLookCQ(cq unsafe.Pointer) int { return int(C.weft_fi_cq_look((*C.struct_weft_fi_cq)(cq))) }

func cNapCQ(cq unsafe.Pointer, bell *atomic.Uint32, rings uint32, every, limit time.Duration) int {
	return int(C.weft_fi_cq_nap((*C.struct_weft_fi_cq)(cq), (*C.uint32_t)(unsafe.Pointer(bell)), C.uint32_t(rings),
		C.uint32_t(every.Microseconds()), C.uint32_t(limit.Milliseconds())))
}

func cRing(bell *atomic.Uint32) { C.weft_fi_ring((*C.uint32_t)(unsafe.Pointer(bell))) }

func cRingsOfCQ(cq unsafe.Pointer) uint32 {
	return uint32(C.weft_fi_cq_rings((*C.struct_weft_fi_cq)(cq)))
}

func cRingCQ(cq unsafe.Pointer) { C.weft_fi_cq_ring((*C.struct_weft_fi_cq)(cq)) }
