//go:build linux && cgo && !noverbs

package verbs

// #cgo noescape weft_cq_poll
// #cgo nocallback weft_cq_poll
// #cgo noescape weft_cq_poll_while
// #cgo nocallback weft_cq_poll_while
// #cgo noescape weft_cq_poll_times
// #cgo nocallback weft_cq_poll_times
// #cgo noescape weft_qp_post_send
// #cgo nocallback weft_qp_post_send
// #cgo noescape weft_qp_post_inline
// #cgo nocallback weft_qp_post_inline
// #cgo noescape weft_qp_post_recv
// #cgo nocallback weft_qp_post_recv
// #cgo noescape weft_srq_post_recv
// #cgo nocallback weft_srq_post_recv
// #cgo noescape weft_template_post
// #cgo nocallback weft_template_post
// #include "../csrc/verbs/shim.h"
import "C"

import (
	"sync/atomic"
	"unsafe"
)

// As in cgo_linux.go.
const (
	_ = unsafe.Sizeof(SGE{}) - C.sizeof_struct_weft_sge
	_ = C.sizeof_struct_weft_sge - unsafe.Sizeof(SGE{})
	_ = unsafe.Sizeof(SendWR{}) - C.sizeof_struct_weft_send_wr
	_ = C.sizeof_struct_weft_send_wr - unsafe.Sizeof(SendWR{})
	_ = unsafe.Sizeof(RecvWR{}) - C.sizeof_struct_weft_recv_wr
	_ = C.sizeof_struct_weft_recv_wr - unsafe.Sizeof(RecvWR{})
	_ = unsafe.Sizeof(WC{}) - C.sizeof_struct_weft_wc
	_ = C.sizeof_struct_weft_wc - unsafe.Sizeof(WC{})
	_ = unsafe.Sizeof(WCTime{}) - C.sizeof_struct_weft_wc_time
	_ = C.sizeof_struct_weft_wc_time - unsafe.Sizeof(WCTime{})
	_ = unsafe.Sizeof(Patch{}) - C.sizeof_struct_weft_patch
	_ = C.sizeof_struct_weft_patch - unsafe.Sizeof(Patch{})
	_ = unsafe.Sizeof(post{}) - C.sizeof_struct_weft_post
	_ = C.sizeof_struct_weft_post - unsafe.Sizeof(post{})
	_ = unsafe.Sizeof(failure{}) - C.sizeof_struct_weft_failure
	_ = C.sizeof_struct_weft_failure - unsafe.Sizeof(failure{})
	_ = unsafe.Sizeof(qpLimits{}) - C.sizeof_struct_weft_qp_limits
	_ = C.sizeof_struct_weft_qp_limits - unsafe.Sizeof(qpLimits{})
	_ = unsafe.Sizeof(qpAttr{}) - C.sizeof_struct_weft_qp_attr
	_ = C.sizeof_struct_weft_qp_attr - unsafe.Sizeof(qpAttr{})
	_ = unsafe.Sizeof(srqAttr{}) - C.sizeof_struct_weft_srq_attr
	_ = C.sizeof_struct_weft_srq_attr - unsafe.Sizeof(srqAttr{})
	_ = unsafe.Sizeof(mwBind{}) - C.sizeof_struct_weft_mw_bind
	_ = C.sizeof_struct_weft_mw_bind - unsafe.Sizeof(mwBind{})
)

func cCreateChannel(ctx unsafe.Pointer) (channel unsafe.Pointer, fd int, err error) {
	var c *C.struct_weft_channel
	descriptor := C.int(-1)
	rc := C.weft_channel_create((*C.struct_ibv_context)(ctx), &c, &descriptor)
	return unsafe.Pointer(c), int(descriptor), errno("ibv_create_comp_channel", rc)
}

func cDestroyChannel(channel unsafe.Pointer) error {
	return errno("ibv_destroy_comp_channel", C.weft_channel_destroy((*C.struct_weft_channel)(channel)))
}

func cChannelEvents(channel unsafe.Pointer, cqs []uint64) int {
	return int(C.weft_channel_events((*C.struct_weft_channel)(channel),
		(*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(cqs))), C.uint32_t(len(cqs))))
}

