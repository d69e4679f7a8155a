//go:build linux && cgo && !noverbs

package cgotest

// #cgo CFLAGS: -D_GNU_SOURCE
// #include <stdlib.h>
// #include "../../csrc/null/null.h"
import "C"

import (
	"fmt"
	"syscall"
	"unsafe"

	_ "github.com/weftrdma/weft/csrc" // compiled through shim.c
)

// Null is a verbs context without a device. What it says about itself can be set, and any of its calls can be made to fail
// at a chosen time in a chosen way. It carries no data: sends complete when they are posted, unless they are held, and what
// arrives is put there by the test. Hand [Null.Context] to verbs.ImportContext.
type Null struct{ n *C.struct_weft_null }

// OpenNull makes a null context: one active RoCE port with the GID of 192.0.2.1 at index 1.
func OpenNull() (*Null, error) {
	n := C.weft_null_open()
	if n == nil {
		return nil, syscall.ENOMEM
	}
	return &Null{n}, nil
}

// Close frees the context, with which nothing may be open any more.
func (n *Null) Close() error {
	if live := n.Live(); live != 0 {
		return fmt.Errorf("close null context: %d objects are open: %w", live, syscall.EBUSY)
	}
	C.weft_null_close(n.n)
	return nil
}

// Context is the struct ibv_context.
func (n *Null) Context() unsafe.Pointer { return unsafe.Pointer(C.weft_null_context(n.n)) }

// Limits are what the null device grants at most, and says so.
type Limits struct {
	MaxMRSize                 uint64
	MaxQPWR, MaxCQE, MaxSGE   int
	MaxInline                 int // not among the attributes of a device: found by trying
	Ports                     int // 1 or 2
	Flags                     uint32
	Atomics                   uint32
	ODP, CompletionTimestamps uint64
}

// SetLimits replaces all limits and flags.
func (n *Null) SetLimits(l Limits) {
	C.weft_null_limits(n.n, C.uint64_t(l.MaxMRSize), C.uint32_t(l.MaxQPWR), C.uint32_t(l.MaxCQE), C.uint32_t(l.MaxSGE),
		C.uint32_t(l.MaxInline))
	C.weft_null_ports(n.n, C.uint32_t(l.Ports))
	C.weft_null_flags(n.n, C.uint32_t(l.Flags), C.uint32_t(l.Atomics), C.uint64_t(l.ODP), C.uint64_t(l.CompletionTimestamps))
}

// Port is what a port says about itself, in the codes of the verbs interface.
type Port struct {
	State, MTU, MaxMessage uint32
	LID                    uint16
	LinkLayer              uint8
}

// SetPort replaces the attributes of a port, 1 or 2.
func (n *Null) SetPort(port uint8, p Port) {
	C.weft_null_port(n.n, C.uint8_t(port), C.uint32_t(p.State), C.uint32_t(p.MTU), C.uint32_t(p.MaxMessage),
		C.uint16_t(p.LID), C.uint8_t(p.LinkLayer))
}

// GID is an entry of the GID table.
type GID struct {
	GID               [16]byte
	Index, Port, Type uint32
	NetDev            uint32 // interface index
}

// SetGIDs replaces the GID table, up to 16 entries.
func (n *Null) SetGIDs(gids ...GID) error {
	entries := make([]C.struct_weft_gid_entry, len(gids))
	for i, g := range gids {
		e := &entries[i]
		for j, b := range g.GID {
			e.gid[j] = C.uint8_t(b)
		}
		e.index, e.port, e._type, e.ifindex = C.uint32_t(g.Index), C.uint32_t(g.Port), C.uint32_t(g.Type), C.uint32_t(g.NetDev)
	}
	if rc := C.weft_null_gids(n.n, unsafe.SliceData(entries), C.uint32_t(len(entries))); rc != 0 {
		return syscall.Errno(rc)
	}
	return nil
}

// SetClock sets the device's counter and its frequency; with 0 kHz the device has none.
func (n *Null) SetClock(ticks, khz uint64) {
	C.weft_null_clock(n.n, C.uint64_t(ticks), C.uint64_t(khz))
}

// SetWallClock sets the wall clock that completions are stamped with, in nanoseconds since 1970.
func (n *Null) SetWallClock(ns uint64) { C.weft_null_wall_clock(n.n, C.uint64_t(ns)) }

