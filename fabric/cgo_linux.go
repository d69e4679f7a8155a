//go:build linux && cgo && !nofabric

package fabric

// #cgo CFLAGS: -D_GNU_SOURCE
// #cgo efa CFLAGS: -DWEFT_EFA
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "../csrc/fabric/shim.h"
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	_ "github.com/weftrdma/weft/csrc" // compiled through shim.c
)

// The Go mirrors of csrc/common/fabric.h have its sizes: either difference below is negative otherwise, and does not compile.
const (
	_ = unsafe.Sizeof(rawInfo{}) - C.sizeof_struct_weft_fi_info
	_ = C.sizeof_struct_weft_fi_info - unsafe.Sizeof(rawInfo{})
	_ = unsafe.Sizeof(mrAttr{}) - C.sizeof_struct_weft_fi_mr_attr
	_ = C.sizeof_struct_weft_fi_mr_attr - unsafe.Sizeof(mrAttr{})
	_ = unsafe.Sizeof(rawEvent{}) - C.sizeof_struct_weft_fi_event
	_ = C.sizeof_struct_weft_fi_event - unsafe.Sizeof(rawEvent{})
	_ = unsafe.Sizeof(failure{}) - C.sizeof_struct_weft_fi_failure
	_ = C.sizeof_struct_weft_fi_failure - unsafe.Sizeof(failure{})
)

// load opens the library once; a failure stays, so that every caller learns of it.
var load = sync.OnceValue(func() error {
	var why [256]C.char
	if C.weft_fi_load(&why[0], C.size_t(len(why))) != 0 {
		return fmt.Errorf("%w: %s: install libfabric1 (libfabric)", ErrNoLibrary, C.GoString(&why[0]))
	}
	return nil
})

func failedC(op string, rc C.int) error { return failed(op, int(rc)) }

// cString is a C string that free gives back; NULL for an empty one.
func cString(s string) (p *C.char, free func()) {
	if s == "" {
		return nil, func() {}
	}
	p = C.CString(s)
	return p, func() { C.free(unsafe.Pointer(p)) }
}