func cCreateCQ(ctx, channel unsafe.Pointer, depth, vector int, events bool) (cq unsafe.Pointer, granted, fd int, err error) {
	var c *C.struct_weft_cq
	wanted, withEvents, descriptor := C.uint32_t(depth), C.int(0), C.int(-1)
	if events {
		withEvents = 1
	}
	rc := C.weft_cq_create((*C.struct_ibv_context)(ctx), (*C.struct_weft_channel)(channel), withEvents, C.uint32_t(vector),
		&wanted, &c, &descriptor)
	return unsafe.Pointer(c), int(wanted), int(descriptor), errno("ibv_create_cq", rc)
}

func cCreateCQEx(ctx, channel, domain unsafe.Pointer, cfg *CQConfig) (cq unsafe.Pointer, granted, fd int, err error) {
	var c *C.struct_weft_cq
	wanted, withEvents, descriptor := C.uint32_t(cfg.Depth), C.int(0), C.int(-1)
	if cfg.Events {
		withEvents = 1
	}
	rc := C.weft_cq_create_ex((*C.struct_ibv_context)(ctx), (*C.struct_weft_channel)(channel), withEvents,
		C.uint32_t(cfg.Vector), (*C.struct_ibv_pd)(domain), C.uint32_t(cfg.Timestamps), &wanted, &c, &descriptor)
	return unsafe.Pointer(c), int(wanted), int(descriptor), errno("ibv_create_cq_ex", rc)
}

func cPollCQTimes(cq unsafe.Pointer, wcs []WC, times []WCTime) int {
	var polled C.int32_t
	C.weft_cq_poll_times(handle(cq), (*C.struct_weft_wc)(unsafe.Pointer(unsafe.SliceData(wcs))),
		(*C.struct_weft_wc_time)(unsafe.Pointer(unsafe.SliceData(times))), C.uint32_t(len(wcs)), &polled)
	return int(polled)
}

func cResizeCQ(cq unsafe.Pointer, depth int) (int, error) {
	n := C.uint32_t(depth)
	rc := C.weft_cq_resize((*C.struct_weft_cq)(cq), &n)
	return int(n), errno("ibv_resize_cq", rc)
}

func cModerateCQ(cq unsafe.Pointer, count, period uint16) error {
	return errno("ibv_modify_cq", C.weft_cq_moderate((*C.struct_weft_cq)(cq), C.uint16_t(count), C.uint16_t(period)))
}

func cDestroyCQ(cq unsafe.Pointer) (queue, channel error) {
	var c C.int
	rc := C.weft_cq_destroy((*C.struct_weft_cq)(cq), &c)
	return errno("ibv_destroy_cq", rc), errno("ibv_destroy_comp_channel", c)
}

func cRawCQ(cq unsafe.Pointer) unsafe.Pointer { return C.weft_cq_raw((*C.struct_weft_cq)(cq)) }

func cArmCQ(cq unsafe.Pointer, solicitedOnly bool) error {
	solicited := C.int(0)
	if solicitedOnly {
		solicited = 1
	}
	return errno("ibv_req_notify_cq", C.weft_cq_arm((*C.struct_weft_cq)(cq), solicited))
}

func cCQEvents(cq unsafe.Pointer) int { return int(C.weft_cq_events((*C.struct_weft_cq)(cq))) }

func handle(object unsafe.Pointer) C.weft_handle { return C.weft_handle(uintptr(object)) }

func cPollCQ(cq unsafe.Pointer, wcs []WC, spin uint32) int {
	var polled C.int32_t
	C.weft_cq_poll(handle(cq), (*C.struct_weft_wc)(unsafe.Pointer(unsafe.SliceData(wcs))),
		C.uint32_t(len(wcs)), C.uint32_t(spin), &polled)
	return int(polled)
}

func cPollCQWhile(cq unsafe.Pointer, wcs []WC, spin uint32, word *atomic.Uint64, was uint64) int {
	var polled C.int32_t
	C.weft_cq_poll_while(handle(cq), (*C.struct_weft_wc)(unsafe.Pointer(unsafe.SliceData(wcs))), C.uint32_t(len(wcs)),
		C.uint32_t(spin), (*C.uint64_t)(unsafe.Pointer(word)), C.uint64_t(was), &polled)
	return int(polled)
}

