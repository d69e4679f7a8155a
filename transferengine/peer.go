package transferengine

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftrdma/weft/transferengine/rail"
)

// Peer is another engine in one life of its process, for as long as it is connected. One that was lost does not come
// back: whoever connects again, even to the same engine, gets a new Peer.
type Peer struct {
	engine      *Engine
	name        string
	incarnation rail.Incarnation
	path        *path // the worker's

	transfers atomic.Int64 // in flight
	spoiled   spoiledValues

	lost atomic.Bool // set after err, before done is closed
	err  error
	done chan struct{}
	down chan struct{}
}

// String names the peer, as its rail does: an address, mostly.
func (p *Peer) String() string { return p.name }

// Incarnation identifies the engine that the peer is, in this life of its process.
func (p *Peer) Incarnation() rail.Incarnation { return p.incarnation }

// Done returns a channel that is closed when the peer is lost or was given up.
func (p *Peer) Done() <-chan struct{} { return p.done }

// Down returns a channel that is closed, after Done's, when nothing is left of the peer: the NIC has given back every operation to
// it, so that no transfer that ended with InFlight keeps its region any more, and nothing that the peer has written lands in this
// engine's memory, as far as rail.Caps.Fences of the NIC promises. Where the NIC cannot take operations back (rail.Caps.Recalls) it
// stays open for as long as the peer is silent, or until the engine is closed.
func (p *Peer) Down() <-chan struct{} { return p.down }

// Err says why the peer is lost: an error that wraps [rail.ErrPeerGone], [rail.ErrPeerClosed] or net.ErrClosed, among
// others. It is nil while the peer is connected.
func (p *Peer) Err() error {
	if !p.lost.Load() {
		return nil
	}
	return p.err
}

// Close gives up the peer, which is told so. Its transfers end with errors that wrap net.ErrClosed, and so do waits that count on
// it; once [Peer.Down] is closed nothing that it has written lands in this engine's memory any more. A peer that is lost already is
// left alone, as is that of an engine that is being closed, which gives up every peer. The error is [ErrQueueFull].
func (p *Peer) Close() error {
	e := p.engine
	if p.lost.Load() || e.requests.Enter() != nil {
		return nil
	}
	defer e.requests.Exit()
	if err := e.submit(submission{disconnect: p}, false); err != nil {
		return fmt.Errorf("close peer %v: %w", p, err)
	}
	return nil
}

// lose marks the peer lost.
func (p *Peer) lose(err error) {
	p.err = err
	p.lost.Store(true)
	close(p.done)
}

// peerTable has the peers that are connected.
type peerTable struct {
	waiters waitlist // for peers to accept

	mu     sync.Mutex
	peers  []*Peer
	fresh  []*Peer // of these, those that came by themselves and that nobody has accepted
	closed bool
}

func newPeerTable() *peerTable { return new(peerTable) }

func (t *peerTable) all() []*Peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.peers)
}

// add adds a peer; fresh says that it came by itself.
func (t *peerTable) add(p *Peer, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.peers = append(t.peers, p)
	if fresh {
		t.fresh = append(t.fresh, p)
		t.waiters.wake()
	}
}

func (t *peerTable) remove(p *Peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	is := func(q *Peer) bool { return q == p }
	t.peers, t.fresh = slices.DeleteFunc(t.peers, is), slices.DeleteFunc(t.fresh, is)
}

// close ends all waits for peers.
func (t *peerTable) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.waiters.wake()
}

// acceptCall is an Accept at work.
type acceptCall struct {
	table *peerTable
	peer  *Peer
}

// met takes a peer, if there is one.
func (c *acceptCall) met() (bool, error) {
	t := c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.fresh) > 0 {
		c.peer = t.fresh[0]
		t.fresh = slices.Delete(t.fresh, 0, 1)
		return true, nil
	}
	if t.closed {
		return true, closedError{}
	}
	return false, nil
}

// connectCall is a Connect on its way through the worker.
type connectCall struct {
	address     []byte // of the peer's rail
	incarnation rail.Incarnation
	timeout     time.Duration // from when the worker takes it
	expect      bool          // the peer connects, if the rail can wait for that

	waiters waitlist
	done    atomic.Bool // set after what follows
	peer    *Peer
	err     error
}

// met tells whether the outcome is there.
func (c *connectCall) met() (bool, error) {
	if !c.done.Load() {
		return false, nil
	}
	return true, c.err
}

// finish ends the call with a peer or an error.
func (c *connectCall) finish(peer *Peer, err error) {
	if err == nil && peer.incarnation != c.incarnation {
		err = fmt.Errorf("%w: its process was restarted and is now engine %x: get its new address", rail.ErrPeerGone, peer.incarnation[:4])
	}
	c.peer, c.err = peer, err
	c.done.Store(true)
	c.waiters.wake()
}
