package verbs

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/mem"
)

// QPType is a queue pair's transport (enum ibv_qp_type).
type QPType uint32

// The transports of this binding.
const (
	RC QPType = 2 // reliable connection
	UC QPType = 3 // unreliable connection: no reads and atomics, and what is lost is lost
	UD QPType = 4 // unreliable datagrams
	// SRD is EFA's scalable reliable datagrams: writes, reads and sends to many peers, each named by an address handle, in any
	// order. efadv_create_qp_ex makes such a queue pair, with the operations that it is to build, and [PD.WrapQP] takes it. The
	// peer needs an address handle of this end too, before the first write or read reaches it.
	SRD QPType = 5
)

func (t QPType) String() string {
	switch t {
	case RC:
		return "RC"
	case UC:
		return "UC"
	case UD:
		return "UD"
	case SRD:
		return "SRD"
	}
	return fmt.Sprintf("%d", uint32(t))
}

// QPConfig says how to make a queue pair. The device may grant more ([QP.Caps]): its completion queues have places for what
// was asked for, so who has more than that in flight sees to their depth.
type QPConfig struct {
	Type   QPType
	SendCQ *CQ  // its depth must have room for MaxSendWR
	RecvCQ *CQ  // and this one's for MaxRecvWR; it may be the same
	SRQ    *SRQ // receives are posted to it instead, and MaxRecvWR is 0

	MaxSendWR  int // send work requests in the queue at a time; 0 for a queue pair that only receives
	MaxRecvWR  int
	MaxSendSGE int // entries of one send; 0 is 1
	MaxRecvSGE int // entries of one receive; 0 is 1
	// MaxInline is how many bytes a send is to take inline. No device tells its limit, so fewer are tried until it grants
	// them: see [QP.Caps].
	MaxInline int
	// PKeyIndex is the place in the port's P_Key table of the partition that [QP.Init] and [QP.Activate] put it into
	// ([Context.PKeyIndex]).
	PKeyIndex uint16
	// Builders makes posts by ibv_wr_* (ibv_create_qp_ex) instead of ibv_post_send, which some drivers do in fewer steps. A post
	// is then taken as a whole or not at all.
	Builders bool
}

// QPCaps is what the device granted.
type QPCaps struct {
	MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, MaxInline int
}