func cCreateQP(pd, sendCQ, recvCQ, srq unsafe.Pointer, limits *qpLimits) (unsafe.Pointer, uint32, error) {
	var qp *C.struct_weft_qp
	var num C.uint32_t
	rc := C.weft_qp_create((*C.struct_ibv_pd)(pd), (*C.struct_weft_cq)(sendCQ), (*C.struct_weft_cq)(recvCQ),
		(*C.struct_ibv_srq)(srq), (*C.struct_weft_qp_limits)(unsafe.Pointer(limits)), &qp, &num)
	return unsafe.Pointer(qp), uint32(num), errno("ibv_create_qp", rc)
}

func cDestroyQP(qp unsafe.Pointer) error {
	return errno("ibv_destroy_qp", C.weft_qp_destroy((*C.struct_weft_qp)(qp)))
}

func cRawQP(qp unsafe.Pointer) unsafe.Pointer { return C.weft_qp_raw((*C.struct_weft_qp)(qp)) }

func cModifyQP(qp unsafe.Pointer, attr *qpAttr) error {
	rc := C.weft_qp_modify((*C.struct_weft_qp)(qp), (*C.struct_weft_qp_attr)(unsafe.Pointer(attr)))
	return errno("ibv_modify_qp", rc)
}

func cReleaseQP(qp unsafe.Pointer) { C.weft_qp_release((*C.struct_weft_qp)(qp)) }

func cFreeQP(qp unsafe.Pointer) { C.weft_qp_free((*C.struct_weft_qp)(qp)) }

func cQPNum(qp unsafe.Pointer) uint32 { return uint32(C.weft_qp_num((*C.struct_weft_qp)(qp))) }

func cQueryQP(qp unsafe.Pointer, mask uint32) (a qpAttr, err error) {
	rc := C.weft_qp_query((*C.struct_weft_qp)(qp), C.uint32_t(mask), (*C.struct_weft_qp_attr)(unsafe.Pointer(&a)))
	return a, errno("ibv_query_qp", rc)
}

func cRateLimit(qp unsafe.Pointer, kbps, burst uint32, packet uint16) error {
	rc := C.weft_qp_rate_limit((*C.struct_weft_qp)(qp), C.uint32_t(kbps), C.uint32_t(burst), C.uint16_t(packet))
	return errno("ibv_modify_qp_rate_limit", rc)
}

func cDataInOrder(qp unsafe.Pointer, opcode Opcode) bool {
	return C.weft_qp_in_order((*C.struct_weft_qp)(qp), C.uint32_t(opcode)) != 0
}

func cMulticast(qp unsafe.Pointer, group *GID, lid uint16, attach bool) error {
	op, join := "ibv_detach_mcast", C.int(0)
	if attach {
		op, join = "ibv_attach_mcast", 1
	}
	rc := C.weft_qp_multicast((*C.struct_weft_qp)(qp), (*C.uint8_t)(&group[0]), C.uint16_t(lid), join)
	return errno(op, rc)
}

func cQPFailure(qp unsafe.Pointer, f *failure) bool {
	return C.weft_qp_failure((*C.struct_weft_qp)(qp), (*C.struct_weft_failure)(unsafe.Pointer(f))) != 0
}

func cFailQP(qp unsafe.Pointer, event EventType) {
	C.weft_qp_fail_event((*C.struct_weft_qp)(qp), C.uint32_t(event))
}

func cQPCrossings(qp unsafe.Pointer) uint64 {
	return uint64(C.weft_qp_crossings((*C.struct_weft_qp)(qp)))
}

func cSetMaxMessage(qp unsafe.Pointer, bytes uint32) {
	C.weft_qp_set_max_message((*C.struct_weft_qp)(qp), C.uint32_t(bytes))
}

func cPostSend(qp unsafe.Pointer, wrs []SendWR, sges []SGE, p *post) {
	C.weft_qp_post_send(handle(qp), (*C.struct_weft_send_wr)(unsafe.Pointer(unsafe.SliceData(wrs))),
		(*C.struct_weft_sge)(unsafe.Pointer(unsafe.SliceData(sges))), (*C.struct_weft_post)(unsafe.Pointer(p)))
}

func cPostInline(qp unsafe.Pointer, wr *SendWR, data []byte, p *post) {
	C.weft_qp_post_inline(handle(qp), (*C.struct_weft_send_wr)(unsafe.Pointer(wr)), unsafe.Pointer(unsafe.SliceData(data)),
		C.uint32_t(len(data)), (*C.struct_weft_post)(unsafe.Pointer(p)))
}

