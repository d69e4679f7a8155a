//go:build linux && cgo && !nofabric

package fabric

// #cgo noescape weft_fi_cq_poll
// #cgo nocallback weft_fi_cq_poll
// #cgo noescape weft_fi_cq_poll_while
// #cgo nocallback weft_fi_cq_poll_while
// #cgo noescape weft_fi_post
// #cgo nocallback weft_fi_post
// #cgo noescape weft_fi_inject
// #cgo nocallback weft_fi_inject
// #cgo noescape weft_fi_post_poll
// #cgo nocallback weft_fi_post_poll
// #cgo noescape weft_fi_post_atomics
// #cgo nocallback weft_fi_post_atomics
// #cgo noescape weft_fi_template_post
// #cgo nocallback weft_fi_template_post
// #include "../csrc/fabric/shim.h"
import "C"

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// As in cgo_linux.go.
const (
	_ = unsafe.Sizeof(Seg{}) - C.sizeof_struct_weft_fi_seg
	_ = C.sizeof_struct_weft_fi_seg - unsafe.Sizeof(Seg{})
	_ = unsafe.Sizeof(Op{}) - C.sizeof_struct_weft_fi_op
	_ = C.sizeof_struct_weft_fi_op - unsafe.Sizeof(Op{})
	_ = unsafe.Sizeof(AtomicOp{}) - C.sizeof_struct_weft_fi_atomic
	_ = C.sizeof_struct_weft_fi_atomic - unsafe.Sizeof(AtomicOp{})
	_ = unsafe.Sizeof(Patch{}) - C.sizeof_struct_weft_fi_patch
	_ = C.sizeof_struct_weft_fi_patch - unsafe.Sizeof(Patch{})
	_ = unsafe.Sizeof(postPolled{}) - C.sizeof_struct_weft_fi_post_polled
	_ = C.sizeof_struct_weft_fi_post_polled - unsafe.Sizeof(postPolled{})
	_ = unsafe.Sizeof(Completion{}) - C.sizeof_struct_weft_fi_completion
	_ = C.sizeof_struct_weft_fi_completion - unsafe.Sizeof(Completion{})
)

// number is a C object for the calls of the data path.
func number(object unsafe.Pointer) C.weft_fi_number { return C.weft_fi_number(uintptr(object)) }

func cOpenCQ(d unsafe.Pointer, cfg CQConfig) (cq unsafe.Pointer, fd int, err error) {
	var p *C.struct_weft_fi_cq
	tagged, descriptor := C.int(0), C.int(-1)
	if cfg.Tagged {
		tagged = 1
	}
	rc := C.weft_fi_cq_open((*C.struct_weft_fi_domain)(d), C.uint64_t(cfg.Depth), tagged, C.uint32_t(cfg.Wait),
		C.int(cfg.Vector), 0, &p, &descriptor)
	return unsafe.Pointer(p), int(descriptor), failedC("fi_cq_open", rc)
}

func cCloseCQ(cq unsafe.Pointer) error {
	return failedC("fi_close", C.weft_fi_cq_close((*C.struct_weft_fi_cq)(cq)))
}

func cRawCQ(cq unsafe.Pointer) unsafe.Pointer { return C.weft_fi_cq_raw((*C.struct_weft_fi_cq)(cq)) }

func cSignalCQ(cq unsafe.Pointer) error {
	return failedC("fi_cq_signal", C.weft_fi_cq_signal((*C.struct_weft_fi_cq)(cq)))
}

func cTryWaitCQ(cq unsafe.Pointer) bool {
	return C.weft_fi_cq_trywait((*C.struct_weft_fi_cq)(cq)) == 0
}

func cFailure(cq unsafe.Pointer, number uint32, f *failure) bool {
	return C.weft_fi_cq_failure((*C.struct_weft_fi_cq)(cq), C.uint32_t(number),
		(*C.struct_weft_fi_failure)(unsafe.Pointer(f))) != 0
}

func cLookCQ(cq unsafe.Pointer) int { return int(C.weft_fi_cq_look((*C.struct_weft_fi_cq)(cq))) }

func cPollCQ(cq unsafe.Pointer, completions []Completion, spin uint32) int {
	return int(C.weft_fi_cq_poll(number(cq),
		(*C.struct_weft_fi_completion)(unsafe.Pointer(unsafe.SliceData(completions))), C.uint32_t(len(completions)),
		C.uint32_t(spin)))
}

func cPollCQWhile(cq unsafe.Pointer, completions []Completion, spin uint32, word *atomic.Uint64, was uint64) int {
	return int(C.weft_fi_cq_poll_while(number(cq),
		(*C.struct_weft_fi_completion)(unsafe.Pointer(unsafe.SliceData(completions))), C.uint32_t(len(completions)),
		C.uint32_t(spin), (*C.uint64_t)(unsafe.Pointer(word)), C.uint64_t(was)))
}

