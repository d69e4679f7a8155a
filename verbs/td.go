package verbs

import (
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// ThreadDomain is a promise: the queues of one are used by one goroutine at a time, so that the driver takes no locks for them
// and may give them a doorbell of their own.
type ThreadDomain struct {
	life life.Object
	ctx  *Context
	ptr  unsafe.Pointer // struct ibv_td *
}

// AllocThreadDomain allocates a thread domain. Where the driver knows none the error wraps [errors.ErrUnsupported].
//
// Implements:
//
//	struct ibv_td *ibv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *init_attr)
func (c *Context) AllocThreadDomain() (*ThreadDomain, error) {
	if err := c.life.Enter(); err != nil {
		return nil, err
	}
	defer c.life.Exit()
	ptr, err := cAllocTD(c.ptr)
	if err != nil {
		return nil, err
	}
	td := &ThreadDomain{ctx: c, ptr: ptr}
	if err := td.life.Init("thread domain", &c.life, td.dealloc); err != nil {
		return nil, closeAfter(err, td.dealloc)
	}
	return td, nil
}

func (td *ThreadDomain) dealloc() error { return life.Refused(cDeallocTD(td.ptr)) }

// Close deallocates the thread domain. It is refused with EBUSY while a protection domain of it is open.
//
// Implements:
//
//	int ibv_dealloc_td(struct ibv_td *td)
func (td *ThreadDomain) Close() error { return td.life.Close() }

// ParentDomain makes a protection domain that is pd within a thread domain. Queue pairs, shared receive queues and completion
// queues ([CQConfig].Domain) that are made on it belong to the thread domain: one goroutine at a time polls such a completion
// queue, posts to such a queue pair, or closes either. Memory regions of pd serve them as well. Where the driver knows no parent domains the
// error wraps [errors.ErrUnsupported].
//
// Implements:
//
//	struct ibv_pd *ibv_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
func (pd *PD) ParentDomain(td *ThreadDomain) (*PD, error) {
	if td == nil {
		return nil, invalid("parent domain: no thread domain")
	}
	if td.ctx != pd.ctx {
		return nil, foreign("parent domain", "the thread domain", td.ctx, pd.ctx)
	}
	for _, object := range []*life.Object{&pd.life, &td.life} {
		if err := object.Enter(); err != nil {
			return nil, err
		}
		defer object.Exit()
	}
	ptr, err := cAllocParent(pd.ptr, td.ptr)
	if err != nil {
		return nil, err
	}
	parent := &PD{ctx: pd.ctx, ptr: ptr, free: cDeallocPD, handle: cPDHandle(ptr), threads: td}
	if err := parent.life.Init("parent domain", &pd.life, parent.dealloc, &td.life); err != nil {
		return nil, closeAfter(err, parent.dealloc)
	}
	return parent, nil
}
