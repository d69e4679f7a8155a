//go:build linux && cgo && !nofabric

package fabric

// #include "../csrc/fabric/shim.h"
import "C"

import (
	"runtime"
	"unsafe"
)

func cOpenEndpoint(d unsafe.Pointer, info *Info, name string) (unsafe.Pointer, error) {
	defer runtime.KeepAlive(info)
	n, free := cString(name)
	defer free()
	var ep *C.struct_weft_fi_ep
	rc := C.weft_fi_ep_open((*C.struct_weft_fi_domain)(d), (*C.struct_fi_info)(info.ptr), n, 0, &ep)
	return unsafe.Pointer(ep), failedC("fi_endpoint", rc)
}

func cCloseEndpoint(ep unsafe.Pointer) error {
	return failedC("fi_close", C.weft_fi_ep_close((*C.struct_weft_fi_ep)(ep)))
}

func cRawEndpoint(ep unsafe.Pointer) unsafe.Pointer {
	return C.weft_fi_ep_raw((*C.struct_weft_fi_ep)(ep))
}

func cBindAV(ep, av unsafe.Pointer) error {
	return failedC("fi_ep_bind", C.weft_fi_ep_bind_av((*C.struct_weft_fi_ep)(ep), (*C.struct_weft_fi_av)(av)))
}

func cBindEQ(ep, eq unsafe.Pointer) error {
	return failedC("fi_ep_bind", C.weft_fi_ep_bind_eq((*C.struct_weft_fi_ep)(ep), (*C.struct_weft_fi_eq)(eq)))
}

func cBindCQ(ep, cq unsafe.Pointer, flags uint64) error {
	rc := C.weft_fi_ep_bind_cq((*C.struct_weft_fi_ep)(ep), (*C.struct_weft_fi_cq)(cq), C.uint64_t(flags))
	return failedC("fi_ep_bind", rc)
}

func cBindCounter(ep, counter unsafe.Pointer, events uint64) error {
	rc := C.weft_fi_ep_bind_counter((*C.struct_weft_fi_ep)(ep), (*C.struct_fid_cntr)(counter), C.uint64_t(events))
	return failedC("fi_ep_bind", rc)
}

func cEnable(ep unsafe.Pointer) error {
	return failedC("fi_enable", C.weft_fi_ep_enable((*C.struct_weft_fi_ep)(ep)))
}

func cCancel(ep unsafe.Pointer, id uint64) error {
	return failedC("fi_cancel", C.weft_fi_ep_cancel((*C.struct_weft_fi_ep)(ep), C.uint64_t(id)))
}

func cAlias(ep unsafe.Pointer, flags uint64) (unsafe.Pointer, error) {
	var alias *C.struct_weft_fi_ep
	rc := C.weft_fi_ep_alias((*C.struct_weft_fi_ep)(ep), C.uint64_t(flags), &alias)
	return unsafe.Pointer(alias), failedC("fi_ep_alias", rc)
}

func cCrossings(ep unsafe.Pointer) uint64 {
	return uint64(C.weft_fi_ep_crossings((*C.struct_weft_fi_ep)(ep)))
}

func cSetOption(object unsafe.Pointer, name int, value []byte) error {
	rc := C.weft_fi_option_set(object, C.int(name), (*C.uint8_t)(unsafe.SliceData(value)), C.uint64_t(len(value)))
	return failedC("fi_setopt", rc)
}

func cGetOption(object unsafe.Pointer, name, size int) ([]byte, error) {
	b := make([]byte, size)
	length := C.uint64_t(size)
	rc := C.weft_fi_option_get(object, C.int(name), (*C.uint8_t)(&b[0]), &length)
	return b[:min(int(length), size)], failedC("fi_getopt", rc)
}

func cName(object unsafe.Pointer) ([]byte, error) {
	return sized("fi_getname", func(p *C.uint8_t, length *C.uint64_t) C.int {
		return C.weft_fi_name_get(object, p, length)
	})
}

func cSetName(object unsafe.Pointer, address []byte) error {
	rc := C.weft_fi_name_set(object, (*C.uint8_t)(&address[0]), C.uint64_t(len(address)))
	return failedC("fi_setname", rc)
}

func cPeer(ep unsafe.Pointer) ([]byte, error) {
	return sized("fi_getpeer", func(p *C.uint8_t, length *C.uint64_t) C.int {
		return C.weft_fi_peer_get((*C.struct_weft_fi_ep)(ep), p, length)
	})
}

func cConnect(ep unsafe.Pointer, address, param []byte) error {
	rc := C.weft_fi_connect((*C.struct_weft_fi_ep)(ep), (*C.uint8_t)(unsafe.SliceData(address)),
		(*C.uint8_t)(unsafe.SliceData(param)), C.uint64_t(len(param)))
	return failedC("fi_connect", rc)
}

func cAccept(ep unsafe.Pointer, param []byte) error {
	rc := C.weft_fi_accept((*C.struct_weft_fi_ep)(ep), (*C.uint8_t)(unsafe.SliceData(param)), C.uint64_t(len(param)))
	return failedC("fi_accept", rc)
}

