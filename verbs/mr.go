package verbs

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/mem"
)

// AccessFlags are what a NIC may do with memory (enum ibv_access_flags).
type AccessFlags uint32

// The remote rights to write need AccessLocalWrite; reading does not.
const (
	AccessLocalWrite AccessFlags = 1 << iota
	AccessRemoteWrite
	AccessRemoteRead
	AccessRemoteAtomic
	AccessMWBind    // memory windows can be bound to it
	AccessZeroBased // addresses count from 0; memory that is registered so begins at a page
	AccessOnDemand  // pages are not pinned: the device asks for them
	AccessHugeTLB   // with AccessOnDemand, memory of huge pages

	// AccessRelaxedOrdering lets the device's writes pass one another on PCI. It is a wish: where the device refuses it the
	// memory is registered without, and so is everything later on that device; [MR.Access] tells.
	AccessRelaxedOrdering AccessFlags = 1 << 20

	accessAll = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic | AccessMWBind |
		AccessZeroBased | AccessOnDemand | AccessHugeTLB | AccessRelaxedOrdering
)

// MR is a memory region: memory that a NIC may use.
type MR struct {
	life     life.Object
	pd       *PD
	ptr      unsafe.Pointer // struct ibv_mr *
	addr     uint64
	length   uint64
	lkey     uint32
	rkey     uint32
	access   AccessFlags
	handle   uint32 // the kernel's
	imported bool
	wrapped  bool
	pin      *life.Pin // of Go memory; nil without
}

// RegMR registers mem. It may be any memory that stays where it is until the region is closed: a mapping, also of huge
// pages, C memory, or a Go slice, which RegMR pins for that time. While the region is open, work requests and peers reach
// all len(mem) bytes; what the NIC writes, Go sees after it polled the completion.
//
// Memory longer than the device's MaxMRSize is an error, never cut. ENOMEM that comes from the limit on locked memory gives
// an error that wraps [ErrMemlock] too and tells the limit, the need and the fix.
//
// Implements:
//
//	struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
func (pd *PD) RegMR(mem []byte, access AccessFlags) (*MR, error) {
	zeroBased := access&AccessZeroBased != 0
	if start := uintptr(unsafe.Pointer(unsafe.SliceData(mem))); zeroBased && start%uintptr(os.Getpagesize()) != 0 {
		return nil, invalid("register memory: with AccessZeroBased it begins at a page, and this at %#x", start)
	}
	return pd.register(mem, access, func(addr uint64, access AccessFlags) (cMR, error) {
		if zeroBased { // soft-RoCE, for one, does not look at the flag
			return cRegMRIOVA(pd.ptr, addr, uint64(len(mem)), 0, uint32(access))
		}
		return cRegMR(pd.ptr, addr, uint64(len(mem)), uint32(access))
	})
}

// checkIOVA refuses two answers to where a region's addresses begin.
func checkIOVA(iova uint64, access AccessFlags) error {
	if iova != 0 && access&AccessZeroBased != 0 {
		return invalid("register memory: AccessZeroBased is for addresses from 0 on, and not from iova %#x", iova)
	}
	return nil
}

// RegMRIOVA registers mem under another address: work requests and peers reach its first byte at iova, and [MR.Addr] is
// that. iova and the address of mem must lie at the same place within a page.
//
// Implements:
//
//	struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
//	struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
func (pd *PD) RegMRIOVA(mem []byte, iova uint64, access AccessFlags) (*MR, error) {
	if err := checkIOVA(iova, access); err != nil {
		return nil, err
	}
	mr, err := pd.register(mem, access, func(addr uint64, access AccessFlags) (cMR, error) {
		return cRegMRIOVA(pd.ptr, addr, uint64(len(mem)), iova, uint32(access))
	})
	if err == nil {
		mr.addr = iova
	}
	return mr, err
}

// register pins mem and has it registered by reg.
func (pd *PD) register(mem []byte, access AccessFlags, reg func(uint64, AccessFlags) (cMR, error)) (*MR, error) {
	start := unsafe.SliceData(mem)
	mr := &MR{pd: pd, addr: uint64(uintptr(unsafe.Pointer(start))), length: uint64(len(mem)), access: access, pin: life.NewPin(mem)}
	err := pd.makeMR(mr, func(access AccessFlags) (cMR, error) { return reg(uint64(uintptr(unsafe.Pointer(start))), access) })
	if err != nil {
		if mr.ptr == nil { // otherwise the device may still know the memory
			mr.pin.Release()
		}
		return nil, err
	}
	if access&AccessZeroBased != 0 {
		mr.addr = 0
	}
	return mr, nil
}

// RegDMABuf registers length bytes of a dma-buf from offset on, such as memory of a GPU, under the address iova. Where the
// kernel or the driver knows no dma-buf the error wraps [errors.ErrUnsupported].
//
// Implements:
//
//	struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
func (pd *PD) RegDMABuf(fd int, offset, length, iova uint64, access AccessFlags) (*MR, error) {
	if err := checkIOVA(iova, access); err != nil {
		return nil, err
	}
	mr := &MR{pd: pd, addr: iova, length: length, access: access}
	err := pd.makeMR(mr, func(access AccessFlags) (cMR, error) {
		return cRegDMABuf(pd.ptr, fd, offset, length, iova, uint32(access))
	})
	if err != nil {
		return nil, err
	}
	return mr, nil
}

