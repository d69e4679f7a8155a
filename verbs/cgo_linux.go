//go:build linux && cgo && !noverbs

package verbs

// #cgo CFLAGS: -D_GNU_SOURCE
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "../csrc/verbs/shim.h"
import "C"

import (
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftrdma/weft/internal/cerr"

	_ "github.com/weftrdma/weft/csrc" // compiled through shim.c
)

// The Go mirrors of csrc/common/abi.h have its sizes: either difference below is negative otherwise, and does not compile.
const (
	_ = unsafe.Sizeof(deviceAttr{}) - C.sizeof_struct_weft_device_attr
	_ = C.sizeof_struct_weft_device_attr - unsafe.Sizeof(deviceAttr{})
	_ = unsafe.Sizeof(extendedAttr{}) - C.sizeof_struct_weft_extended_attr
	_ = C.sizeof_struct_weft_extended_attr - unsafe.Sizeof(extendedAttr{})
	_ = unsafe.Sizeof(portAttr{}) - C.sizeof_struct_weft_port_attr
	_ = C.sizeof_struct_weft_port_attr - unsafe.Sizeof(portAttr{})
	_ = unsafe.Sizeof(gidEntry{}) - C.sizeof_struct_weft_gid_entry
	_ = C.sizeof_struct_weft_gid_entry - unsafe.Sizeof(gidEntry{})
	_ = unsafe.Sizeof(ahAttr{}) - C.sizeof_struct_weft_ah_attr
	_ = C.sizeof_struct_weft_ah_attr - unsafe.Sizeof(ahAttr{})
	_ = unsafe.Sizeof(asyncEvent{}) - C.sizeof_struct_weft_async_event
	_ = C.sizeof_struct_weft_async_event - unsafe.Sizeof(asyncEvent{})
)

// load opens the library once; a failure stays, so that every caller learns of it.
var load = sync.OnceValue(func() error {
	var reason [256]C.char
	if C.weft_verbs_load(&reason[0], C.size_t(len(reason))) != 0 {
		return fmt.Errorf("%w: %s: install libibverbs1 and ibverbs-providers (rdma-core)", ErrNoLibrary, C.GoString(&reason[0]))
	}
	return nil
})

func cLibraryPath() string { return C.GoString(C.weft_verbs_path()) }

func errno(op string, rc C.int) error { return cerr.New(op, syscall.Errno(rc)) }

// withDevices calls f with the device list while it is valid.
func withDevices(f func(list **C.struct_ibv_device, n int) error) error {
	if err := load(); err != nil {
		return err
	}
	var list **C.struct_ibv_device
	var n C.int
	if err := errno("ibv_get_device_list", C.weft_device_list(&list, &n)); err != nil {
		return err
	}
	defer C.weft_device_list_free(list)
	return f(list, int(n))
}

func cDevices() (devices []DeviceInfo, err error) {
	err = withDevices(func(list **C.struct_ibv_device, n int) error {
		for i := range n {
			d := C.weft_device_at(list, C.int(i))
			devices = append(devices, DeviceInfo{
				Name: C.GoString(C.weft_device_name(d)), GUID: guid(uint64(C.weft_device_guid(d))),
				Index: int(C.weft_device_index(d)), NodeType: NodeType(C.weft_device_node_type(d)),
			})
		}
		return nil
	})
	return devices, err
}

func cOpenDevice(name string) (ctx unsafe.Pointer, err error) {
	err = withDevices(func(list **C.struct_ibv_device, n int) error {
		for i := range n {
			if d := C.weft_device_at(list, C.int(i)); C.GoString(C.weft_device_name(d)) == name {
				var c *C.struct_ibv_context
				rc := C.weft_device_open(d, &c)
				ctx = unsafe.Pointer(c)
				return errno("ibv_open_device", rc)
			}
		}
		return ErrNoDevice
	})
	return ctx, err
}

func cImportDevice(fd int) (unsafe.Pointer, error) {
	if err := load(); err != nil {
		return nil, err
	}
	var c *C.struct_ibv_context
	rc := C.weft_device_import(C.int(fd), &c)
	return unsafe.Pointer(c), errno("ibv_import_device", rc)
}

func cCloseDevice(ctx unsafe.Pointer) error {
	return errno("ibv_close_device", C.weft_device_close((*C.struct_ibv_context)(ctx)))
}

