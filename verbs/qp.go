package verbs

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// QPType is a queue pair's transport (enum ibv_qp_type).
type QPType uint32

// The transports of this binding.
const (
	RC QPType = 2 // reliable connection
	UD QPType = 4 // unreliable datagrams
)

func (t QPType) String() string {
	switch t {
	case RC:
		return "RC"
	case UD:
		return "UD"
	}
	return fmt.Sprintf("%d", uint32(t))
}

// QPConfig says how to make a queue pair. Depths and entries that the device grants may be more.
type QPConfig struct {
	Type   QPType
	SendCQ *CQ
	RecvCQ *CQ // may be the same

	MaxSendWR  int // send work requests in the queue at a time; 0 for a queue pair that only receives
	MaxRecvWR  int
	MaxSendSGE int // entries of one send; 0 is 1
	MaxRecvSGE int // entries of one receive; 0 is 1
	MaxInline  int // bytes that a send can take inline
}

// QPCaps is what the device granted.
type QPCaps struct {
	MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, MaxInline int
}

func (cfg *QPConfig) validate(device string, attr *DeviceAttr) error {
	switch {
	case cfg.Type != RC && cfg.Type != UD:
		return invalid("create queue pair: type %v is neither RC nor UD", cfg.Type)
	case cfg.SendCQ == nil || cfg.RecvCQ == nil:
		return invalid("create queue pair: SendCQ and RecvCQ are needed")
	case cfg.MaxInline < 0:
		return invalid("create queue pair: MaxInline %d is negative", cfg.MaxInline)
	case cfg.MaxSendWR+cfg.MaxRecvWR == 0:
		return invalid("create queue pair: neither MaxSendWR nor MaxRecvWR is given")
	}
	for _, check := range []struct {
		field        string
		value, limit int
	}{
		{"MaxSendWR", cfg.MaxSendWR, attr.MaxQPWR},
		{"MaxRecvWR", cfg.MaxRecvWR, attr.MaxQPWR},
		{"MaxSendSGE", cfg.MaxSendSGE, attr.MaxSGE},
		{"MaxRecvSGE", cfg.MaxRecvSGE, attr.MaxSGE},
	} {
		if check.value < 0 || check.value > check.limit {
			return invalid("create queue pair: %s is %d, %s takes 0 to %d", check.field, check.value, device, check.limit)
		}
	}
	return nil
}

// QP is a queue pair. A new one is in the reset state: bring an RC one up with [QP.Init] and [QP.Connect], a UD one with
// [QP.Activate].
type QP struct {
	life   life.Object
	pd     *PD
	ptr    unsafe.Pointer // struct weft_qp *
	num    uint32
	limits qpLimits

	// mu guards bring-up, which is several calls.
	mu    sync.Mutex
	state QPState  // as far as we moved it: the device may have moved on to the error state
	local Endpoint // set by Init
	gid   GIDEntry // set by Init
}

// CreateQP makes a queue pair.
//
// Implements:
//
//	struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
func (pd *PD) CreateQP(cfg QPConfig) (*QP, error) {
	if err := pd.life.Enter(); err != nil {
		return nil, err
	}
	defer pd.life.Exit()
	if err := cfg.validate(pd.ctx.name, &pd.ctx.attr); err != nil {
		return nil, err
	}
	for _, cq := range []*CQ{cfg.SendCQ, cfg.RecvCQ} {
		if err := cq.life.Enter(); err != nil {
			return nil, err
		}
		defer cq.life.Exit()
	}
	qp := &QP{pd: pd, limits: qpLimits{
		typ: uint32(cfg.Type), maxSendWR: uint32(cfg.MaxSendWR), maxRecvWR: uint32(cfg.MaxRecvWR),
		maxSendSGE: uint32(max(cfg.MaxSendSGE, 1)), maxRecvSGE: uint32(max(cfg.MaxRecvSGE, 1)),
		maxInline: uint32(cfg.MaxInline),
	}}
	var err error
	qp.ptr, qp.num, err = cCreateQP(pd.ptr, cfg.SendCQ.ptr, cfg.RecvCQ.ptr, &qp.limits)
	if err != nil {
		return nil, fmt.Errorf("create %v queue pair of %d send and %d receive work requests and %d inline bytes: %w",
			cfg.Type, cfg.MaxSendWR, cfg.MaxRecvWR, cfg.MaxInline, err)
	}
	// The kernel holds the PD and the CQs against being closed as we do: the PD through its children, a CQ by EBUSY.
	if err := qp.life.Init(fmt.Sprintf("queue pair %d", qp.num), &pd.life, qp.destroy); err != nil {
		return nil, closeAfter(err, qp.destroy)
	}
	return qp, nil
}

func (qp *QP) destroy() error { return cDestroyQP(qp.ptr) }

// Close destroys the queue pair. Work requests that have not completed give no completion any more, nor do those whose
// completion has not been polled.
//
// Implements:
//
//	int ibv_destroy_qp(struct ibv_qp *qp)
func (qp *QP) Close() error { return qp.life.Close() }

// Num returns the queue pair's number, 24 bits.
func (qp *QP) Num() uint32 { return qp.num }

// Type returns the transport.
func (qp *QP) Type() QPType { return QPType(qp.limits.typ) }

// Caps returns what the device granted.
func (qp *QP) Caps() QPCaps {
	l := &qp.limits
	return QPCaps{
		MaxSendWR: int(l.maxSendWR), MaxRecvWR: int(l.maxRecvWR),
		MaxSendSGE: int(l.maxSendSGE), MaxRecvSGE: int(l.maxRecvSGE), MaxInline: int(l.maxInline),
	}
}

// Raw returns the struct ibv_qp pointer, for calls that this package does not have.
func (qp *QP) Raw() unsafe.Pointer { return cRawQP(qp.ptr) }

// PostSend posts wrs as one chain, in one crossing. wrs[i] takes the next wrs[i].NumSGE entries of sges; none may be
// left over. Neither slice is used after the call.
//
// It returns how many work requests the driver accepted, from the first on. The error, where that is fewer than all,
// wraps [ErrQueueFull] if the queue has no room for the next one. An error about a work request itself, such as too many
// entries, comes before anything is posted.
//
// Implements:
//
//	int ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
func (qp *QP) PostSend(wrs []SendWR, sges []SGE) (accepted int, err error) {
	if err := qp.life.Enter(); err != nil {
		return 0, err
	}
	defer qp.life.Exit()
	if len(wrs) == 0 {
		return 0, nil
	}
	accepted, result := cPostSend(qp.ptr, wrs, sges)
	if result != 0 {
		return qp.refused("ibv_post_send", result, accepted, len(wrs), len(sges))
	}
	return accepted, nil
}

// PostRecv posts receives, as [QP.PostSend] does sends.
//
// Implements:
//
//	int ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
func (qp *QP) PostRecv(wrs []RecvWR, sges []SGE) (accepted int, err error) {
	if err := qp.life.Enter(); err != nil {
		return 0, err
	}
	defer qp.life.Exit()
	if len(wrs) == 0 {
		return 0, nil
	}
	accepted, result := cPostRecv(qp.ptr, wrs, sges)
	if result != 0 {
		return qp.refused("ibv_post_recv", result, accepted, len(wrs), len(sges))
	}
	return accepted, nil
}

// refused is the outcome of a post that did not take all. What the shim refused was not posted at all; accepted is then
// the index of the bad work request.
func (qp *QP) refused(op string, result, accepted, n, sges int) (int, error) {
	err := qp.postError(op, result, accepted, n, sges)
	if result < 0 {
		accepted = 0
	}
	return accepted, err
}
