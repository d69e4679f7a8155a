//go:build linux && cgo && !nofabric

package cgotest

// #include "../../csrc/test/fabric_write.h"
//
// static void weft_test_set_mode(void *info, uint64_t mode) { ((struct fi_info *)info)->mode = mode; }
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
