package verbs

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/mem"
)

// SRQ is a shared receive queue: receives that any of several queue pairs takes, so that they need not be posted for each.
type SRQ struct {
	life life.Object
	pd   *PD
	ptr  unsafe.Pointer // struct weft_srq *
	raw  unsafe.Pointer // struct ibv_srq *

	wrapped bool

	mu   sync.Mutex
	attr SRQConfig // as granted
}

// SRQConfig says how to make a shared receive queue. The device may grant more.
type SRQConfig struct {
	MaxWR  int
	MaxSGE int // entries of one receive; 0 is 1
}

// srqAttr is struct weft_srq_attr.
type srqAttr struct{ maxWR, maxSGE, limit uint32 }

// Bits of enum ibv_srq_attr_mask.
const (
	srqMaxWR = 1 << iota
	srqLimit
)

func (cfg SRQConfig) validate(device string, attr *DeviceAttr) error {
	switch {
	case cfg.MaxWR < 1 || cfg.MaxWR > attr.MaxSRQWR:
		return invalid("create SRQ: MaxWR is %d, %s takes 1 to %d", cfg.MaxWR, device, attr.MaxSRQWR)
	case cfg.MaxSGE < 0 || cfg.MaxSGE > attr.MaxSRQSGE:
		return invalid("create SRQ: MaxSGE is %d, %s takes 0 to %d", cfg.MaxSGE, device, attr.MaxSRQSGE)
	}
	return nil
}

// CreateSRQ makes a shared receive queue.
//
// Implements:
//
//	struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr)
func (pd *PD) CreateSRQ(cfg SRQConfig) (*SRQ, error) {
	if err := pd.life.Enter(); err != nil {
		return nil, err
	}
	defer pd.life.Exit()
	if err := cfg.validate(pd.ctx.name, &pd.ctx.attr); err != nil {
		return nil, err
	}
	attr := srqAttr{maxWR: uint32(cfg.MaxWR), maxSGE: uint32(max(cfg.MaxSGE, 1))}
	ptr, err := cCreateSRQ(pd.ptr, &attr)
	if err != nil {
		return nil, fmt.Errorf("create SRQ of %d receives: %w", cfg.MaxWR, explainMemlock(err, queueMemory))
	}
	srq := &SRQ{pd: pd, ptr: ptr, raw: cRawSRQ(ptr), attr: SRQConfig{int(attr.maxWR), int(attr.maxSGE)}}
	pd.ctx.objects.add(srq.raw, srq)
	if err := srq.life.Init("shared receive queue", &pd.life, srq.destroy); err != nil {
		return nil, closeAfter(err, srq.destroy)
	}
	return srq, nil
}

func (srq *SRQ) destroy() error {
	if srq.wrapped {
		cReleaseSRQ(srq.ptr)
	} else if err := cDestroySRQ(srq.ptr); err != nil {
		return life.Refused(err)
	}
	srq.pd.ctx.objects.remove(srq.raw, srq)
	return nil
}

// Close destroys the queue. It is refused with EBUSY while a queue pair takes from it.
//
// Implements:
//
//	int ibv_destroy_srq(struct ibv_srq *srq)
func (srq *SRQ) Close() error { return srq.life.Close() }

// Config returns what the device granted.
func (srq *SRQ) Config() SRQConfig {
	srq.mu.Lock()
	defer srq.mu.Unlock()
	return srq.attr
}

// Raw returns the struct ibv_srq pointer, for calls that this package does not have.
func (srq *SRQ) Raw() unsafe.Pointer { return srq.raw }

// SetLimit asks for one [EventSRQLimitReached], when fewer than limit receives are left; 0 takes the request back.
//
// Implements:
//
//	int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask)
func (srq *SRQ) SetLimit(limit int) error {
	if err := srq.life.Enter(); err != nil {
		return err
	}
	defer srq.life.Exit()
	if holds := srq.Config().MaxWR; limit < 0 || limit > holds {
		return invalid("set limit of SRQ to %d: it holds %d receives", limit, holds)
	}
	return cModifySRQ(srq.ptr, &srqAttr{limit: uint32(limit)}, srqLimit)
}

// Resize changes how many receives it holds, before queue pairs take from it: their completion queues have room for what it
// holds when they are made. Where the device has no such change the error wraps [errors.ErrUnsupported].
func (srq *SRQ) Resize(maxWR int) error {
	if err := srq.life.Enter(); err != nil {
		return err
	}
	defer srq.life.Exit()
	cfg := SRQConfig{MaxWR: maxWR}
	if err := cfg.validate(srq.pd.ctx.name, &srq.pd.ctx.attr); err != nil {
		return err
	}
	srq.mu.Lock()
	defer srq.mu.Unlock()
	if err := cModifySRQ(srq.ptr, &srqAttr{maxWR: uint32(maxWR)}, srqMaxWR); err != nil {
		return err
	}
	srq.attr.MaxWR = maxWR
	return nil
}

// Limit asks for the limit that is set, 0 after its event.
//
// Implements:
//
//	int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr)
func (srq *SRQ) Limit() (int, error) {
	if err := srq.life.Enter(); err != nil {
		return 0, err
	}
	defer srq.life.Exit()
	attr, err := cQuerySRQ(srq.ptr)
	return int(attr.limit), err
}

// PostRecv posts receives, as [QP.PostRecv] does.
//
// Implements:
//
//	int ibv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr, struct ibv_recv_wr **bad_recv_wr)
func (srq *SRQ) PostRecv(wrs []RecvWR, sges []SGE) (accepted int, err error) {
	mem.Reads(wrs) // before Enter, as in CQ.poll
	mem.Reads(sges)
	if err := srq.life.Enter(); err != nil {
		return 0, err
	}
	defer srq.life.Exit()
	if len(wrs) == 0 {
		return 0, nil
	}
	p := post{n: uint32(len(wrs)), numSGE: uint32(len(sges))}
	cPostSRQRecv(srq.ptr, wrs, sges, &p)
	if p.result != 0 {
		limits := qpLimits{maxRecvSGE: uint32(srq.Config().MaxSGE)}
		err = limits.postError("SRQ", "ibv_post_srq_recv", &p)
	}
	return p.taken(), err
}
