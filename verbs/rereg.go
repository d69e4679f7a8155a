package verbs

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"
)

// Bits of enum ibv_rereg_mr_flags.
const (
	reregTranslation = 1 << iota
	reregPD
	reregAccess
)

// ChangeAccess changes what may be done with the region, in place. Its keys change as well; nothing that uses them may be in
// flight, and no other call on the region. Where the device cannot do it the error wraps [errors.ErrUnsupported] and the
// region is as it was; after another error it may be of no use any more, which the error says.
//
// Implements:
//
//	int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
func (mr *MR) ChangeAccess(access AccessFlags) error {
	if (access^mr.access)&AccessZeroBased != 0 {
		return invalid("re-register memory region: AccessZeroBased would change its addresses: register it anew")
	}
	return mr.reregister(reregAccess, nil, access)
}

// ChangePD moves the region to another protection domain of the same context, in place, as [MR.ChangeAccess] does: from then
// on that domain cannot be closed before it, and the one that it left can. A region of no use may be on either, and holds
// both.
func (mr *MR) ChangePD(pd *PD) error {
	switch {
	case pd == nil:
		return invalid("move a memory region: the protection domain is nil")
	case pd.ctx != mr.pd.ctx:
		return foreign("move a memory region", "the protection domain", pd.ctx, mr.pd.ctx)
	case pd == mr.pd:
		return mr.reregister(reregPD, pd, mr.access)
	}
	if err := pd.life.Enter(); err != nil {
		return err
	}
	defer pd.life.Exit()
	if err := mr.life.AddParent(&pd.life); err != nil {
		return err
	}
	err := mr.reregister(reregPD, pd, mr.access)
	var changed *unusableError
	switch {
	case err == nil:
		mr.life.RemoveParent(&mr.pd.life)
		mr.pd = pd
	case !errors.As(err, &changed):
		mr.life.RemoveParent(&pd.life)
	}
	return err
}

// unusableError is a change of a region that has left it of no use.
type unusableError struct{ err error }

func (e *unusableError) Error() string {
	return fmt.Sprintf("the memory region is of no use any more: close it: %v", e.err)
}

func (e *unusableError) Unwrap() error { return e.err }

func (mr *MR) reregister(what uint32, pd *PD, access AccessFlags) error {
	if err := mr.life.Enter(); err != nil {
		return err
	}
	defer mr.life.Exit()
	if err := mr.pd.checkReg(mr.length, access); err != nil {
		return err
	}
	ptr := mr.pd.ptr
	if pd != nil {
		ptr = pd.ptr
	}
	rights := access
	if what&reregAccess == 0 {
		rights = 0 // the library refuses rights that are not to be changed
	}
	made, code, err := cReregMR(mr.ptr, what, ptr, mr.addr, mr.length, uint32(rights))
	if code == 0 {
		mr.lkey, mr.rkey, mr.access = made.lkey, made.rkey, access
		return nil
	}
	if err == nil {
		err = syscall.EIO
	}
	err = &Error{Op: "ibv_rereg_mr", Err: err}
	if code == reregBadInput || errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("re-register memory region: it is unchanged: %w", err)
	}
	return &unusableError{err}
}

// reregBadInput is IBV_REREG_MR_ERR_INPUT: the region is still valid.
const reregBadInput = -1

// AllocNullMR makes a region that reads as zeros and swallows writes, for parts of a message that are not wanted: an entry with
// its LKey may have any address and length. Where the driver has none the error wraps [errors.ErrUnsupported].
//
// Implements:
//
//	struct ibv_mr *ibv_alloc_null_mr(struct ibv_pd *pd)
func (pd *PD) AllocNullMR() (*MR, error) { return pd.withoutMemory(cAllocNullMR, false) }

// ImportMR uses a region of the process that this device was imported from, by its [MR.Handle]. Where its memory lies is known
// there alone: [MR.Addr] and [MR.Length] are 0.
//
// Implements:
//
//	struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
func (pd *PD) ImportMR(handle uint32) (*MR, error) {
	return pd.withoutMemory(func(p unsafe.Pointer) (cMR, error) { return cImportMR(p, handle) }, true)
}

// withoutMemory makes a region of no memory of ours.
func (pd *PD) withoutMemory(get func(unsafe.Pointer) (cMR, error), imported bool) (*MR, error) {
	if err := pd.life.Enter(); err != nil {
		return nil, err
	}
	defer pd.life.Exit()
	made, err := get(pd.ptr)
	if err != nil {
		return nil, err
	}
	mr := &MR{pd: pd, ptr: made.ptr, lkey: made.lkey, rkey: made.rkey, imported: imported}
	if err := pd.adopt(mr); err != nil {
		return nil, err
	}
	return mr, nil
}

// Handle is the kernel's number of the region, for [PD.ImportMR] in a process that shares the device.
func (mr *MR) Handle() uint32 { return mr.handle }

// Advice is what is going to happen to memory that is registered with [AccessOnDemand] (enum ibv_advise_mr_advice).
type Advice uint32

// What Advise can tell the device.
const (
	AdvicePrefetch        Advice = iota // it will be read
	AdvicePrefetchWrite                 // it will be written
	AdvicePrefetchNoFault               // map what is in memory already
)

// Advise has the device map pages of regions ahead of use; with flush it has done so when Advise returns. Where the driver
// does not know it the error wraps [errors.ErrUnsupported].
//
// Implements:
//
//	int ibv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sg_list, uint32_t num_sge)
func (pd *PD) Advise(advice Advice, flush bool, sges []SGE) error {
	if err := pd.life.Enter(); err != nil {
		return err
	}
	defer pd.life.Exit()
	if len(sges) == 0 {
		return invalid("advise: it names no memory")
	}
	var flags uint32
	if flush {
		flags = 1
	}
	return cAdviseMR(pd.ptr, uint32(advice), flags, sges)
}
