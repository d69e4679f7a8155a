package verbs

import (
	"context"
	"fmt"
	"math"
	"syscall"
)

// drainID is the identifier of the request that Drain posts. Work requests of a queue pair that is drained cannot have it.
const drainID = math.MaxUint64

// Drain ends an RC or UC queue pair so that no send is left: it moves it to the error state and polls its send completion
// queue until everything that was posted to the send queue has completed, in a way or another. Receives are flushed by the
// same move. Every completion that it polls, also of other queue pairs on that completion queue and of receives where they
// come there, is handed to each; then the queue pair can be closed without losing any.
//
// ctx bounds it, since a driver may fail to flush. Nobody else may poll the completion queue meanwhile.
func (qp *QP) Drain(ctx context.Context, each func(*WC)) error {
	if qp.Type() == UD || qp.limits.maxSendWR == 0 || qp.cfg.SendCQ == nil {
		return invalid("drain: QP %d is %v with a send queue of %d; this is for RC and UC queue pairs that send, made by "+
			"CreateQP", qp.num, qp.Type(), qp.limits.maxSendWR)
	}
	if err := qp.SetError(); err != nil {
		return err
	}
	var wcs [16]WC
	for posted := false; ; {
		if !posted {
			var err error
			if posted, err = qp.postSentinel(); err != nil {
				return err
			}
		}
		n, err := qp.cfg.SendCQ.PollSpin(wcs[:], MaxSpin)
		if err != nil {
			return err
		}
		done := false
		for i := range wcs[:n] {
			if wcs[i].QPN == qp.num && wcs[i].ID == drainID {
				done = true
				continue
			}
			each(&wcs[i])
		}
		if done {
			return nil
		}
		if n == 0 && ctx.Err() != nil {
			return fmt.Errorf("drain QP %d: %w", qp.num, context.Cause(ctx))
		}
	}
}

// postSentinel posts a request that completes after all others; false while the queue is full.
func (qp *QP) postSentinel() (bool, error) {
	if err := qp.life.Enter(); err != nil {
		return false, err
	}
	defer qp.life.Exit()
	switch result := cPostSentinel(qp.ptr, drainID); syscall.Errno(result) {
	case 0:
		return true, nil
	case syscall.ENOMEM:
		return false, nil
	default:
		return false, qp.postError("ibv_post_send", result, 0, 1, 0)
	}
}
