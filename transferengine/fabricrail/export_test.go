package fabricrail

import (
	"time"

	"github.com/weftrdma/weft/fabric"
)

// Queue is the rail's.
func (r *Rail) Queue() *fabric.CQ { return r.cq }

// Exhaust takes all buffers for messages, and gives them back.
func (r *Rail) Exhaust() (release func()) {
	free := r.mailbox.free
	r.mailbox.free = nil
	return func() { r.mailbox.free = append(r.mailbox.free, free...) }
}

// SleepFor has the rail look so seldom when it sleeps and nobody rings, also when it has something on its way.
func (r *Rail) SleepFor(every time.Duration) { r.sleep.often, r.sleep.seldom = every, every }

// Asleep tells whether the rail's sleeper wants to be rung for.
func (r *Rail) Asleep() bool { return r.bell.word().Load() != 0 }
