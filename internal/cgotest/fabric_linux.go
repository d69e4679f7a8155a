//go:build linux && cgo && !nofabric

package cgotest

// #include <stdlib.h>
// #include "../../csrc/test/fabric_write.h"
//
// static void weft_test_set_mode(void *info, uint64_t mode) { ((struct fi_info *)info)->mode = mode; }
//
// static void weft_test_set_mr_mode(void *info, int mode) { ((struct fi_info *)info)->domain_attr->mr_mode = mode; }
//
// // The functions of an object whose next close is refused; then it has its own again.
// struct weft_test_refusal {
//     struct fi_ops ops; // first: it leads back here
//     struct fi_ops *was;
//     int rc;
// };
//
// static int weft_test_refuse(struct fid *fid) {
//     struct weft_test_refusal *r = (struct weft_test_refusal *)fid->ops;
//     int rc = r->rc;
//     fid->ops = r->was;
//     free(r);
//     return rc;
// }
//
// static void weft_test_refuse_close(void *object, int rc) {
//     struct fid *fid = object;
//     struct weft_test_refusal *r = malloc(sizeof(*r));
//     r->ops = *fid->ops;
//     r->ops.close = weft_test_refuse;
//     r->was = fid->ops;
//     r->rc = rc;
//     fid->ops = &r->ops;
// }
//
// // The functions by which a domain registers memory, with a note of the key that was asked for last.
// static struct fi_ops_mr weft_test_mr_ops, *weft_test_mr_was;
// static uint64_t weft_test_key;
//
// static int weft_test_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key,
//                          uint64_t flags, struct fid_mr **mr, void *context) {
//     weft_test_key = key;
//     return weft_test_mr_was->reg(fid, buf, len, access, offset, key, flags, mr, context);
// }
//
// static uint64_t weft_test_last_key(void) { return weft_test_key; }
//
// static void weft_test_watch_keys(void *object) {
//     struct fid_domain *domain = object;
//     weft_test_mr_was = domain->mr;
//     weft_test_mr_ops = *domain->mr;
//     weft_test_mr_ops.reg = weft_test_reg;
//     domain->mr = &weft_test_mr_ops;
// }
//
// static int weft_test_write(void *ep, void *cq, void *mr, uint64_t memory, uint64_t size, uint64_t peer, uint64_t base,
//                            uint64_t key, int batch, int batches) {
//     struct weft_test_writes w = {.ep = ep, .cq = cq, .desc = fi_mr_desc(mr), .memory = (void *)memory, .size = size,
//                                  .peer = peer, .base = base, .key = key};
//     return (int)weft_test_write_batches(&w, batch, batches);
// }
import "C"

import (
	"syscall"
	"unsafe"

	_ "github.com/weftrdma/weft/csrc" // has the header
)

// SetInfoMode has a struct fi_info ask for a mode that its provider does not need.
func SetInfoMode(info unsafe.Pointer, mode uint64) { C.weft_test_set_mode(info, C.uint64_t(mode)) }

// SetInfoMRMode has a struct fi_info ask for memory modes that its provider does not need.
func SetInfoMRMode(info unsafe.Pointer, mode uint32) { C.weft_test_set_mr_mode(info, C.int(mode)) }

// RefuseClose has the next fi_close of a struct fid fail, with nothing freed.
func RefuseClose(fid unsafe.Pointer, errno syscall.Errno) {
	C.weft_test_refuse_close(fid, -C.int(errno))
}

// WatchKeys notes the keys that regions of a struct fid_domain are registered with from now on, of one domain at a time; the function
// returns the last one.
func WatchKeys(domain unsafe.Pointer) func() uint64 {
	C.weft_test_watch_keys(domain)
	return func() uint64 { return uint64(C.weft_test_last_key()) }
}

// Writes are writes with data by libfabric's own calls from C, on objects of the binding's: struct fid_ep, fid_cq and fid_mr.
type Writes struct {
	Endpoint, CQ, MR unsafe.Pointer
	Memory, Size     uint64 // where the bytes are, in the MR, and how many of a write
	Peer             uint64
	Base, Key        uint64 // of the peer's memory
}

// Run writes so many batches, up to 64 at a time, each of which is polled for until it has completed.
func (w *Writes) Run(batch, batches int) error {
	rc := C.weft_test_write(w.Endpoint, w.CQ, w.MR, C.uint64_t(w.Memory), C.uint64_t(w.Size), C.uint64_t(w.Peer),
		C.uint64_t(w.Base), C.uint64_t(w.Key), C.int(batch), C.int(batches))
	if rc < 0 {
		return syscall.Errno(-rc)
	}
	return nil
}