// makeMR checks a region and has it made by reg, again without relaxed ordering where the device refuses that.
func (pd *PD) makeMR(mr *MR, reg func(AccessFlags) (cMR, error)) error {
	if err := pd.life.Enter(); err != nil {
		return err
	}
	defer pd.life.Exit()
	if err := pd.checkReg(mr.length, mr.access); err != nil {
		return err
	}
	if mr.access&AccessOnDemand != 0 {
		if err := pd.ctx.checkODP(mr.length); err != nil {
			return err
		}
	}
	refused := &pd.ctx.noRelaxedOrdering
	if refused.Load() {
		mr.access &^= AccessRelaxedOrdering
	}
	made, err := reg(mr.access)
	// A kernel or driver that does not know the flag says either.
	unknown := errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL)
	if unknown && mr.access&AccessRelaxedOrdering != 0 {
		mr.access &^= AccessRelaxedOrdering
		if made, err = reg(mr.access); err == nil {
			refused.Store(true)
		}
	}
	if err != nil {
		return fmt.Errorf("register %d bytes: %w", mr.length, explainReg(err, mr.length))
	}
	mr.ptr, mr.lkey, mr.rkey = made.ptr, made.lkey, made.rkey
	return pd.adopt(mr)
}

func (pd *PD) adopt(mr *MR) error {
	mr.handle = cMRHandle(mr.ptr)
	if err := mr.life.Init("memory region", &pd.life, mr.dereg); err != nil {
		return closeAfter(err, mr.dereg)
	}
	return nil
}

func (pd *PD) checkReg(length uint64, access AccessFlags) error {
	switch limit := pd.ctx.attr.MaxMRSize; {
	case length == 0:
		return invalid("register memory: it is empty")
	case length > limit && length != everything:
		return invalid("register %d bytes: %s takes at most %d in one region; register parts", length, pd.ctx.name, limit)
	case access&^accessAll != 0:
		return invalid("register memory: unknown access flags %#x", uint32(access&^accessAll))
	case access&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && access&AccessLocalWrite == 0:
		return invalid("register memory: AccessRemoteWrite and AccessRemoteAtomic need AccessLocalWrite")
	}
	return nil
}

// explainReg adds what a user can do about a registration that failed.
func explainReg(err error, need uint64) error {
	switch {
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("%w (memory of huge pages, with fork protection on, needs RDMAV_HUGEPAGES_SAFE=1)", err)
	case errors.Is(err, syscall.EFAULT):
		return fmt.Errorf("%w (no memory that this process may use is mapped there; a GPU's is registered by RegDMABuf, or here "+
			"once its driver's peer memory module is loaded)", err)
	}
	return explainMemlock(err, fmt.Sprintf("%d KiB", (need+1023)>>10))
}

// queueMemory is what a queue needs: its driver allocates it and has the kernel lock it for the device.
const queueMemory = "the queue's own memory"

// explainMemlock adds to ENOMEM what the user needs to know when the limit on locked memory is the likely cause.
func explainMemlock(err error, need string) error {
	limit, limited := mem.LockLimit()
	if !errors.Is(err, syscall.ENOMEM) || !limited {
		return err
	}
	return fmt.Errorf("%w of %d KiB, needed are %s and what is registered already: raise it (ulimit -l unlimited; "+
		"LimitMEMLOCK=infinity in a systemd unit; --ulimit memlock=-1 in Docker) or grant CAP_IPC_LOCK: %w",
		ErrMemlock, limit>>10, need, err)
}

func (mr *MR) dereg() error {
	if mr.wrapped {
		return nil
	}
	if mr.imported {
		cUnimportMR(mr.ptr)
		return nil
	}
	if err := cDeregMR(mr.ptr); err != nil {
		return life.Refused(err)
	}
	mr.pin.Release()
	return nil
}

// Close deregisters the memory. No work request that uses it may be in flight, here or at a peer.
//
// Implements:
//
//	int ibv_dereg_mr(struct ibv_mr *mr)
//	void ibv_unimport_mr(struct ibv_mr *mr)
func (mr *MR) Close() error { return mr.life.Close() }

// Addr is the address of the region's first byte, as work requests here and at peers use it.
func (mr *MR) Addr() uint64 { return mr.addr }

// Length is the region's length in bytes.
func (mr *MR) Length() uint64 { return mr.length }

// Access is what the device was asked for in the end: without [AccessRelaxedOrdering] where it refused that.
func (mr *MR) Access() AccessFlags { return mr.access }

// SGE is the entry of a work request for length bytes of the region from offset on. Bytes outside of the region are an error,
// which the device would report only when the request is carried out.
func (mr *MR) SGE(offset, length int) (SGE, error) {
	if mr.length == 0 {
		return SGE{}, invalid("the region has no memory that is known here: make the entry of its LKey and an address")
	}
	if offset < 0 || length < 0 || uint64(offset) > mr.length || uint64(length) > mr.length-uint64(offset) {
		return SGE{}, invalid("%d bytes at offset %d are not in a memory region of %d bytes", length, offset, mr.length)
	}
	if uint64(length) > math.MaxUint32 {
		return SGE{}, invalid("an entry of %d bytes: its length has 32 bits; make several", length)
	}
	return SGE{Addr: mr.addr + uint64(offset), Length: uint32(length), LKey: mr.lkey}, nil
}

// LKey goes into the scatter/gather entries of local work requests.
func (mr *MR) LKey() uint32 { return mr.lkey }

// RKey lets peers reach the region, as far as its access flags allow.
func (mr *MR) RKey() uint32 { return mr.rkey }

// Raw returns the struct ibv_mr pointer, for calls that this package does not have.
func (mr *MR) Raw() unsafe.Pointer { return mr.ptr }
