package fabric

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// ErrBroken: the call was broken off, or not made because an earlier one had been ([Guard]). The domain takes no more calls, and
// nothing of it can be closed.
var ErrBroken = fmt.Errorf("a call into libfabric was broken off: %w", notRecoverable)

// notRecoverable is Linux's ENOTRECOVERABLE.
const notRecoverable = syscall.Errno(131)

// Guard has calls of a domain broken off that never return.
//
// shm takes spin locks in the memory of its peers, and lets them take its own. A process that is killed while it holds one leaves
// it locked for ever, and whoever wants it spins in C, where no context and no panic reaches. [Guard.Break] has such a call end
// with [ErrBroken], by a signal (SIGRTMAX) to its thread: whoever watches calls it for one that has outlasted its bound.
type Guard struct {
	domain *Domain
	ptr    unsafe.Pointer // struct weft_fi_guards *
	calls  [numGuarded]*atomic.Uint64
}

// Guarded is one of the calls on a domain that can be under way at a time.
type Guarded int

const (
	GuardCall Guarded = iota // one that posts, polls or changes an address vector
	GuardLook                // a look of [CQ.Await]

	numGuarded = 2
)

// Guard has the domain's calls guarded from now on: posts, polls, insertions into and removals from address vectors, of which one
// goroutine at a time makes one; another may be in [CQ.Await]. It costs each of them some 10 ns.
func (d *Domain) Guard() (*Guard, error) {
	if err := d.life.Enter(); err != nil {
		return nil, err
	}
	defer d.life.Exit()
	g := &Guard{domain: d, ptr: cGuardDomain(d.ptr)}
	if g.ptr == nil {
		return nil, failed("calloc", int(syscall.ENOMEM))
	}
	for i := range g.calls {
		g.calls[i] = (*atomic.Uint64)(cGuardCalls(g.ptr, Guarded(i)))
	}
	return g, nil
}

// Current is the number of the call that is being made, 0 for none.
func (g *Guard) Current(which Guarded) uint64 {
	if calls := g.calls[which].Load(); calls%2 == 1 {
		return calls
	}
	return 0
}

// Break has the call of that number end, if that can be: where its thread is in libc, and not in a spin lock, it is left alone,
// since it may have a lock of libc's; a later try may find it elsewhere. It returns whether the call has ended, and takes up to
// 20 ms. It works on x86-64 and arm64.
func (g *Guard) Break(which Guarded, call uint64) bool {
	if g.domain.life.Enter() != nil {
		return true
	}
	defer g.domain.life.Exit()
	return cBreak(g.ptr, which, call)
}

// Broken tells whether a call was broken off.
func (g *Guard) Broken() bool {
	if g.domain.life.Enter() != nil {
		return false
	}
	defer g.domain.life.Exit()
	return cBroken(g.ptr)
}
