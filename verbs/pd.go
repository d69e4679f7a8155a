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
	pd := &PD{ctx: c, ptr: ptr}
	if err := pd.life.Init("protection domain", &c.life, pd.dealloc); err != nil {
		return nil, closeAfter(err, pd.dealloc)
	}
	return pd, nil
}

func (pd *PD) dealloc() error { return cDeallocPD(pd.ptr) }

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