func cPostRecv(qp unsafe.Pointer, wrs []RecvWR, sges []SGE, p *post) {
	C.weft_qp_post_recv(handle(qp), (*C.struct_weft_recv_wr)(unsafe.Pointer(unsafe.SliceData(wrs))),
		(*C.struct_weft_sge)(unsafe.Pointer(unsafe.SliceData(sges))), (*C.struct_weft_post)(unsafe.Pointer(p)))
}

func cPostMark(qp unsafe.Pointer, recv bool, id uint64, ah AHRef) int {
	toRecv := C.int(0)
	if recv {
		toRecv = 1
	}
	return int(C.weft_qp_post_mark((*C.struct_weft_qp)(qp), toRecv, C.uint64_t(id), C.uint64_t(ah)))
}

func cBindMW(qp, mw, mr unsafe.Pointer, bind *mwBind) (rkey uint32, result int) {
	var r C.uint32_t
	rc := C.weft_qp_bind_mw((*C.struct_weft_qp)(qp), (*C.struct_ibv_mw)(mw), (*C.struct_ibv_mr)(mr),
		(*C.struct_weft_mw_bind)(unsafe.Pointer(bind)), &r)
	return uint32(r), int(rc)
}

func cCreateSRQ(pd unsafe.Pointer, attr *srqAttr) (unsafe.Pointer, error) {
	var s *C.struct_weft_srq
	rc := C.weft_srq_create((*C.struct_ibv_pd)(pd), (*C.struct_weft_srq_attr)(unsafe.Pointer(attr)), &s)
	return unsafe.Pointer(s), errno("ibv_create_srq", rc)
}

func cDestroySRQ(srq unsafe.Pointer) error {
	return errno("ibv_destroy_srq", C.weft_srq_destroy((*C.struct_weft_srq)(srq)))
}

func cRawSRQ(srq unsafe.Pointer) unsafe.Pointer { return C.weft_srq_raw((*C.struct_weft_srq)(srq)) }

func cModifySRQ(srq unsafe.Pointer, attr *srqAttr, mask uint32) error {
	rc := C.weft_srq_modify((*C.struct_weft_srq)(srq), (*C.struct_weft_srq_attr)(unsafe.Pointer(attr)), C.uint32_t(mask))
	return errno("ibv_modify_srq", rc)
}

func cQuerySRQ(srq unsafe.Pointer) (a srqAttr, err error) {
	rc := C.weft_srq_query((*C.struct_weft_srq)(srq), (*C.struct_weft_srq_attr)(unsafe.Pointer(&a)))
	return a, errno("ibv_query_srq", rc)
}

func cPostSRQRecv(srq unsafe.Pointer, wrs []RecvWR, sges []SGE, p *post) {
	C.weft_srq_post_recv(handle(srq), (*C.struct_weft_recv_wr)(unsafe.Pointer(unsafe.SliceData(wrs))),
		(*C.struct_weft_sge)(unsafe.Pointer(unsafe.SliceData(sges))), (*C.struct_weft_post)(unsafe.Pointer(p)))
}

func cCreateTemplate(n int) (unsafe.Pointer, error) {
	var t *C.struct_weft_template
	rc := C.weft_template_create(C.uint32_t(n), &t)
	return unsafe.Pointer(t), errno("calloc", rc)
}

func cDestroyTemplate(t unsafe.Pointer) { C.weft_template_destroy((*C.struct_weft_template)(t)) }

func cFreeTemplate(t unsafe.Pointer) { C.weft_template_free((*C.struct_weft_template)(t)) }

func cAddPrepared(t, qp unsafe.Pointer, wr *SendWR, lkey uint32) (result int) {
	return int(C.weft_template_add((*C.struct_weft_template)(t), (*C.struct_weft_qp)(qp),
		(*C.struct_weft_send_wr)(unsafe.Pointer(wr)), C.uint32_t(lkey)))
}

func cPostTemplate(t unsafe.Pointer, patches []Patch, p *post) {
	C.weft_template_post(handle(t), (*C.struct_weft_patch)(unsafe.Pointer(unsafe.SliceData(patches))),
		(*C.struct_weft_post)(unsafe.Pointer(p)))
}

func cTemplateCrossings(t unsafe.Pointer) uint64 {
	return uint64(C.weft_template_crossings((*C.struct_weft_template)(t)))
}
