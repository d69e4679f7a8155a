//go:build linux && cgo && !noverbs

package verbs

// #cgo CFLAGS: -D_GNU_SOURCE
// #cgo LDFLAGS: -ldl
// #cgo noescape weft_cq_poll
// #cgo nocallback weft_cq_poll
// #cgo noescape weft_qp_post_send
// #cgo nocallback weft_qp_post_send
// #cgo noescape weft_qp_post_recv
// #cgo nocallback weft_qp_post_recv
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
	_ = unsafe.Sizeof(SGE{}) - C.sizeof_struct_weft_sge
	_ = C.sizeof_struct_weft_sge - unsafe.Sizeof(SGE{})
	_ = unsafe.Sizeof(SendWR{}) - C.sizeof_struct_weft_send_wr
	_ = C.sizeof_struct_weft_send_wr - unsafe.Sizeof(SendWR{})
	_ = unsafe.Sizeof(RecvWR{}) - C.sizeof_struct_weft_recv_wr
	_ = C.sizeof_struct_weft_recv_wr - unsafe.Sizeof(RecvWR{})
	_ = unsafe.Sizeof(WC{}) - C.sizeof_struct_weft_wc
	_ = C.sizeof_struct_weft_wc - unsafe.Sizeof(WC{})
	_ = unsafe.Sizeof(qpLimits{}) - C.sizeof_struct_weft_qp_limits
	_ = C.sizeof_struct_weft_qp_limits - unsafe.Sizeof(qpLimits{})
	_ = unsafe.Sizeof(deviceAttr{}) - C.sizeof_struct_weft_device_attr
	_ = C.sizeof_struct_weft_device_attr - unsafe.Sizeof(deviceAttr{})
	_ = unsafe.Sizeof(portAttr{}) - C.sizeof_struct_weft_port_attr
	_ = C.sizeof_struct_weft_port_attr - unsafe.Sizeof(portAttr{})
	_ = unsafe.Sizeof(gidEntry{}) - C.sizeof_struct_weft_gid_entry
	_ = C.sizeof_struct_weft_gid_entry - unsafe.Sizeof(gidEntry{})
	_ = unsafe.Sizeof(ahAttr{}) - C.sizeof_struct_weft_ah_attr
	_ = C.sizeof_struct_weft_ah_attr - unsafe.Sizeof(ahAttr{})
	_ = unsafe.Sizeof(qpAttr{}) - C.sizeof_struct_weft_qp_attr
	_ = C.sizeof_struct_weft_qp_attr - unsafe.Sizeof(qpAttr{})
)

// load opens the library once; a failure stays, so that every caller learns of it.
var load = sync.OnceValue(func() error {
	var reason [256]C.char
	if C.weft_verbs_load(&reason[0], C.size_t(len(reason))) != 0 {
		return fmt.Errorf("%w: %s: install libibverbs1 and ibverbs-providers (rdma-core)", ErrNoLibrary, C.GoString(&reason[0]))
	}
	return nil
})

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
			devices = append(devices, DeviceInfo{C.GoString(C.weft_device_name(d)), guid(uint64(C.weft_device_guid(d)))})
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

func cCloseDevice(ctx unsafe.Pointer) error {
	return errno("ibv_close_device", C.weft_device_close((*C.struct_ibv_context)(ctx)))
}