func cQueryDevice(ctx unsafe.Pointer) (a deviceAttr, err error) {
	rc := C.weft_device_query((*C.struct_ibv_context)(ctx), (*C.struct_weft_device_attr)(unsafe.Pointer(&a)))
	return a, errno("ibv_query_device", rc)
}

func cContextName(ctx unsafe.Pointer) string {
	return C.GoString(C.weft_context_name((*C.struct_ibv_context)(ctx)))
}

func cContextFD(ctx unsafe.Pointer) int { return int(C.weft_context_fd((*C.struct_ibv_context)(ctx))) }

func cContextVectors(ctx unsafe.Pointer) int {
	return int(C.weft_context_vectors((*C.struct_ibv_context)(ctx)))
}

func cQueryExtended(ctx unsafe.Pointer) (a extendedAttr, err error) {
	rc := C.weft_device_extended((*C.struct_ibv_context)(ctx), (*C.struct_weft_extended_attr)(unsafe.Pointer(&a)))
	return a, errno("ibv_query_device_ex", rc)
}

func cDeviceClock(ctx unsafe.Pointer) (ticks uint64, err error) {
	var n C.uint64_t
	rc := C.weft_device_clock((*C.struct_ibv_context)(ctx), &n)
	return uint64(n), errno("ibv_query_rt_values_ex", rc)
}

func cAsyncFD(ctx unsafe.Pointer) (int, error) {
	var fd C.int
	rc := C.weft_context_nonblocking((*C.struct_ibv_context)(ctx), &fd)
	return int(fd), errno("fcntl", rc)
}

func cAsyncEvent(ctx unsafe.Pointer, e *asyncEvent) error {
	rc := C.weft_context_event((*C.struct_ibv_context)(ctx), (*C.struct_weft_async_event)(unsafe.Pointer(e)))
	return errno("ibv_get_async_event", rc)
}

func cAckAsyncEvent(ctx unsafe.Pointer, e *asyncEvent) {
	C.weft_context_ack_event((*C.struct_ibv_context)(ctx), (*C.struct_weft_async_event)(unsafe.Pointer(e)))
}

func cQueryGID(ctx unsafe.Pointer, port, index uint32) (e gidEntry, err error) {
	rc := C.weft_gid_query((*C.struct_ibv_context)(ctx), C.uint32_t(port), C.uint32_t(index),
		(*C.struct_weft_gid_entry)(unsafe.Pointer(&e)))
	return e, errno("ibv_query_gid_ex", rc)
}

func cResolve(ctx unsafe.Pointer, attr *ahAttr, mac *[6]byte) (vlan uint16, err error) {
	var v C.uint16_t
	rc := C.weft_ah_resolve((*C.struct_ibv_context)(ctx), (*C.struct_weft_ah_attr)(unsafe.Pointer(attr)),
		(*C.uint8_t)(&mac[0]), &v)
	return uint16(v), errno("ibv_resolve_eth_l2_from_gid", rc)
}

func cForkInit() error {
	if err := load(); err != nil {
		return err
	}
	return errno("ibv_fork_init", C.weft_fork_init())
}

func cForkStatus() (int, error) {
	if err := load(); err != nil {
		return 0, err
	}
	return int(C.weft_fork_status()), nil
}

func cQueryPKey(ctx unsafe.Pointer, port uint8, index int) (uint16, error) {
	var key C.uint16_t
	rc := C.weft_pkey_query((*C.struct_ibv_context)(ctx), C.uint8_t(port), C.int(index), &key)
	return uint16(key), errno("ibv_query_pkey", rc)
}

func cPKeyIndex(ctx unsafe.Pointer, port uint8, key uint16) (int, error) {
	var index C.int
	rc := C.weft_pkey_index((*C.struct_ibv_context)(ctx), C.uint8_t(port), C.uint16_t(key), &index)
	return int(index), errno("ibv_get_pkey_index", rc)
}

func cQueryPort(ctx unsafe.Pointer, port uint8) (a portAttr, err error) {
	rc := C.weft_port_query((*C.struct_ibv_context)(ctx), C.uint8_t(port), (*C.struct_weft_port_attr)(unsafe.Pointer(&a)))
	return a, errno("ibv_query_port", rc)
}

func cGIDTable(ctx unsafe.Pointer, table []gidEntry) (int, error) {
	var n C.size_t
	rc := C.weft_gid_table((*C.struct_ibv_context)(ctx), (*C.struct_weft_gid_entry)(unsafe.Pointer(unsafe.SliceData(table))),
		C.size_t(len(table)), &n)
	return int(n), errno("ibv_query_gid_table", rc)
}

func cAllocPD(ctx unsafe.Pointer) (unsafe.Pointer, error) {
	var pd *C.struct_ibv_pd
	rc := C.weft_pd_alloc((*C.struct_ibv_context)(ctx), &pd)
	return unsafe.Pointer(pd), errno("ibv_alloc_pd", rc)
}

func cAllocTD(ctx unsafe.Pointer) (unsafe.Pointer, error) {
	var td *C.struct_ibv_td
	rc := C.weft_td_alloc((*C.struct_ibv_context)(ctx), &td)
	return unsafe.Pointer(td), errno("ibv_alloc_td", rc)
}

func cDeallocTD(td unsafe.Pointer) error {
	return errno("ibv_dealloc_td", C.weft_td_dealloc((*C.struct_ibv_td)(td)))
}

func cAllocParent(pd, td unsafe.Pointer) (unsafe.Pointer, error) {
	var parent *C.struct_ibv_pd
	rc := C.weft_pd_alloc_parent((*C.struct_ibv_pd)(pd), (*C.struct_ibv_td)(td), &parent)
	return unsafe.Pointer(parent), errno("ibv_alloc_parent_domain", rc)
}

func cImportPD(ctx unsafe.Pointer, handle uint32) (unsafe.Pointer, error) {
	var pd *C.struct_ibv_pd
	rc := C.weft_pd_import((*C.struct_ibv_context)(ctx), C.uint32_t(handle), &pd)
	return unsafe.Pointer(pd), errno("ibv_import_pd", rc)
}

func cUnimportPD(pd unsafe.Pointer) { C.weft_pd_unimport((*C.struct_ibv_pd)(pd)) }

func cPDHandle(pd unsafe.Pointer) uint32 { return uint32(C.weft_pd_handle((*C.struct_ibv_pd)(pd))) }

func cPDContext(pd unsafe.Pointer) unsafe.Pointer { return C.weft_pd_context((*C.struct_ibv_pd)(pd)) }

func cDeallocPD(pd unsafe.Pointer) error {
	return errno("ibv_dealloc_pd", C.weft_pd_dealloc((*C.struct_ibv_pd)(pd)))
}

// cMR is a new memory region.
type cMR struct {
	ptr        unsafe.Pointer
	lkey, rkey uint32
}

func madeMR(op string, rc C.int, m *C.struct_ibv_mr, lkey, rkey C.uint32_t) (cMR, error) {
	return cMR{unsafe.Pointer(m), uint32(lkey), uint32(rkey)}, errno(op, rc)
}

func cRegMR(pd unsafe.Pointer, addr, length uint64, access uint32) (cMR, error) {
	var m *C.struct_ibv_mr
	var l, r C.uint32_t
	rc := C.weft_mr_reg((*C.struct_ibv_pd)(pd), C.uint64_t(addr), C.uint64_t(length), C.uint32_t(access), &m, &l, &r)
	return madeMR("ibv_reg_mr", rc, m, l, r)
}

func cRegMRIOVA(pd unsafe.Pointer, addr, length, iova uint64, access uint32) (cMR, error) {
	var m *C.struct_ibv_mr
	var l, r C.uint32_t
	rc := C.weft_mr_reg_iova((*C.struct_ibv_pd)(pd), C.uint64_t(addr), C.uint64_t(length), C.uint64_t(iova),
		C.uint32_t(access), &m, &l, &r)
	return madeMR("ibv_reg_mr_iova", rc, m, l, r)
}

func cRegDMABuf(pd unsafe.Pointer, fd int, offset, length, iova uint64, access uint32) (cMR, error) {
	var m *C.struct_ibv_mr
	var l, r C.uint32_t
	rc := C.weft_mr_reg_dmabuf((*C.struct_ibv_pd)(pd), C.uint64_t(offset), C.uint64_t(length), C.uint64_t(iova), C.int(fd),
		C.uint32_t(access), &m, &l, &r)
	return madeMR("ibv_reg_dmabuf_mr", rc, m, l, r)
}