func cWaitCQ(cq unsafe.Pointer, completions []Completion, timeout time.Duration) int {
	return int(C.weft_fi_cq_wait((*C.struct_weft_fi_cq)(cq),
		(*C.struct_weft_fi_completion)(unsafe.Pointer(unsafe.SliceData(completions))), C.uint32_t(len(completions)),
		C.int(timeout.Milliseconds())))
}

func cPost(ep unsafe.Pointer, k OpKind, ops []Op, segs []Seg) (accepted, result int) {
	var n C.uint32_t
	rc := C.weft_fi_post(number(ep), C.uint32_t(k),
		(*C.struct_weft_fi_op)(unsafe.Pointer(unsafe.SliceData(ops))), C.uint32_t(len(ops)),
		(*C.struct_weft_fi_seg)(unsafe.Pointer(unsafe.SliceData(segs))), C.uint32_t(len(segs)), &n)
	return int(n), int(rc)
}

func cInject(ep unsafe.Pointer, k OpKind, op *Op, data []byte) (result int) {
	return int(C.weft_fi_inject(number(ep), C.uint32_t(k), (*C.struct_weft_fi_op)(unsafe.Pointer(op)),
		unsafe.Pointer(unsafe.SliceData(data)), C.uint64_t(len(data))))
}

func cPostPoll(ep unsafe.Pointer, k OpKind, ops []Op, segs []Seg, completions []Completion, spin uint32, done *postPolled) {
	C.weft_fi_post_poll(number(ep), C.uint32_t(k),
		(*C.struct_weft_fi_op)(unsafe.Pointer(unsafe.SliceData(ops))), C.uint32_t(len(ops)),
		(*C.struct_weft_fi_seg)(unsafe.Pointer(unsafe.SliceData(segs))), C.uint32_t(len(segs)),
		(*C.struct_weft_fi_completion)(unsafe.Pointer(unsafe.SliceData(completions))), C.uint32_t(len(completions)),
		C.uint32_t(spin), (*C.struct_weft_fi_post_polled)(unsafe.Pointer(done)))
}

func cPostAtomics(ep unsafe.Pointer, k atomicKind, ops []AtomicOp, segs []Seg) (accepted, result int) {
	var n C.uint32_t
	rc := C.weft_fi_post_atomics(number(ep), C.uint32_t(k),
		(*C.struct_weft_fi_atomic)(unsafe.Pointer(unsafe.SliceData(ops))), C.uint32_t(len(ops)),
		(*C.struct_weft_fi_seg)(unsafe.Pointer(unsafe.SliceData(segs))), C.uint32_t(len(segs)), &n)
	return int(n), int(rc)
}

func cAtomicValid(ep unsafe.Pointer, k atomicKind, datatype Datatype, operator AtomicOperator) (int, error) {
	var n C.uint64_t
	rc := C.weft_fi_atomic_valid((*C.struct_weft_fi_ep)(ep), C.uint32_t(k), C.uint32_t(datatype), C.uint32_t(operator), &n)
	return int(n), failedC("fi_atomicvalid", rc)
}

func cQueryAtomic(d unsafe.Pointer, datatype Datatype, operator AtomicOperator) (values, size int, err error) {
	var n, bytes C.uint64_t
	rc := C.weft_fi_atomic_query((*C.struct_weft_fi_domain)(d), C.uint32_t(datatype), C.uint32_t(operator), 0, &n, &bytes)
	return int(n), int(bytes), failedC("fi_query_atomic", rc)
}

func cCreateTemplate(n int) (unsafe.Pointer, error) {
	var t *C.struct_weft_fi_template
	rc := C.weft_fi_template_create(C.uint32_t(n), &t)
	return unsafe.Pointer(t), failedC("calloc", rc)
}

func cFreeTemplate(t unsafe.Pointer) { C.weft_fi_template_free((*C.struct_weft_fi_template)(t)) }

func cAddPrepared(t, ep unsafe.Pointer, k OpKind, op *Op, lkey uint32) (result int) {
	return int(C.weft_fi_template_add((*C.struct_weft_fi_template)(t), (*C.struct_weft_fi_ep)(ep), C.uint32_t(k),
		(*C.struct_weft_fi_op)(unsafe.Pointer(op)), C.uint32_t(lkey)))
}

func cPostTemplate(t unsafe.Pointer, patches []Patch) (accepted, result int) {
	var n C.uint32_t
	rc := C.weft_fi_template_post(number(t),
		(*C.struct_weft_fi_patch)(unsafe.Pointer(unsafe.SliceData(patches))), C.uint32_t(len(patches)), &n)
	return int(n), int(rc)
}

func cTemplateCrossings(t unsafe.Pointer) uint64 {
	return uint64(C.weft_fi_template_crossings((*C.struct_weft_fi_template)(t)))
}