// SetPKeys sets how many P_Keys each port has.
func (n *Null) SetPKeys(count uint16) { C.weft_null_pkeys(n.n, C.uint16_t(count)) }

// Registered is the last region that was registered.
func (n *Null) Registered() (addr, length, iova uint64, access uint32) {
	var a, l, i C.uint64_t
	var f C.uint32_t
	C.weft_null_registered(n.n, &a, &l, &i, &f)
	return uint64(a), uint64(l), uint64(i), uint32(f)
}

// InDomain tells whether a struct ibv_cq was made in a parent domain, a struct ibv_pd.
func (n *Null) InDomain(cq, pd unsafe.Pointer) bool { return C.weft_null_in_domain(cq, pd) != 0 }

// NewSRD makes a queue pair of a driver's own transport with builders, as EFA's SRD is, on a struct ibv_pd and an ibv_cq. It is
// a struct ibv_qp, and destroyed by DestroyQP.
func (n *Null) NewSRD(pd, cq unsafe.Pointer, maxSendWR, maxRecvWR int) unsafe.Pointer {
	return C.weft_null_srd(n.n, pd, cq, C.uint32_t(maxSendWR), C.uint32_t(maxRecvWR))
}

// DestroyQP destroys a struct ibv_qp.
func DestroyQP(qp unsafe.Pointer) { C.weft_null_destroy_qp(qp) }

// Built is a work request as it was built, in the codes of the verbs interface, with its first entry.
type Built struct {
	ID                          uint64
	Opcode, Flags, Imm, NumSGE  uint32
	RemoteAddr, Compare, Swap   uint64
	RKey, RemoteQPN, RemoteQKey uint32
	HasAH                       bool
	Addr                        uint64
	Length, LKey, Inlined       uint32
}

// BuiltBy is what the last post to a struct ibv_qp was built of.
func BuiltBy(qp unsafe.Pointer) (all []Built) {
	for {
		var wr C.struct_weft_send_wr
		var sge C.struct_weft_sge
		var inlined C.uint32_t
		if C.weft_null_built(qp, C.uint32_t(len(all)), &wr, &sge, &inlined) != 0 {
			return all
		}
		all = append(all, Built{
			ID: uint64(wr.id), Opcode: uint32(wr.opcode), Flags: uint32(wr.flags), Imm: uint32(wr.imm), NumSGE: uint32(wr.num_sge),
			RemoteAddr: uint64(wr.remote_addr), Compare: uint64(wr.compare_add), Swap: uint64(wr.swap), RKey: uint32(wr.rkey),
			RemoteQPN: uint32(wr.remote_qpn), RemoteQKey: uint32(wr.remote_qkey), HasAH: wr.ah != 0,
			Addr: uint64(sge.addr), Length: uint32(sge.length), LKey: uint32(sge.lkey), Inlined: uint32(inlined),
		})
	}
}

// SetVendor sets the identifier of the device's vendor.
func (n *Null) SetVendor(id uint32) { C.weft_null_vendor(n.n, C.uint32_t(id)) }

// Inlined is a copy of the bytes of the last post that began with an inline send.
func (n *Null) Inlined() []byte {
	var size C.uint32_t
	bytes := C.weft_null_inlined(n.n, &size)
	return C.GoBytes(unsafe.Pointer(bytes), C.int(size))
}

// Rate is the rate limit of a struct ibv_qp: kbit/s, the largest burst and the usual packet in bytes.
func Rate(qp unsafe.Pointer) (kbps, burst, packet int) {
	var k, b C.uint32_t
	var p C.uint16_t
	C.weft_null_rate(qp, &k, &b, &p)
	return int(k), int(b), int(p)
}

// Moderated is what interrupts a struct ibv_cq at the earliest: completions, and microseconds.
func Moderated(cq unsafe.Pointer) (count, period int) {
	var c, p C.uint16_t
	C.weft_null_moderated(cq, &c, &p)
	return int(c), int(p)
}

// Advised is the last advice about memory (enum ibv_advise_mr_advice) and its flags.
func (n *Null) Advised() (advice, flags uint32) {
	advised := uint32(C.weft_null_advised(n.n))
	return advised >> 16, advised & 0xffff
}

// RefuseAccess has registrations with any of these access flags fail with EOPNOTSUPP.
func (n *Null) RefuseAccess(access uint32) { C.weft_null_refuse_access(n.n, C.uint32_t(access)) }