func cShutdown(ep unsafe.Pointer) error {
	return failedC("fi_shutdown", C.weft_fi_shutdown((*C.struct_weft_fi_ep)(ep)))
}

func cOpenListener(f unsafe.Pointer, info *Info) (unsafe.Pointer, error) {
	defer runtime.KeepAlive(info)
	var pep *C.struct_fid_pep
	rc := C.weft_fi_pep_open((*C.struct_fid_fabric)(f), (*C.struct_fi_info)(info.ptr), &pep)
	return unsafe.Pointer(pep), failedC("fi_passive_ep", rc)
}

func cCloseListener(l unsafe.Pointer) error {
	return failedC("fi_close", C.weft_fi_pep_close((*C.struct_fid_pep)(l)))
}

func cBindListener(l, eq unsafe.Pointer) error {
	return failedC("fi_pep_bind", C.weft_fi_pep_bind((*C.struct_fid_pep)(l), (*C.struct_weft_fi_eq)(eq)))
}

func cListen(l unsafe.Pointer) error {
	return failedC("fi_listen", C.weft_fi_listen((*C.struct_fid_pep)(l)))
}

func cReject(l unsafe.Pointer, request *Info, param []byte) error {
	defer runtime.KeepAlive(request)
	rc := C.weft_fi_reject((*C.struct_fid_pep)(l), (*C.struct_fi_info)(request.ptr),
		(*C.uint8_t)(unsafe.SliceData(param)), C.uint64_t(len(param)))
	return failedC("fi_reject", rc)
}

func cJoin(ep unsafe.Pointer, address []byte) (unsafe.Pointer, error) {
	var g *C.struct_weft_fi_group
	rc := C.weft_fi_join((*C.struct_weft_fi_ep)(ep), (*C.uint8_t)(&address[0]), 0, &g)
	return unsafe.Pointer(g), failedC("fi_join", rc)
}

func cGroupAddr(g unsafe.Pointer) Addr {
	return Addr(C.weft_fi_group_addr((*C.struct_weft_fi_group)(g)))
}

func cRawGroup(g unsafe.Pointer) unsafe.Pointer {
	return C.weft_fi_group_raw((*C.struct_weft_fi_group)(g))
}

func cLeave(g unsafe.Pointer) error {
	return failedC("fi_close", C.weft_fi_leave((*C.struct_weft_fi_group)(g)))
}

func cOpenScalable(d unsafe.Pointer, info *Info) (unsafe.Pointer, error) {
	defer runtime.KeepAlive(info)
	var ep *C.struct_weft_fi_ep
	rc := C.weft_fi_scalable_open((*C.struct_weft_fi_domain)(d), (*C.struct_fi_info)(info.ptr), &ep)
	return unsafe.Pointer(ep), failedC("fi_scalable_ep", rc)
}

func cBindScalableAV(ep, av unsafe.Pointer) error {
	rc := C.weft_fi_scalable_bind_av((*C.struct_weft_fi_ep)(ep), (*C.struct_weft_fi_av)(av))
	return failedC("fi_scalable_ep_bind", rc)
}

func cOpenContext(scalable unsafe.Pointer, receive bool, index int) (unsafe.Pointer, error) {
	op, direction := "fi_tx_context", C.int(0)
	if receive {
		op, direction = "fi_rx_context", 1
	}
	var ep *C.struct_weft_fi_ep
	rc := C.weft_fi_context_open((*C.struct_weft_fi_ep)(scalable), direction, C.int(index), &ep)
	return unsafe.Pointer(ep), failedC(op, rc)
}

func cOpenSharedTx(d unsafe.Pointer, info *Info) (unsafe.Pointer, error) {
	defer runtime.KeepAlive(info)
	var stx *C.struct_fid_stx
	rc := C.weft_fi_stx_open((*C.struct_weft_fi_domain)(d), (*C.struct_fi_info)(info.ptr), &stx)
	return unsafe.Pointer(stx), failedC("fi_stx_context", rc)
}

func cCloseSharedTx(stx unsafe.Pointer) error {
	return failedC("fi_close", C.weft_fi_stx_close((*C.struct_fid_stx)(stx)))
}

func cOpenSharedRx(d unsafe.Pointer, info *Info) (unsafe.Pointer, error) {
	defer runtime.KeepAlive(info)
	var srx *C.struct_weft_fi_ep
	rc := C.weft_fi_srx_open((*C.struct_weft_fi_domain)(d), (*C.struct_fi_info)(info.ptr), &srx)
	return unsafe.Pointer(srx), failedC("fi_srx_context", rc)
}

func cBindSharedTx(ep, stx unsafe.Pointer) error {
	return failedC("fi_ep_bind", C.weft_fi_ep_bind_stx((*C.struct_weft_fi_ep)(ep), (*C.struct_fid_stx)(stx)))
}

func cBindSharedRx(ep, srx unsafe.Pointer) error {
	return failedC("fi_ep_bind", C.weft_fi_ep_bind_srx((*C.struct_weft_fi_ep)(ep), (*C.struct_weft_fi_ep)(srx)))
}
