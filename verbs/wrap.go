package verbs

import (
	"errors"
	"fmt"
	"math"
	"syscall"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// explainWrap says what is wrong with an object that was made elsewhere.
func explainWrap(err error, device string) error {
	if errors.Is(err, syscall.EXDEV) {
		return invalid("%w: it is not of this context of %s", err, device)
	}
	if errors.Is(err, syscall.EPERM) {
		return invalid("%w: it is of another protection domain: wrap it on its own", err)
	}
	return err
}

// WrapCQ uses a struct ibv_cq of this device that was made by other means. It must stay until Close, which does not destroy
// it. Its completions are polled here alone; whether it has room for those of the queue pairs that are made on it here, and of
// those that were made elsewhere, its owner sees to. It cannot be armed: its channel, if it has one, is its owner's.
func (c *Context) WrapCQ(raw unsafe.Pointer) (*CQ, error) { return c.wrapCQ(raw, false) }

// WrapCQEx is [Context.WrapCQ] for a struct ibv_cq_ex, such as mlx5dv_create_cq and efadv_create_cq make. It must have been made
// with IBV_WC_EX_WITH_QP_NUM. [CQ.Timestamps] tells which times it keeps for [CQ.PollTimes].
func (c *Context) WrapCQEx(raw unsafe.Pointer) (*CQ, error) { return c.wrapCQ(raw, true) }

func (c *Context) wrapCQ(raw unsafe.Pointer, extended bool) (*CQ, error) {
	if err := c.life.Enter(); err != nil {
		return nil, err
	}
	defer c.life.Exit()
	if raw == nil {
		return nil, invalid("wrap completion queue: nil")
	}
	if extended {
		if err := c.sound("an ibv_cq_ex", soundPolling); err != nil {
			return nil, err
		}
	}
	cq := &CQ{ctx: c, raw: raw, wrapped: true, extended: extended}
	if !c.objects.claim(raw, cq) {
		return nil, invalid("wrap completion queue: it is open here already")
	}
	var err error
	if cq.ptr, cq.depth, cq.timestamps, err = cWrapCQ(c.ptr, raw, extended); err != nil {
		c.objects.remove(raw, cq)
		return nil, explainWrap(err, c.name)
	}
	if err := cq.life.Init("completion queue", &c.life, cq.destroy); err != nil {
		return nil, closeAfter(err, cq.destroy)
	}
	return cq, nil
}

// WrapSRQ uses a struct ibv_srq of this domain that was made by other means. It must stay until Close, which does not destroy
// it.
func (pd *PD) WrapSRQ(raw unsafe.Pointer) (*SRQ, error) {
	if err := pd.life.Enter(); err != nil {
		return nil, err
	}
	defer pd.life.Exit()
	if raw == nil {
		return nil, invalid("wrap shared receive queue: nil")
	}
	srq := &SRQ{pd: pd, raw: raw, wrapped: true}
	if !pd.ctx.objects.claim(raw, srq) {
		return nil, invalid("wrap shared receive queue: it is open here already")
	}
	ptr, attr, err := cWrapSRQ(pd.ptr, raw)
	if err != nil {
		pd.ctx.objects.remove(raw, srq)
		return nil, explainWrap(err, pd.ctx.name)
	}
	srq.ptr, srq.attr = ptr, SRQConfig{int(attr.maxWR), int(attr.maxSGE)}
	if err := srq.life.Init("shared receive queue", &pd.life, srq.destroy); err != nil {
		return nil, closeAfter(err, srq.destroy)
	}
	return srq, nil
}

// WrapMR uses a struct ibv_mr of this domain that was registered by other means. It and its memory must stay until Close, which
// does not deregister it. What may be done with it is not known here: [MR.Access] is 0. Nor is an address that it was registered
// under in place of its memory's (ibv_reg_mr_iova, ibv_reg_dmabuf_mr): an entry for such a region is made of its LKey by hand.
func (pd *PD) WrapMR(raw unsafe.Pointer) (*MR, error) {
	if err := pd.life.Enter(); err != nil {
		return nil, err
	}
	defer pd.life.Exit()
	if raw == nil {
		return nil, invalid("wrap memory region: nil")
	}
	made, addr, length, err := cWrapMR(pd.ptr, raw)
	if err != nil {
		return nil, explainWrap(err, pd.ctx.name)
	}
	mr := &MR{pd: pd, ptr: raw, lkey: made.lkey, rkey: made.rkey, addr: addr, length: length, wrapped: true}
	if err := pd.adopt(mr); err != nil {
		return nil, err
	}
	return mr, nil
}

// WrapQP uses a struct ibv_qp of this domain that was made by other means, such as mlx5dv_create_qp, in the state that it is
// in. It must stay until Close, which does not destroy it. Where its completion queues are open here, made or wrapped, [QP.Err]
// learns of its failures; otherwise they are polled by their owner, and it does not. Its queues, and a [QP] that it is already,
// cannot be closed before it where they are open here.
func (pd *PD) WrapQP(raw unsafe.Pointer) (*QP, error) {
	if err := pd.life.Enter(); err != nil {
		return nil, err
	}
	defer pd.life.Exit()
	if raw == nil {
		return nil, invalid("wrap queue pair: nil")
	}
	qp := &QP{pd: pd}
	send, recv, srq := pd.ctx.queuesOf(raw)
	var ptrs [2]unsafe.Pointer
	var parents [4]*life.Object
	for i, cq := range [2]*CQ{send, recv} {
		if cq == nil {
			continue
		}
		if err := cq.life.Enter(); err != nil {
			return nil, err
		}
		defer cq.life.Exit()
		ptrs[i], parents[i] = cq.ptr, &cq.life
	}
	if srq != nil {
		if err := srq.life.Enter(); err != nil {
			return nil, err
		}
		defer srq.life.Exit()
		parents[2] = &srq.life
	}
	if own, ok := pd.ctx.objects.find(key(raw)).(*QP); ok { // whose Close would take it away
		parents[3] = &own.life
	}
	var err error
	if qp.ptr, qp.state, err = cWrapQP(pd.ptr, raw, ptrs[0], ptrs[1], &qp.limits); err != nil {
		return nil, explainWrap(err, pd.ctx.name)
	}
	qp.num = cQPNum(qp.ptr)
	qp.setMaxMessage(math.MaxUint32) // its port is not known
	pd.ctx.objects.claim(raw, qp)
	release := func() error {
		pd.ctx.objects.remove(raw, qp)
		cReleaseQP(qp.ptr)
		qp.freeLater()
		return nil
	}
	if err := qp.life.Init(fmt.Sprintf("queue pair %d", qp.num), &pd.life, release, parents[:]...); err != nil {
		return nil, closeAfter(err, release)
	}
	return qp, nil
}

// queuesOf finds the queues of a struct ibv_qp among those that are open here.
func (c *Context) queuesOf(qp unsafe.Pointer) (send, recv *CQ, srq *SRQ) {
	s, r, q := cQueuesOfQP(qp)
	send, _ = c.objects.find(s).(*CQ)
	recv, _ = c.objects.find(r).(*CQ)
	srq, _ = c.objects.find(q).(*SRQ)
	return send, recv, srq
}
