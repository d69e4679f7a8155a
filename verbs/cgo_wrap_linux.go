//go:build linux && cgo && !noverbs

package verbs

// #include "../csrc/verbs/shim.h"
import "C"

import "unsafe"

func cWrapCQ(ctx, raw unsafe.Pointer, extended bool) (cq unsafe.Pointer, depth int, timestamps CQTimestamps, err error) {
	var c *C.struct_weft_cq
	var d, t C.uint32_t
	fields := C.int(0)
	if extended {
		fields = 1
	}
	rc := C.weft_cq_import((*C.struct_ibv_context)(ctx), (*C.struct_ibv_cq)(raw), fields, &d, &t, &c)
	return unsafe.Pointer(c), int(d), CQTimestamps(t), errno("wrap completion queue", rc)
}

func cReleaseCQ(cq unsafe.Pointer) { C.weft_cq_release((*C.struct_weft_cq)(cq)) }

func cWrapQP(pd, raw, sendCQ, recvCQ unsafe.Pointer, limits *qpLimits) (qp unsafe.Pointer, state QPState, err error) {
	var q *C.struct_weft_qp
	var s C.uint32_t
	rc := C.weft_qp_import((*C.struct_ibv_pd)(pd), (*C.struct_ibv_qp)(raw), (*C.struct_weft_cq)(sendCQ),
		(*C.struct_weft_cq)(recvCQ), (*C.struct_weft_qp_limits)(unsafe.Pointer(limits)), &q, &s)
	return unsafe.Pointer(q), QPState(s), errno("wrap queue pair", rc)
}

func cQueuesOfQP(raw unsafe.Pointer) (send, recv, srq uint64) {
	var s, r, q C.uint64_t
	C.weft_qp_queues((*C.struct_ibv_qp)(raw), &s, &r, &q)
	return uint64(s), uint64(r), uint64(q)
}

func cWrapSRQ(pd, raw unsafe.Pointer) (srq unsafe.Pointer, attr srqAttr, err error) {
	var s *C.struct_weft_srq
	rc := C.weft_srq_import((*C.struct_ibv_pd)(pd), (*C.struct_ibv_srq)(raw),
		(*C.struct_weft_srq_attr)(unsafe.Pointer(&attr)), &s)
	return unsafe.Pointer(s), attr, errno("wrap shared receive queue", rc)
}

func cReleaseSRQ(srq unsafe.Pointer) { C.weft_srq_release((*C.struct_weft_srq)(srq)) }

func cWrapMR(pd, raw unsafe.Pointer) (m cMR, addr, length uint64, err error) {
	var a, n C.uint64_t
	var l, r C.uint32_t
	rc := C.weft_mr_import_raw((*C.struct_ibv_pd)(pd), (*C.struct_ibv_mr)(raw), &a, &n, &l, &r)
	return cMR{raw, uint32(l), uint32(r)}, uint64(a), uint64(n), errno("wrap memory region", rc)
}
