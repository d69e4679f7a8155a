package verbs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"syscall"
)

// markIDs are the identifiers of the two requests that Drain posts, to the send and to the receive queue. Work requests of a
// queue pair that is drained cannot have them.
var markIDs = [2]uint64{sendQueue: math.MaxUint64, recvQueue: math.MaxUint64 - 1}

// Drain ends a queue pair so that nothing of it is left: it moves it to the error state and polls its completion queues until
// everything that was posted to its send and receive queues has completed, in one way or another. Receives of a shared
// queue are not its own, and stay. Every completion that it polls, also of other queue pairs on these completion queues, is
// handed to each; then the queue pair can be closed without losing any.
//
// ctx bounds it, since a driver may fail to flush. Nobody else may poll the completion queues meanwhile, and nobody post. A
// queue pair of [PD.WrapQP] cannot be drained: who made its completion queues polls them.
func (qp *QP) Drain(ctx context.Context, each func(*WC)) error {
	if qp.cfg.SendCQ == nil {
		return invalid("drain QP %d: its completion queues were opened elsewhere, drain it there", qp.num)
	}
	d := drain{qp: qp, each: each}
	if err := d.begin(); err != nil {
		return fmt.Errorf("drain QP %d: %w", qp.num, err)
	}
	err := d.run(ctx)
	if d.ah != nil {
		err = errors.Join(err, d.ah.Close())
	}
	return err
}

// drain is one Drain at work. A queue completes in order: what is posted to it last, the mark, comes back last.
type drain struct {
	qp    *QP
	each  func(*WC)
	ah    *AH // for the mark of a UD queue pair; it goes nowhere
	marks [2]mark
}

// mark is the last request of one of the two queues.
type mark uint8

const (
	unmarked mark = iota
	posted
	back // or nothing can be in the queue
)

const (
	sendQueue = 0
	recvQueue = 1
)

func (d *drain) begin() error {
	qp := d.qp
	attr, err := qp.Query(AttrState | AttrPort)
	if err != nil {
		return err
	}
	if attr.State == QPReset { // it takes no posts, and not every driver moves it to the error state
		d.marks = [2]mark{back, back}
		return nil
	}
	if qp.cfg.MaxSendWR == 0 {
		d.marks[sendQueue] = back
	}
	if qp.cfg.MaxRecvWR == 0 {
		d.marks[recvQueue] = back
	}
	if (qp.Type() == UD || qp.Type() == SRD) && d.marks[sendQueue] != back {
		if err := d.address(attr.Port); err != nil {
			return err
		}
	}
	return qp.SetError()
}

// address makes the address handle without which no driver takes a datagram: of the port's own address.
func (d *drain) address(number uint8) error {
	qp := d.qp
	port, err := qp.pd.ctx.QueryPort(number)
	if err != nil {
		return err
	}
	table, err := qp.pd.ctx.GIDTable()
	if err != nil {
		return err
	}
	cfg := AHConfig{Port: number, RemoteLID: port.LID}
	if gid, err := SelectGID(table, number); err == nil {
		cfg.GIDIndex, cfg.RemoteGID = gid.Index, gid.GID
	}
	d.ah, err = qp.pd.CreateAH(cfg)
	return err
}

func (d *drain) run(ctx context.Context) error {
	for left := d.qp.cfg.SendCQ.Depth() + d.qp.cfg.RecvCQ.Depth(); ; {
		if err := d.mark(); err != nil {
			return err
		}
		n, err := d.poll(d.qp.cfg.SendCQ)
		if err == nil && d.qp.cfg.RecvCQ != d.qp.cfg.SendCQ {
			var more int
			more, err = d.poll(d.qp.cfg.RecvCQ)
			n += more
		}
		if err != nil {
			return err
		}
		if d.marks == [2]mark{back, back} {
			return nil
		}
		if ctx.Err() == nil {
			continue
		}
		// What is there already is still taken. What comes later is of others, and may never end.
		if left -= n; n == 0 || left <= 0 {
			return fmt.Errorf("drain QP %d: %w", d.qp.num, context.Cause(ctx))
		}
	}
}

// mark posts the marks that are missing, where there is room.
func (d *drain) mark() error {
	for queue := range d.marks {
		if d.marks[queue] != unmarked {
			continue
		}
		ok, err := d.post(queue)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		d.marks[queue] = posted
		if queue == recvQueue {
			// rxe of kernel 6.1 looks at a receive queue in the error state only when it is told to go there.
			if err := d.qp.SetError(); err != nil {
				return err
			}
		}
	}
	return nil
}

// post posts a mark; false while the queue is full.
func (d *drain) post(queue int) (bool, error) {
	qp := d.qp
	if err := qp.life.Enter(); err != nil {
		return false, err
	}
	defer qp.life.Exit()
	var ah AHRef
	if d.ah != nil {
		ah = d.ah.Ref()
	}
	op := [2]string{"ibv_post_send", "ibv_post_recv"}[queue]
	switch result := cPostMark(qp.ptr, queue == recvQueue, markIDs[queue], ah); syscall.Errno(result) {
	case 0:
		return true, nil
	case syscall.ENOMEM:
		return false, nil
	default:
		return false, qp.postError(op, &post{n: 1, result: int32(result)})
	}
}

// poll takes what a completion queue has.
func (d *drain) poll(cq *CQ) (int, error) {
	var wcs [16]WC
	n, err := cq.PollSpin(wcs[:], MaxSpin)
	for i := range wcs[:n] {
		switch wc := &wcs[i]; {
		case wc.QPN == d.qp.num && wc.ID == markIDs[sendQueue]:
			d.marks[sendQueue] = back
		case wc.QPN == d.qp.num && wc.ID == markIDs[recvQueue]:
			d.marks[recvQueue] = back
		default:
			d.each(wc)
		}
	}
	return n, err
}