func (cfg *QPConfig) validate(c *Context) error {
	device, attr := c.name, &c.attr
	switch {
	case cfg.Type != RC && cfg.Type != UC && cfg.Type != UD:
		return invalid("create queue pair: type %v is neither RC, UC nor UD; wrap what its driver's own call makes", cfg.Type)
	case cfg.SendCQ == nil || cfg.RecvCQ == nil:
		return invalid("create queue pair: it needs SendCQ and RecvCQ")
	case cfg.SendCQ.ctx != c:
		return foreign("create queue pair", "SendCQ", cfg.SendCQ.ctx, c)
	case cfg.RecvCQ.ctx != c:
		return foreign("create queue pair", "RecvCQ", cfg.RecvCQ.ctx, c)
	case cfg.SRQ != nil && cfg.SRQ.pd.ctx != c:
		return foreign("create queue pair", "SRQ", cfg.SRQ.pd.ctx, c)
	case cfg.MaxInline < 0:
		return invalid("create queue pair: MaxInline %d is negative", cfg.MaxInline)
	case cfg.SRQ != nil && cfg.MaxRecvWR != 0:
		return invalid("create queue pair: MaxRecvWR is %d, but receives are taken from the SRQ", cfg.MaxRecvWR)
	case cfg.SRQ != nil && cfg.Type == UC:
		return invalid("create queue pair: UC takes no SRQ")
	case cfg.MaxSendWR+cfg.MaxRecvWR == 0 && cfg.SRQ == nil:
		return invalid("create queue pair: it needs MaxSendWR or MaxRecvWR")
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

// QP is a queue pair. A new one is in the reset state: bring an RC or UC one up with [QP.Init] and [QP.Connect], a UD one
// with [QP.Activate]; or either with [QP.Modify], step by step.
type QP struct {
	life   life.Object
	pd     *PD
	cfg    QPConfig
	ptr    unsafe.Pointer // struct weft_qp *
	num    uint32
	limits qpLimits

	// mu guards bring-up, which is several calls.
	mu    sync.Mutex
	state QPState  // as far as we moved it: the device may have moved on to the error state
	local Endpoint // set by Init
	gid   GIDEntry // set by Init
	port  uint8    // set by Init, Activate or Modify

	longest atomic.Uint32 // bytes of a message
}

// CreateQP makes a queue pair.
//
// Implements:
//
//	struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
//	struct ibv_qp *ibv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *qp_init_attr)
//	struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
func (pd *PD) CreateQP(cfg QPConfig) (*QP, error) {
	if err := pd.life.Enter(); err != nil {
		return nil, err
	}
	defer pd.life.Exit()
	if err := cfg.validate(pd.ctx); err != nil {
		return nil, err
	}
	if cfg.Builders {
		if err := pd.ctx.sound("work requests by builders", soundPosting); err != nil {
			return nil, err
		}
	}
	standsOn := []*life.Object{&cfg.SendCQ.life, &cfg.RecvCQ.life}
	if cfg.SRQ != nil {
		standsOn = append(standsOn, &cfg.SRQ.life)
	}
	for _, object := range standsOn {
		if err := object.Enter(); err != nil {
			return nil, err
		}
		defer object.Exit()
	}
	qp := &QP{pd: pd, cfg: cfg}
	if err := qp.reserve(); err != nil {
		return nil, fmt.Errorf("create %v queue pair: %w", cfg.Type, err)
	}
	if err := qp.create(); err != nil {
		qp.unreserve()
		return nil, fmt.Errorf("create %v queue pair of %d send and %d receive work requests and %d inline bytes: %w",
			cfg.Type, cfg.MaxSendWR, cfg.MaxRecvWR, cfg.MaxInline, explainMemlock(err, queueMemory))
	}
	pd.ctx.objects.add(qp.Raw(), qp)
	// The kernel refuses to destroy what the queue pair stands on, too. But that is too late: a driver may have unmapped a
	// completion queue before it asks the kernel (EFA's in rdma-core 44).
	if err := qp.life.Init(fmt.Sprintf("queue pair %d", qp.num), &pd.life, qp.destroy, standsOn...); err != nil {
		return nil, closeAfter(err, qp.destroy)
	}
	return qp, nil
}

// create has the queue pair made, with as many of the inline bytes as the device grants.
func (qp *QP) create() error {
	var srq unsafe.Pointer
	cfg := &qp.cfg
	if cfg.SRQ != nil {
		srq = cfg.SRQ.raw
	}
	var first error
	for inline := cfg.MaxInline; ; inline /= 2 {
		qp.limits = qpLimits{
			typ: uint32(cfg.Type), maxSendWR: uint32(cfg.MaxSendWR), maxRecvWR: uint32(cfg.MaxRecvWR),
			maxSendSGE: uint32(max(cfg.MaxSendSGE, 1)), maxRecvSGE: uint32(max(cfg.MaxRecvSGE, 1)),
			maxInline: uint32(inline),
		}
		if cfg.Builders {
			qp.limits.builders = builders
			if qp.pd.ctx.attr.Flags&DeviceMemWindowType != 0 {
				qp.limits.builders |= buildersOfWindows
			}
		}
		var err error
		qp.ptr, qp.num, err = cCreateQP(qp.pd.ptr, cfg.SendCQ.ptr, cfg.RecvCQ.ptr, srq, &qp.limits)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
		if inline == 0 || !(errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOMEM)) {
			return first
		}
	}
}

// reserve takes the places of the completions in both queues.
func (qp *QP) reserve() error {
	cfg := &qp.cfg
	if err := cfg.SendCQ.reserve(cfg.MaxSendWR); err != nil {
		return err
	}
	err := cfg.RecvCQ.reserve(cfg.MaxRecvWR)
	if err == nil && cfg.SRQ != nil {
		err = cfg.RecvCQ.join(cfg.SRQ)
	}
	if err != nil {
		cfg.SendCQ.release(cfg.MaxSendWR)
	}
	return err
}

func (qp *QP) unreserve() {
	cfg := &qp.cfg
	cfg.SendCQ.release(cfg.MaxSendWR)
	cfg.RecvCQ.release(cfg.MaxRecvWR)
	if cfg.SRQ != nil {
		cfg.RecvCQ.leave(cfg.SRQ)
	}
}

func (qp *QP) destroy() error {
	raw := qp.Raw()
	if err := cDestroyQP(qp.ptr); err != nil {
		return life.Refused(err)
	}
	qp.pd.ctx.objects.remove(raw, qp)
	qp.unreserve()
	qp.freeLater()
	return nil
}

// freeLater frees the shim's memory of a queue pair that is gone, when nobody can post to it any more: posts are refused in C,
// by that memory, since a guard here would cost as much as they do.
func (qp *QP) freeLater() { runtime.AddCleanup(qp, cFreeQP, qp.ptr) }

// Close destroys the queue pair: the device no longer touches any memory for it. Work requests that have not completed give
// no completion any more, nor do those whose completion has not been polled; [QP.Drain] comes before where that matters.
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
// entries, comes before anything is posted. So does one about a run of requests without [SendSignaled] that would fill the
// queue, since it could never empty again; and, after the first completion with an error, the refusal of any post: that error
// wraps the completion's ([QP.Err]).
//
// Implements:
//
//	int ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
//	void ibv_wr_start(struct ibv_qp_ex *qp)
//	int ibv_wr_complete(struct ibv_qp_ex *qp)
//	void ibv_wr_send(struct ibv_qp_ex *qp)
//	void ibv_wr_send_imm(struct ibv_qp_ex *qp, __be32 imm_data)
//	void ibv_wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
//	void ibv_wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, __be32 imm_data)
//	void ibv_wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
//	void ibv_wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t compare, uint64_t swap)
//	void ibv_wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t add)
//	void ibv_wr_local_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
//	void ibv_wr_send_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
//	void ibv_wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
//	void ibv_wr_set_sge_list(struct ibv_qp_ex *qp, size_t num_sge, const struct ibv_sge *sg_list)
//	void ibv_wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t num_buf, const struct ibv_data_buf *buf_list)
func (qp *QP) PostSend(wrs []SendWR, sges []SGE) (accepted int, err error) {
	p := post{n: uint32(len(wrs)), numSGE: uint32(len(sges))}
	mem.Reads(wrs)
	mem.Reads(sges)
	cPostSend(qp.ptr, wrs, sges, &p)
	runtime.KeepAlive(qp)
	if p.result != 0 {
		return p.taken(), qp.postError("ibv_post_send", &p)
	}
	return int(p.accepted), nil
}

// PostInline posts one work request with the bytes of data, from any memory: they are taken during the call, so that data may
// be changed at once, and needs no region. [SendInline] and NumSGE of wr are set here. data longer than [QPCaps].MaxInline is
// an error, and nothing is posted.
//
// Implements:
//
//	void ibv_wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
func (qp *QP) PostInline(wr SendWR, data []byte) error {
	if len(data) > int(qp.limits.maxInline) { // before its length is cut to 32 bits
		return invalid("QP %d: %d bytes are more inline data than the queue pair takes, %d; nothing was posted", qp.num, len(data),
			qp.limits.maxInline)
	}
	p := post{n: 1}
	mem.Reads(data)
	cPostInline(qp.ptr, &wr, data, &p)
	runtime.KeepAlive(qp)
	if p.result != 0 {
		return qp.postError("ibv_post_send", &p)
	}
	return nil
}

// PostRecv posts receives, as [QP.PostSend] does sends.
//
// Implements:
//
//	int ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
func (qp *QP) PostRecv(wrs []RecvWR, sges []SGE) (accepted int, err error) {
	p := post{n: uint32(len(wrs)), numSGE: uint32(len(sges))}
	mem.Reads(wrs)
	mem.Reads(sges)
	cPostRecv(qp.ptr, wrs, sges, &p)
	runtime.KeepAlive(qp)
	if p.result != 0 {
		return p.taken(), qp.postError("ibv_post_recv", &p)
	}
	return int(p.accepted), nil
}

// failure is struct weft_failure.
type failure struct {
	id                       uint64
	status, vendorErr, event uint32
	_                        uint32
}

// Err returns the cause of the queue pair's failure, nil while there is none, and again after a reset: its first completion
// with an error, as a *[CompletionError], or the asynchronous event that reported it, as an *[EventError]. A queue pair that
// has failed takes no posts, and has been moved to the error state, so that everything posted completes: with WCFlushed.
//
// A completion with WCFlushed is a cause where nobody has moved the queue pair to the error state, until a better one is
// known: the device has done it, as it does with the target of a request that it refuses. What the queue pair's owner flushes is
// none.
//
// A datagram's send that failed may leave the queue pair in [QPSQE] (as [QP.State] tells): then only sends are refused, receives
// go on, and [QP.Modify] to [QPRTS] with CurrentState brings it back.
func (qp *QP) Err() error {
	if err := qp.life.Enter(); err != nil {
		return err
	}
	defer qp.life.Exit()
	return qp.cause()
}

func (qp *QP) cause() error {
	var f failure
	if !cQPFailure(qp.ptr, &f) {
		return nil
	}
	if f.status == 0 {
		return &EventError{QPN: qp.num, Type: EventType(f.event)}
	}
	return &CompletionError{ID: f.id, QPN: qp.num, Status: WCStatus(f.status), VendorErr: f.vendorErr}
}
