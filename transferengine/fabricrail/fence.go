package fabricrail

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftrdma/weft/internal/life"
)

// fences end what peers have begun in memory that is closed.
//
// The provider looks at a key as an operation begins, and not again: a write that is being received, and the answer to a read, go on in
// memory that was deregistered meanwhile. But a connection delivers in order. So once the memory is deregistered, and nothing new can
// begin in it, the rail says a fence on each connection, and the peer answers it. When the provider reports that the peer's had the fence,
// all answers to reads that were queued before it have been sent; and the peer's answer came behind all writes that it had begun. Neither
// can be had sooner by a peer that lies. A peer that has not answered within DrainTimeout loses the connection, and so does whoever is
// connected and has said no hello: that ends what they had begun.
//
// Memory is closed by any goroutine, and fences are the business of turns.
type fences struct {
	asked, passed atomic.Uint64 // how many were asked for, and up to which one all have passed
	begun         uint64        // the one that is being passed
	deadline      time.Time

	mu   sync.Mutex
	held []heldPin
}

// heldPin holds memory until a fence has passed.
type heldPin struct {
	fence uint64
	pin   *life.Pin
}

// ask begins a fence, until which memory is held, and returns its number. If there is no connection there is nothing to wait for.
func (r *Rail) ask(pin *life.Pin) uint64 {
	f := &r.fences
	if !r.transport.connections() {
		pin.Release()
		return 0
	}
	f.mu.Lock()
	n := f.asked.Add(1)
	f.held = append(f.held, heldPin{n, pin})
	f.mu.Unlock()
	if f.passed.Load() >= n { // the rail was closed meanwhile
		f.pass(math.MaxUint64)
	}
	r.transport.wake()
	return n
}

// pass lets go what was held until a fence, or all of it once the rail is closed.
func (f *fences) pass(fence uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passed.Store(fence)
	kept := f.held[:0]
	for _, h := range f.held {
		if h.fence > fence {
			kept = append(kept, h)
		} else {
			h.pin.Release()
		}
	}
	clear(f.held[len(kept):])
	f.held = kept
}

// fenceState is how far a link is with the fence.
type fenceState uint8

const (
	fencePassed fenceState = iota
	fenceDue
	fenceSaid
)

// fenced takes all links to the fence that was asked for last.
func (t *connected) fenced() {
	f := &t.r.fences
	if f.begun == f.passed.Load() {
		if f.asked.Load() == f.begun {
			return
		}
		f.begun, f.deadline = f.asked.Load(), t.r.now.Add(t.r.cfg.DrainTimeout)
		for _, l := range t.all {
			l.fence = fenceDue
		}
	}
	passed := true
	for _, l := range t.all {
		if l.fence != fencePassed && !l.loop { // whose other end is another link
			t.fence(l)
			passed = passed && l.fence == fencePassed
		}
	}
	if passed {
		f.pass(f.begun)
	}
}

// fence takes a link on. One that has ended is closed in the same turn, and then has passed.
func (t *connected) fence(l *link) {
	f, c := &t.r.fences, l.conn
	switch {
	case l.gone != nil:
	case !l.up:
		l.fence = fencePassed // what is posted on it comes after
	case l.fence == fenceSaid && c.fenceTaken && c.fenceAnswer >= f.begun:
		l.fence = fencePassed
	case !t.r.now.Before(f.deadline):
		t.end(l, fmt.Errorf("memory was closed that it may have been using: it did not answer within %v", t.r.cfg.DrainTimeout))
	case l.fence == fenceDue && c != nil && c.state != connConnecting:
		c.fenceTaken = false
		if t.r.say(c, controlFence, f.begun, nil) {
			l.fence = fenceSaid
		}
	}
}

// answerFence answers a peer's fence; in a later turn if there is no room for a message now.
func (r *Rail) answerFence(c *conn) bool {
	if c.fenceAsked > c.fenceAnswered && r.say(c, controlFenced, c.fenceAsked, nil) {
		c.fenceAnswered = c.fenceAsked
	}
	return c.fenceAsked == c.fenceAnswered
}