// Fail has a call ("ibv_create_qp", "post_send") fail once, after so many more of it: it returns rc, or NULL, and leaves
// errno, if that is not 0. Posts count work requests. A name that is no call panics: it is a mistake in a test.
func (n *Null) Fail(call string, after, rc int, errno syscall.Errno) {
	name := C.CString(call)
	defer C.free(unsafe.Pointer(name))
	if C.weft_null_fail(n.n, name, C.uint32_t(after), C.int(rc), C.int(errno)) != 0 {
		panic("null context: no such call: " + call)
	}
}

// FailLate has a call that frees an object ("ibv_destroy_comp_channel") free it, after so many more of it, and return rc all the
// same.
func (n *Null) FailLate(call string, after, rc int) {
	name := C.CString(call)
	defer C.free(unsafe.Pointer(name))
	if C.weft_null_fail_late(n.n, name, C.uint32_t(after), C.int(rc)) != 0 {
		panic("null context: no such call: " + call)
	}
}

// Calls tells how often a call was made.
func (n *Null) Calls(call string) int {
	name := C.CString(call)
	defer C.free(unsafe.Pointer(name))
	count := C.weft_null_calls(n.n, name)
	if count < 0 {
		panic("null context: no such call: " + call)
	}
	return int(count)
}

// Registration is a registration of a dma-buf.
type Registration struct {
	FD                   int
	Offset, Length, IOVA uint64
}

// LastDMABuf is the last registration of a dma-buf.
func (n *Null) LastDMABuf() Registration {
	d := C.weft_null_last_dmabuf(n.n)
	return Registration{int(d.fd), uint64(d.offset), uint64(d.length), uint64(d.iova)}
}

// Live tells how many objects are open.
func (n *Null) Live() int { return int(C.weft_null_live(n.n)) }

// FailSend has a send complete with a status, after so many more that complete well.
func (n *Null) FailSend(after int, status, vendorErr uint32) {
	C.weft_null_fail_send(n.n, C.uint32_t(after), C.uint32_t(status), C.uint32_t(vendorErr))
}

// Break moves a struct ibv_qp to the error state, as a device does with the target of a bad request.
func (n *Null) Break(qp unsafe.Pointer) { C.weft_null_break(n.n, qp) }

// Hold keeps sends in their queues until Release.
func (n *Null) Hold() { C.weft_null_hold(n.n, 1) }

// Release completes the sends that were held, and all that are posted from now on.
func (n *Null) Release() { C.weft_null_hold(n.n, 0) }

// Completion is a completion as the device makes it, in the codes of the verbs interface.
type Completion struct {
	ID                                      uint64
	Status, Opcode, VendorErr, ByteLen, Imm uint32
	QPN, SrcQPN, Flags                      uint32
	PKeyIndex, SLID                         uint16
	SL, DLIDPathBits                        uint8
	Receive                                 bool // takes a receive of the queue pair, and its ID
}

// Complete puts a completion into a completion queue, given by its struct ibv_cq. Where it is to take a receive and none is
// posted, the error is ENOENT.
func (n *Null) Complete(cq unsafe.Pointer, c Completion) error {
	wc := C.struct_weft_wc{
		id: C.uint64_t(c.ID), status: C.uint32_t(c.Status), opcode: C.uint32_t(c.Opcode),
		vendor_err: C.uint32_t(c.VendorErr), byte_len: C.uint32_t(c.ByteLen), imm: C.uint32_t(c.Imm),
		qpn: C.uint32_t(c.QPN), src_qpn: C.uint32_t(c.SrcQPN), flags: C.uint32_t(c.Flags),
		pkey_index: C.uint16_t(c.PKeyIndex), slid: C.uint16_t(c.SLID), sl: C.uint8_t(c.SL),
		dlid_path_bits: C.uint8_t(c.DLIDPathBits),
	}
	receive := C.int(0)
	if c.Receive {
		receive = 1
	}
	if rc := C.weft_null_complete(n.n, cq, &wc, receive); rc != 0 {
		return syscall.Errno(rc)
	}
	return nil
}

// Report makes an asynchronous event (enum ibv_event_type) about a port or, where it is not nil, about a struct ibv_cq,
// ibv_qp or ibv_srq.
func (n *Null) Report(event, port uint32, object unsafe.Pointer) {
	C.weft_null_event(n.n, C.uint32_t(event), C.uint32_t(port), object)
}

// EmptyCrossing calls a C function that does nothing.
func EmptyCrossing() { C.weft_null_empty() }