func cQueryDevice(ctx unsafe.Pointer) (a deviceAttr, err error) {
	rc := C.weft_device_query((*C.struct_ibv_context)(ctx), (*C.struct_weft_device_attr)(unsafe.Pointer(&a)))
	return a, errno("ibv_query_device", rc)
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

func cDeallocPD(pd unsafe.Pointer) error {
	return errno("ibv_dealloc_pd", C.weft_pd_dealloc((*C.struct_ibv_pd)(pd)))
}

func cRegMR(pd unsafe.Pointer, addr, length uint64, access uint32) (mr unsafe.Pointer, lkey, rkey uint32, err error) {
	var m *C.struct_ibv_mr
	var l, r C.uint32_t
	rc := C.weft_mr_reg((*C.struct_ibv_pd)(pd), C.uint64_t(addr), C.uint64_t(length), C.uint32_t(access), &m, &l, &r)
	return unsafe.Pointer(m), uint32(l), uint32(r), errno("ibv_reg_mr", rc)
}

func cDeregMR(mr unsafe.Pointer) error {
	return errno("ibv_dereg_mr", C.weft_mr_dereg((*C.struct_ibv_mr)(mr)))
}

func cCreateAH(pd unsafe.Pointer, attr *ahAttr) (unsafe.Pointer, error) {
	var ah *C.struct_ibv_ah
	rc := C.weft_ah_create((*C.struct_ibv_pd)(pd), (*C.struct_weft_ah_attr)(unsafe.Pointer(attr)), &ah)
	return unsafe.Pointer(ah), errno("ibv_create_ah", rc)
}

func cDestroyAH(ah unsafe.Pointer) error {
	return errno("ibv_destroy_ah", C.weft_ah_destroy((*C.struct_ibv_ah)(ah)))
}

func cCreateCQ(ctx unsafe.Pointer, depth int, events bool) (cq unsafe.Pointer, granted, fd int, err error) {
	var c *C.struct_weft_cq
	wanted, withEvents, descriptor := C.uint32_t(depth), C.int(0), C.int(-1)
	if events {
		withEvents = 1
	}
	rc := C.weft_cq_create((*C.struct_ibv_context)(ctx), withEvents, &wanted, &c, &descriptor)
	return unsafe.Pointer(c), int(wanted), int(descriptor), errno("ibv_create_cq", rc)
}

func cDestroyCQ(cq unsafe.Pointer) error {
	return errno("ibv_destroy_cq", C.weft_cq_destroy((*C.struct_weft_cq)(cq)))
}

func cRawCQ(cq unsafe.Pointer) unsafe.Pointer { return C.weft_cq_raw((*C.struct_weft_cq)(cq)) }

func cArmCQ(cq unsafe.Pointer) error {
	return errno("ibv_req_notify_cq", C.weft_cq_arm((*C.struct_weft_cq)(cq)))
}

func cCQEvents(cq unsafe.Pointer) int { return int(C.weft_cq_events((*C.struct_weft_cq)(cq))) }

func cPollCQ(cq unsafe.Pointer, wcs []WC, spin uint32) int {
	return int(C.weft_cq_poll((*C.struct_weft_cq)(cq), (*C.struct_weft_wc)(unsafe.Pointer(unsafe.SliceData(wcs))),
		C.uint32_t(len(wcs)), C.uint32_t(spin)))
}

func cCreateQP(pd, sendCQ, recvCQ unsafe.Pointer, limits *qpLimits) (unsafe.Pointer, uint32, error) {
	var qp *C.struct_weft_qp
	var num C.uint32_t
	rc := C.weft_qp_create((*C.struct_ibv_pd)(pd), (*C.struct_weft_cq)(sendCQ), (*C.struct_weft_cq)(recvCQ),
		(*C.struct_weft_qp_limits)(unsafe.Pointer(limits)), &qp, &num)
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

func cQPState(qp unsafe.Pointer) (QPState, error) {
	var state C.uint32_t
	rc := C.weft_qp_state((*C.struct_weft_qp)(qp), &state)
	return QPState(state), errno("ibv_query_qp", rc)
}

func cSetMaxMessage(qp unsafe.Pointer, bytes uint32) {
	C.weft_qp_set_max_message((*C.struct_weft_qp)(qp), C.uint32_t(bytes))
}

func cPostSend(qp unsafe.Pointer, wrs []SendWR, sges []SGE) (accepted, result int) {
	var n C.uint32_t
	rc := C.weft_qp_post_send((*C.struct_weft_qp)(qp),
		(*C.struct_weft_send_wr)(unsafe.Pointer(unsafe.SliceData(wrs))), C.uint32_t(len(wrs)),
		(*C.struct_weft_sge)(unsafe.Pointer(unsafe.SliceData(sges))), C.uint32_t(len(sges)), &n)
	return int(n), int(rc)
}

func cPostRecv(qp unsafe.Pointer, wrs []RecvWR, sges []SGE) (accepted, result int) {
	var n C.uint32_t
	rc := C.weft_qp_post_recv((*C.struct_weft_qp)(qp),
		(*C.struct_weft_recv_wr)(unsafe.Pointer(unsafe.SliceData(wrs))), C.uint32_t(len(wrs)),
		(*C.struct_weft_sge)(unsafe.Pointer(unsafe.SliceData(sges))), C.uint32_t(len(sges)), &n)
	return int(n), int(rc)
}

func dupCloseOnExec(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }
