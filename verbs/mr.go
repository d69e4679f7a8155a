package verbs

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// AccessFlags are what a NIC may do with memory (enum ibv_access_flags).
type AccessFlags uint32

// The remote rights need AccessLocalWrite, except reading.
const (
	AccessLocalWrite AccessFlags = 1 << iota
	AccessRemoteWrite
	AccessRemoteRead

	accessAll = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead
)

// MR is a memory region: memory that a NIC may use.
type MR struct {
	life   life.Object
	ptr    unsafe.Pointer // struct ibv_mr *
	addr   uint64
	length uint64
	lkey   uint32
	rkey   uint32
	pinner runtime.Pinner
}

// RegMR registers mem. It may be any memory that stays where it is until the region is closed: a mapping, C memory, or a
// Go slice, which RegMR pins for that time. While the region is open, work requests and peers reach all len(mem) bytes;
// what the NIC writes, Go sees after it polled the completion.
//
// ENOMEM that comes from the limit on locked memory gives an error that wraps [ErrMemlock] too and tells the limit, the
// need and the fix.
//
// Implements:
//
//	struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
func (pd *PD) RegMR(mem []byte, access AccessFlags) (*MR, error) {
	if err := pd.life.Enter(); err != nil {
		return nil, err
	}
	defer pd.life.Exit()
	if err := pd.checkReg(uint64(len(mem)), access); err != nil {
		return nil, err
	}
	start := unsafe.SliceData(mem)
	mr := &MR{addr: uint64(uintptr(unsafe.Pointer(start))), length: uint64(len(mem))}
	mr.pinner.Pin(start)
	var err error
	mr.ptr, mr.lkey, mr.rkey, err = cRegMR(pd.ptr, mr.addr, mr.length, uint32(access))
	if err != nil {
		mr.pinner.Unpin()
		return nil, fmt.Errorf("register %d bytes: %w", len(mem), explainMemlock(err, mr.length))
	}
	if err := mr.life.Init("memory region", &pd.life, mr.dereg); err != nil {
		return nil, closeAfter(err, mr.dereg)
	}
	return mr, nil
}

func (pd *PD) checkReg(length uint64, access AccessFlags) error {
	switch limit := pd.ctx.attr.MaxMRSize; {
	case length == 0:
		return invalid("register memory: no bytes")
	case length > limit:
		return invalid("register %d bytes: %s takes at most %d in one region; register parts", length, pd.ctx.name, limit)
	case access&^accessAll != 0:
		return invalid("register memory: unknown access flags %#x", uint32(access&^accessAll))
	case access&AccessRemoteWrite != 0 && access&AccessLocalWrite == 0:
		return invalid("register memory: AccessRemoteWrite needs AccessLocalWrite")
	}
	return nil
}

// explainMemlock adds to ENOMEM what the user needs to know when the limit on locked memory is the likely cause.
func explainMemlock(err error, need uint64) error {
	limit, limited := memlockLimit()
	if !errors.Is(err, syscall.ENOMEM) || !limited {
		return err
	}
	return fmt.Errorf("%w of %d KiB, needed are %d KiB and what is registered already: raise it (ulimit -l unlimited; "+
		"LimitMEMLOCK=infinity in a systemd unit; --ulimit memlock=-1 in Docker) or grant CAP_IPC_LOCK: %w",
		ErrMemlock, limit>>10, (need+1023)>>10, err)
}

func (mr *MR) dereg() error {
	if err := cDeregMR(mr.ptr); err != nil {
		return err
	}
	mr.pinner.Unpin()
	return nil
}

// Close deregisters the memory. No work request that uses it may be in flight, here or at a peer.
//
// Implements:
//
//	int ibv_dereg_mr(struct ibv_mr *mr)
func (mr *MR) Close() error { return mr.life.Close() }

// Addr is the address of the region's first byte, as work requests here and at peers use it.
func (mr *MR) Addr() uint64 { return mr.addr }

// Length is the region's length in bytes.
func (mr *MR) Length() uint64 { return mr.length }

// LKey goes into the scatter/gather entries of local work requests.
func (mr *MR) LKey() uint32 { return mr.lkey }

// RKey lets peers reach the region, as far as its access flags allow.
func (mr *MR) RKey() uint32 { return mr.rkey }

// Raw returns the struct ibv_mr pointer, for calls that this package does not have.
func (mr *MR) Raw() unsafe.Pointer { return mr.ptr }
