package verbs

import (
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// PD is a protection domain: memory and queue pairs work together only within one.
type PD struct {
	life life.Object
	ctx  *Context
	ptr  unsafe.Pointer // struct ibv_pd *
	free func(unsafe.Pointer) error

	threads *ThreadDomain // of a parent domain; nil otherwise

	handle uint32 // the kernel's
}

// AllocPD allocates a protection domain.
//
// Implements:
//
//	struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
func (c *Context) AllocPD() (*PD, error) {
	if err := c.life.Enter(); err != nil {
		return nil, err
	}
	defer c.life.Exit()
	ptr, err := cAllocPD(c.ptr)
	if err != nil {
		return nil, err
	}
	return c.newPD(ptr, cDeallocPD)
}

// ImportPD uses a protection domain of the process that this device was imported from, by its [PD.Handle].
//
// Implements:
//
//	struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
//	void ibv_unimport_pd(struct ibv_pd *pd)
func (c *Context) ImportPD(handle uint32) (*PD, error) {
	if err := c.life.Enter(); err != nil {
		return nil, err
	}
	defer c.life.Exit()
	ptr, err := cImportPD(c.ptr, handle)
	if err != nil {
		return nil, err
	}
	return c.newPD(ptr, func(ptr unsafe.Pointer) error { cUnimportPD(ptr); return nil })
}

// WrapPD uses a struct ibv_pd of this device that was allocated by other means. It must stay until Close, which does not
// deallocate it.
func (c *Context) WrapPD(raw unsafe.Pointer) (*PD, error) {
	if err := c.life.Enter(); err != nil {
		return nil, err
	}
	defer c.life.Exit()
	if raw == nil {
		return nil, invalid("wrap protection domain: the pointer is nil")
	}
	if cPDContext(raw) != c.ptr {
		return nil, invalid("wrap protection domain: it is not of this context of %s", c.name)
	}
	return c.newPD(raw, func(unsafe.Pointer) error { return nil })
}

func (c *Context) newPD(ptr unsafe.Pointer, free func(unsafe.Pointer) error) (*PD, error) {
	pd := &PD{ctx: c, ptr: ptr, free: free, handle: cPDHandle(ptr)}
	if err := pd.life.Init("protection domain", &c.life, pd.dealloc); err != nil {
		return nil, closeAfter(err, pd.dealloc)
	}
	return pd, nil
}

func (pd *PD) dealloc() error { return life.Refused(pd.free(pd.ptr)) }

// Handle is the kernel's number of the domain, for [Context.ImportPD] in a process that shares the device.
func (pd *PD) Handle() uint32 { return pd.handle }

// Close deallocates the protection domain. It is refused with EBUSY while an MR, AH or QP is open on it.
//
// Implements:
//
//	int ibv_dealloc_pd(struct ibv_pd *pd)
func (pd *PD) Close() error { return pd.life.Close() }

// Raw returns the struct ibv_pd pointer, for calls that this package does not have.
func (pd *PD) Raw() unsafe.Pointer { return pd.ptr }

// Context returns the device that the domain belongs to.
func (pd *PD) Context() *Context { return pd.ctx }
