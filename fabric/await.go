package fabric

import "context"

// Await blocks until there is a completion, and leaves it there; or until ctx ends, and its error is then ctx's. One goroutine at
// a time may await or wait. It also returns once somebody polls the queue, because a goroutine that polls needs no other to look.
// The queue was made with [WaitFD].
func (cq *CQ) Await(ctx context.Context) error {
	cq.waits.Use()
	if cq.wait != WaitFD || cq.set != nil {
		return invalid("await a completion of a queue with wait object %d, not %d", cq.wait, WaitFD)
	}
	_, err := cq.events.wait(ctx, cq.look, func() bool { return cTryWaitCQ(cq.ptr) })
	return err
}

// look returns 1 if there is a completion.
func (cq *CQ) look() (int, error) {
	if err := cq.life.Enter(); err != nil {
		return 0, err
	}
	defer cq.life.Exit()
	n := cLookCQ(cq.ptr)
	if n < 0 {
		return 0, failed("fi_cq_read", -n)
	}
	return n, nil
}
