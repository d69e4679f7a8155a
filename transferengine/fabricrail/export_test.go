package fabricrail

import "github.com/weftrdma/weft/fabric"

// Queue is the rail's.
func (r *Rail) Queue() *fabric.CQ { return r.cq }

// Exhaust takes all buffers for messages, and gives them back.
func (r *Rail) Exhaust() (release func()) {
	free := r.mailbox.free
	r.mailbox.free = nil
	return func() { r.mailbox.free = append(r.mailbox.free, free...) }
}