// cObject is a pointer that libfabric gave as a number.
func cObject(p uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

func cVersion() (uint32, error) {
	if err := load(); err != nil {
		return 0, err
	}
	return uint32(C.weft_fi_version()), nil
}

func cHeaders() uint32 { return uint32(C.weft_fi_headers()) }

func cErrorText(errno int) string {
	if load() != nil {
		return fmt.Sprintf("libfabric error %d", errno)
	}
	return C.GoString(C.weft_fi_error_text(C.int(errno)))
}

func cGetInfo(node, service string, flags uint64, hints *rawInfo) (infos []unsafe.Pointer, err error) {
	if err := load(); err != nil {
		return nil, err
	}
	n, freeNode := cString(node)
	defer freeNode()
	s, freeService := cString(service)
	defer freeService()
	var list *C.struct_fi_info
	rc := C.weft_fi_getinfo(n, s, C.uint64_t(flags), (*C.struct_weft_fi_info)(unsafe.Pointer(hints)), &list)
	if rc != 0 {
		return nil, failedC("fi_getinfo", rc)
	}
	defer C.weft_fi_info_free(list)
	for i := list; i != nil; i = C.weft_fi_info_next(i) {
		one := C.weft_fi_info_dup(i)
		if one == nil {
			for _, info := range infos {
				cFreeInfo(info)
			}
			return nil, failed("fi_dupinfo", int(unix.ENOMEM))
		}
		infos = append(infos, unsafe.Pointer(one))
	}
	return infos, nil
}

func cFreeInfo(info unsafe.Pointer) { C.weft_fi_info_free((*C.struct_fi_info)(info)) }

func cReadInfo(info unsafe.Pointer) *rawInfo {
	r := new(rawInfo)
	C.weft_fi_info_read((*C.struct_fi_info)(info), (*C.struct_weft_fi_info)(unsafe.Pointer(r)))
	return r
}

func cInfoText(info unsafe.Pointer) string {
	b := make([]byte, 16384)
	C.weft_fi_info_text((*C.struct_fi_info)(info), (*C.char)(unsafe.Pointer(&b[0])), C.size_t(len(b)))
	return text(b)
}

func cText(typ uint32, value uint64) string {
	if load() != nil {
		return fmt.Sprintf("%#x", value)
	}
	b := make([]byte, 2048)
	C.weft_fi_text(C.uint32_t(typ), C.uint64_t(value), (*C.char)(unsafe.Pointer(&b[0])), C.size_t(len(b)))
	return text(b)
}

func cParams() (params []Param, err error) {
	if err := load(); err != nil {
		return nil, err
	}
	var list *C.struct_fi_param
	var n C.int
	if err := failedC("fi_getparams", C.weft_fi_params(&list, &n)); err != nil {
		return nil, err
	}
	defer C.weft_fi_params_free(list)
	for i := range n {
		var name, help, value *C.char
		var typ C.uint32_t
		C.weft_fi_param_at(list, i, &name, &typ, &help, &value)
		params = append(params, Param{C.GoString(name), C.GoString(help), C.GoString(value)})
	}
	return params, nil
}

func cOpenFabric(info *Info) (unsafe.Pointer, error) {
	defer runtime.KeepAlive(info)
	var f *C.struct_fid_fabric
	rc := C.weft_fi_fabric_open((*C.struct_fi_info)(info.ptr), &f)
	return unsafe.Pointer(f), failedC("fi_fabric", rc)
}

func cCloseFabric(f unsafe.Pointer) error {
	return failedC("fi_close", C.weft_fi_fabric_close((*C.struct_fid_fabric)(f)))
}

func cOpenDomain(f unsafe.Pointer, info *Info) (unsafe.Pointer, error) {
	defer runtime.KeepAlive(info)
	var d *C.struct_weft_fi_domain
	rc := C.weft_fi_domain_open((*C.struct_fid_fabric)(f), (*C.struct_fi_info)(info.ptr), 0, &d)
	return unsafe.Pointer(d), failedC("fi_domain", rc)
}

func cCloseDomain(d unsafe.Pointer) error {
	return failedC("fi_close", C.weft_fi_domain_close((*C.struct_weft_fi_domain)(d)))
}

func cRawDomain(d unsafe.Pointer) unsafe.Pointer {
	return C.weft_fi_domain_raw((*C.struct_weft_fi_domain)(d))
}

func cBindDomain(d, eq unsafe.Pointer) error {
	rc := C.weft_fi_domain_bind((*C.struct_weft_fi_domain)(d), (*C.struct_weft_fi_eq)(eq), 0)
	return failedC("fi_domain_bind", rc)
}

func cOpenOps(object unsafe.Pointer, name string) (ops unsafe.Pointer, err error) {
	n, free := cString(name)
	defer free()
	rc := C.weft_fi_open_ops(object, n, 0, &ops)
	return ops, failedC("fi_open_ops", rc)
}

func cSetOps(object unsafe.Pointer, name string, ops unsafe.Pointer) error {
	n, free := cString(name)
	defer free()
	return failedC("fi_set_ops", C.weft_fi_set_ops(object, n, 0, ops))
}

func cControl(object unsafe.Pointer, command int, argument unsafe.Pointer) error {
	return failedC("fi_control", C.weft_fi_control(object, C.int(command), argument))
}

func cGetVal(object unsafe.Pointer, name int, value unsafe.Pointer) error {
	return failedC("fi_get_val", C.weft_fi_get_val(object, C.int(name), value))
}

func cSetVal(object unsafe.Pointer, name int, value unsafe.Pointer) error {
	return failedC("fi_set_val", C.weft_fi_set_val(object, C.int(name), value))
}

func cOpenAV(d unsafe.Pointer, count, bits int, eq unsafe.Pointer) (unsafe.Pointer, error) {
	var av *C.struct_weft_fi_av
	rc := C.weft_fi_av_open((*C.struct_weft_fi_domain)(d), C.uint64_t(count), C.uint32_t(bits), (*C.struct_weft_fi_eq)(eq), &av)
	return unsafe.Pointer(av), failedC("fi_av_open", rc)
}

func cCloseAV(av unsafe.Pointer) error {
	return failedC("fi_close", C.weft_fi_av_close((*C.struct_weft_fi_av)(av)))
}

func cRawAV(av unsafe.Pointer) unsafe.Pointer { return C.weft_fi_av_raw((*C.struct_weft_fi_av)(av)) }

func cInsertAV(av unsafe.Pointer, packed []byte, ends []uint32, peers []Addr, errnos []uint32) {
	C.weft_fi_av_insert((*C.struct_weft_fi_av)(av), (*C.uint8_t)(unsafe.SliceData(packed)),
		(*C.uint32_t)(unsafe.SliceData(ends)), C.uint32_t(len(ends)), 0, (*C.uint64_t)(unsafe.SliceData(peers)),
		(*C.uint32_t)(unsafe.SliceData(errnos)))
}

func cInsertLater(av unsafe.Pointer, address []byte, id uint64) error {
	rc := C.weft_fi_av_insert_later((*C.struct_weft_fi_av)(av), (*C.uint8_t)(unsafe.SliceData(address)), C.uint64_t(id))
	return failedC("fi_av_insert", rc)
}

func cInserted(av unsafe.Pointer, record uint64, ended bool) (id uint64, peer Addr, err error) {
	end := C.int(0)
	if ended {
		end = 1
	}
	var i, p C.uint64_t
	rc := C.weft_fi_av_inserted((*C.struct_weft_fi_av)(av), C.uint64_t(record), end, &i, &p)
	return uint64(i), Addr(p), failedC("fi_av_insert", rc)
}

func cInsertService(av unsafe.Pointer, node, service string) (Addr, error) {
	n, freeNode := cString(node)
	defer freeNode()
	s, freeService := cString(service)
	defer freeService()
	var peer C.uint64_t
	rc := C.weft_fi_av_insert_service((*C.struct_weft_fi_av)(av), n, s, 0, &peer)
	return Addr(peer), failedC("fi_av_insertsvc", rc)
}

func cInsertSymmetric(av unsafe.Pointer, node string, nodes int, service string, services int, peers []Addr) error {
	n, freeNode := cString(node)
	defer freeNode()
	s, freeService := cString(service)
	defer freeService()
	rc := C.weft_fi_av_insert_symmetric((*C.struct_weft_fi_av)(av), n, C.uint64_t(nodes), s, C.uint64_t(services), 0,
		(*C.uint64_t)(unsafe.SliceData(peers)))
	return failedC("fi_av_insertsym", rc)
}

func cRemoveAV(av unsafe.Pointer, peers []Addr) error {
	rc := C.weft_fi_av_remove((*C.struct_weft_fi_av)(av), (*C.uint64_t)(unsafe.SliceData(peers)), C.uint32_t(len(peers)))
	return failedC("fi_av_remove", rc)
}

// sized reads something of up to addrSize bytes whose length the call tells.
func sized(op string, call func(p *C.uint8_t, length *C.uint64_t) C.int) ([]byte, error) {
	b := make([]byte, addrSize)
	length := C.uint64_t(len(b))
	if err := failedC(op, call((*C.uint8_t)(&b[0]), &length)); err != nil {
		return nil, err
	}
	return b[:min(length, addrSize)], nil
}

func cLookupAV(av unsafe.Pointer, peer Addr) ([]byte, error) {
	return sized("fi_av_lookup", func(p *C.uint8_t, length *C.uint64_t) C.int {
		return C.weft_fi_av_lookup((*C.struct_weft_fi_av)(av), C.uint64_t(peer), p, length)
	})
}

func cAddressText(av unsafe.Pointer, address []byte) string {
	b := make([]byte, addrSize)
	C.weft_fi_av_text((*C.struct_weft_fi_av)(av), (*C.uint8_t)(&address[0]), (*C.char)(unsafe.Pointer(&b[0])), C.size_t(len(b)))
	return text(b)
}

func cRegMR(d unsafe.Pointer, attr *mrAttr, mr *MR) error {
	var p *C.struct_weft_fi_mr
	rc := C.weft_fi_mr_reg((*C.struct_weft_fi_domain)(d), (*C.struct_weft_fi_mr_attr)(unsafe.Pointer(attr)), &p)
	mr.ptr = unsafe.Pointer(p)
	return failedC("fi_mr_reg", rc)
}

func cRegMRV(d unsafe.Pointer, segs []Seg, attr *mrAttr, mr *MR) error {
	var p *C.struct_weft_fi_mr
	rc := C.weft_fi_mr_regv((*C.struct_weft_fi_domain)(d), (*C.struct_weft_fi_seg)(unsafe.Pointer(unsafe.SliceData(segs))),
		C.uint32_t(len(segs)), (*C.struct_weft_fi_mr_attr)(unsafe.Pointer(attr)), &p)
	mr.ptr = unsafe.Pointer(p)
	return failedC("fi_mr_regv", rc)
}

func cCloseMR(mr unsafe.Pointer) error {
	return failedC("fi_close", C.weft_fi_mr_close((*C.struct_weft_fi_mr)(mr)))
}

func cRawMR(mr unsafe.Pointer) unsafe.Pointer { return C.weft_fi_mr_raw((*C.struct_weft_fi_mr)(mr)) }

func cMRKey(mr unsafe.Pointer) uint64 { return uint64(C.weft_fi_mr_key((*C.struct_weft_fi_mr)(mr))) }

func cRawKey(mr unsafe.Pointer) (base uint64, key []byte, err error) {
	key, err = sized("fi_mr_raw_attr", func(p *C.uint8_t, length *C.uint64_t) C.int {
		return C.weft_fi_mr_raw_key((*C.struct_weft_fi_mr)(mr), (*C.uint64_t)(&base), p, length)
	})
	return base, key, err
}

func cMapKey(d unsafe.Pointer, base uint64, raw []byte) (uint64, error) {
	var key C.uint64_t
	rc := C.weft_fi_mr_map_key((*C.struct_weft_fi_domain)(d), C.uint64_t(base), (*C.uint8_t)(&raw[0]), C.uint64_t(len(raw)), &key)
	return uint64(key), failedC("fi_mr_map_raw", rc)
}

func cUnmapKey(d unsafe.Pointer, key uint64) error {
	return failedC("fi_mr_unmap_key", C.weft_fi_mr_unmap_key((*C.struct_weft_fi_domain)(d), C.uint64_t(key)))
}

func cBindMREndpoint(mr, ep unsafe.Pointer) error {
	return failedC("fi_mr_bind", C.weft_fi_mr_bind_ep((*C.struct_weft_fi_mr)(mr), (*C.struct_weft_fi_ep)(ep), 0))
}

func cBindMRCounter(mr, counter unsafe.Pointer, events uint64) error {
	rc := C.weft_fi_mr_bind_counter((*C.struct_weft_fi_mr)(mr), (*C.struct_fid_cntr)(counter), C.uint64_t(events))
	return failedC("fi_mr_bind", rc)
}

func cEnableMR(mr unsafe.Pointer) error {
	return failedC("fi_mr_enable", C.weft_fi_mr_enable((*C.struct_weft_fi_mr)(mr)))
}

func cRefreshMR(mr unsafe.Pointer, addr, length uint64) error {
	rc := C.weft_fi_mr_refresh((*C.struct_weft_fi_mr)(mr), C.uint64_t(addr), C.uint64_t(length))
	return failedC("fi_mr_refresh", rc)
}

func cOpenCounter(d unsafe.Pointer, wait WaitObject) (unsafe.Pointer, error) {
	var c *C.struct_fid_cntr
	rc := C.weft_fi_counter_open((*C.struct_weft_fi_domain)(d), C.uint32_t(wait), 0, &c)
	return unsafe.Pointer(c), failedC("fi_cntr_open", rc)
}

func cCloseCounter(c unsafe.Pointer) error {
	return failedC("fi_close", C.weft_fi_counter_close((*C.struct_fid_cntr)(c)))
}

func cReadCounter(c unsafe.Pointer) uint64 {
	return uint64(C.weft_fi_counter_read((*C.struct_fid_cntr)(c)))
}

func cReadCounterErrors(c unsafe.Pointer) uint64 {
	return uint64(C.weft_fi_counter_read_errors((*C.struct_fid_cntr)(c)))
}

func cAddCounter(c unsafe.Pointer, value uint64) error {
	return failedC("fi_cntr_add", C.weft_fi_counter_add((*C.struct_fid_cntr)(c), C.uint64_t(value)))
}

func cAddCounterErrors(c unsafe.Pointer, value uint64) error {
	return failedC("fi_cntr_adderr", C.weft_fi_counter_add_errors((*C.struct_fid_cntr)(c), C.uint64_t(value)))
}

func cSetCounter(c unsafe.Pointer, value uint64) error {
	return failedC("fi_cntr_set", C.weft_fi_counter_set((*C.struct_fid_cntr)(c), C.uint64_t(value)))
}

func cSetCounterErrors(c unsafe.Pointer, value uint64) error {
	return failedC("fi_cntr_seterr", C.weft_fi_counter_set_errors((*C.struct_fid_cntr)(c), C.uint64_t(value)))
}

func cWaitCounter(c unsafe.Pointer, threshold uint64, timeout time.Duration) error {
	rc := C.weft_fi_counter_wait((*C.struct_fid_cntr)(c), C.uint64_t(threshold), C.int(timeout.Milliseconds()))
	return failedC("fi_cntr_wait", rc)
}

func cOpenEQ(f unsafe.Pointer, cfg EQConfig) (eq unsafe.Pointer, fd int, err error) {
	var p *C.struct_weft_fi_eq
	descriptor := C.int(-1)
	rc := C.weft_fi_eq_open((*C.struct_fid_fabric)(f), C.uint64_t(cfg.Depth), C.uint32_t(cfg.Wait), &p, &descriptor)
	return unsafe.Pointer(p), int(descriptor), failedC("fi_eq_open", rc)
}

func cCloseEQ(eq unsafe.Pointer) error {
	return failedC("fi_close", C.weft_fi_eq_close((*C.struct_weft_fi_eq)(eq)))
}

func cRawEQ(eq unsafe.Pointer) unsafe.Pointer { return C.weft_fi_eq_raw((*C.struct_weft_fi_eq)(eq)) }

func cTryWaitEQ(eq unsafe.Pointer) bool {
	return C.weft_fi_eq_trywait((*C.struct_weft_fi_eq)(eq)) == 0
}

func cReadEQ(eq unsafe.Pointer, e *rawEvent) error {
	rc := C.weft_fi_eq_read((*C.struct_weft_fi_eq)(eq), (*C.struct_weft_fi_event)(unsafe.Pointer(e)))
	return failedC("fi_eq_read", rc)
}

func cWaitEQ(eq unsafe.Pointer, e *rawEvent, timeout time.Duration) error {
	rc := C.weft_fi_eq_wait((*C.struct_weft_fi_eq)(eq), (*C.struct_weft_fi_event)(unsafe.Pointer(e)),
		C.int(timeout.Milliseconds()))
	return failedC("fi_eq_sread", rc)
}

func cWriteEQ(eq unsafe.Pointer, typ uint32, context, data uint64) error {
	rc := C.weft_fi_eq_write((*C.struct_weft_fi_eq)(eq), C.uint32_t(typ), C.uint64_t(context), C.uint64_t(data))
	return failedC("fi_eq_write", rc)
}