func cAllocNullMR(pd unsafe.Pointer) (cMR, error) {
	var m *C.struct_ibv_mr
	var l, r C.uint32_t
	rc := C.weft_mr_alloc_null((*C.struct_ibv_pd)(pd), &m, &l, &r)
	return madeMR("ibv_alloc_null_mr", rc, m, l, r)
}

func cImportMR(pd unsafe.Pointer, handle uint32) (cMR, error) {
	var m *C.struct_ibv_mr
	var l, r C.uint32_t
	rc := C.weft_mr_import((*C.struct_ibv_pd)(pd), C.uint32_t(handle), &m, &l, &r)
	return madeMR("ibv_import_mr", rc, m, l, r)
}

func cUnimportMR(mr unsafe.Pointer) { C.weft_mr_unimport((*C.struct_ibv_mr)(mr)) }

func cMRHandle(mr unsafe.Pointer) uint32 { return uint32(C.weft_mr_handle((*C.struct_ibv_mr)(mr))) }

func cReregMR(mr unsafe.Pointer, what uint32, pd unsafe.Pointer, addr, length uint64, access uint32) (m cMR, code int, err error) {
	var l, r C.uint32_t
	rc, err := C.weft_mr_rereg((*C.struct_ibv_mr)(mr), C.uint32_t(what), (*C.struct_ibv_pd)(pd), C.uint64_t(addr),
		C.uint64_t(length), C.uint32_t(access), &l, &r)
	if rc == 0 {
		err = nil
	}
	return cMR{mr, uint32(l), uint32(r)}, int(rc), err
}

func cAdviseMR(pd unsafe.Pointer, advice, flags uint32, sges []SGE) error {
	rc := C.weft_mr_advise((*C.struct_ibv_pd)(pd), C.uint32_t(advice), C.uint32_t(flags),
		(*C.struct_weft_sge)(unsafe.Pointer(unsafe.SliceData(sges))), C.uint32_t(len(sges)))
	return errno("ibv_advise_mr", rc)
}

func cAllocMW(pd unsafe.Pointer, typ uint32) (mw unsafe.Pointer, rkey uint32, err error) {
	var m *C.struct_ibv_mw
	var r C.uint32_t
	rc := C.weft_mw_alloc((*C.struct_ibv_pd)(pd), C.uint32_t(typ), &m, &r)
	return unsafe.Pointer(m), uint32(r), errno("ibv_alloc_mw", rc)
}

func cDeallocMW(mw unsafe.Pointer) error {
	return errno("ibv_dealloc_mw", C.weft_mw_dealloc((*C.struct_ibv_mw)(mw)))
}

func cDeregMR(mr unsafe.Pointer) error {
	return errno("ibv_dereg_mr", C.weft_mr_dereg((*C.struct_ibv_mr)(mr)))
}

func cCreateAH(pd unsafe.Pointer, attr *ahAttr) (unsafe.Pointer, AHRef, error) {
	var ah *C.struct_ibv_ah
	var ref C.uint64_t
	rc := C.weft_ah_create((*C.struct_ibv_pd)(pd), (*C.struct_weft_ah_attr)(unsafe.Pointer(attr)), &ah, &ref)
	return unsafe.Pointer(ah), AHRef(ref), errno("ibv_create_ah", rc)
}

func cDestroyAH(ah unsafe.Pointer, ref AHRef) error {
	return errno("ibv_destroy_ah", C.weft_ah_destroy((*C.struct_ibv_ah)(ah), C.uint64_t(ref)))
}

func cAHFromWC(ctx unsafe.Pointer, port uint8, wc *WC, grh []byte) (a ahAttr, err error) {
	rc := C.weft_ah_from_wc((*C.struct_ibv_context)(ctx), C.uint8_t(port), (*C.struct_weft_wc)(unsafe.Pointer(wc)),
		(*C.uint8_t)(unsafe.SliceData(grh)), (*C.struct_weft_ah_attr)(unsafe.Pointer(&a)))
	return a, errno("ibv_init_ah_from_wc", rc)
}

func dupCloseOnExec(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }
