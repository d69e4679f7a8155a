//go:build linux && cgo && !nofabric

package cgotest

// #include <pthread.h>
// #include "../../csrc/test/fabric_write.h"
//
// static void weft_test_set_mode(void *info, uint64_t mode) { ((struct fi_info *)info)->mode = mode; }
//
// // A queue whose reads want a spin lock that nobody will ever release, as those of shm may.
// static pthread_spinlock_t weft_test_orphan;
//
// static ssize_t weft_test_read(struct fid_cq *cq, void *buf, size_t count) {
//     (void)cq, (void)buf, (void)count;
//     pthread_spin_lock(&weft_test_orphan);
//     return -FI_EAGAIN;
// }
//
// static ssize_t weft_test_readfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *from) {
//     (void)from;
//     return weft_test_read(cq, buf, count);
// }
//
// static void weft_test_stick(void *queue) {
//     static struct fi_ops_cq ops;
//     struct fid_cq *cq = queue;
//     pthread_spin_init(&weft_test_orphan, PTHREAD_PROCESS_PRIVATE);
//     pthread_spin_lock(&weft_test_orphan);
//     ops = *cq->ops;
//     ops.read = weft_test_read;
//     ops.readfrom = weft_test_readfrom;
//     cq->ops = &ops;
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

// StickCQ has reads of a struct fid_cq never return: they want a spin lock that nobody will release.
func StickCQ(cq unsafe.Pointer) { C.weft_test_stick(cq) }

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
