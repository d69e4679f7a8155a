package simrail

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/transferengine/rail"
)

// Rail is a rail of a [Network]. It implements [rail.Rail].
type Rail struct {
	network     *Network
	id          uint64
	address     string
	incarnation rail.Incarnation
	owned       atomic.Bool
	signal      chan struct{}

	// Under network.mu.
	links     map[rail.PeerID]*link
	keys      map[uint64]memory
	events    []event
	inbox     []*packet // that wait for this rail's turn
	armed     bool
	touched   bool // since the last turn
	dead      bool
	exhausted bool
	slow      int
	last      time.Time // that it was told
}

// event is one that the engine was not told of.
type event struct {
	rail.Event
	link *link
}

// memory is registered.
type memory struct {
	bytes  []byte
	access rail.Access
}

var _ rail.Rail = (*Rail)(nil)

// opener implements [rail.Opener].
type opener struct {
	network *Network
	address string
}

// Open implements [rail.Opener].
func (o opener) Open(i rail.Incarnation) (rail.Rail, error) {
	n := o.network
	if n.err != nil {
		return nil, n.err
	}
	if o.address == "" || len(o.address) > rail.MaxAddress {
		return nil, fmt.Errorf("simrail: address %q of %d bytes, not 1 to %d: %w", o.address, len(o.address), rail.MaxAddress,
			syscall.EINVAL)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if before := n.rails[o.address]; before != nil {
		before.die()
	}
	n.last++
	r := &Rail{network: n, id: n.last, address: o.address, incarnation: i, signal: make(chan struct{}, 1),
		links: make(map[rail.PeerID]*link), keys: make(map[uint64]memory)}
	n.rails[o.address] = r
	return r, nil
}

// own begins what one goroutine at a time may do.
func (r *Rail) own() (done func()) {
	alone := r.owned.CompareAndSwap(false, true)
	r.network.mu.Lock()
	if !alone {
		_ = r.network.violated("%s: two goroutines use the rail", r.address)
	}
	return func() {
		r.network.mu.Unlock()
		r.owned.Store(false)
	}
}

// sorted are the links in the order in which they were made.
func (r *Rail) sorted() []*link {
	links := slices.Collect(maps.Values(r.links))
	slices.SortFunc(links, func(a, b *link) int { return cmp.Compare(a.id, b.id) })
	return links
}

// Name implements [rail.Rail].
func (r *Rail) Name() string { return "sim:" + r.address }

// Address implements [rail.Rail].
func (r *Rail) Address() []byte { return []byte(r.address) }

// Caps implements [rail.Rail].
func (r *Rail) Caps() rail.Caps {
	c := &r.network.config
	return rail.Caps{MaxLength: c.MaxLength, MaxBatch: c.MaxBatch, MaxImmediates: c.Immediates, MaxSend: messageLimit,
		Completion: rail.Delivered, ImmSource: !c.NoImmSource, Ordered: c.Ordered, Read: true, Atomics: true,
		DeathBy: rail.ByTransport, DeathWithin: c.DeathWithin, CancelProof: true, Recalls: !c.NoRecall,
		Fences: true}
}

// registration implements [rail.Registration].
type registration struct {
	rail *Rail
	key  uint64
}

// Register implements [rail.Rail].
func (r *Rail) Register(bytes []byte, access rail.Access) (rail.Registration, error) {
	n := r.network
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last++
	r.keys[n.last] = memory{bytes, access}
	return registration{r, n.last}, nil
}

func (g registration) LocalKey() uint64  { return g.key }
func (g registration) RemoteKey() uint64 { return g.key }

// RemoteAddr is not the address of the memory here, so that nothing can confuse the two.
func (g registration) RemoteAddr() uint64 { return remoteAddr(g.key) }

func remoteAddr(key uint64) uint64 { return key << 40 }

func (g registration) Close() error {
	n := g.rail.network
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range g.rail.links {
		for _, f := range l.flights {
			if !f.done && f.op.LocalKey == g.key {
				return n.violated("%s: memory is deregistered under an operation in flight: %w", g.rail.address, syscall.EBUSY)
			}
		}
	}
	delete(g.rail.keys, g.key)
	return nil
}

// local returns registered memory by its address here.
func (r *Rail) local(key, addr, length uint64) ([]byte, error) {
	return r.find(key, addr, mem.Addr(r.keys[key].bytes), length, 0)
}

// remote returns registered memory by the address that peers have of it.
func (r *Rail) remote(key, addr, length uint64, access rail.Access) ([]byte, error) {
	return r.find(key, addr, remoteAddr(key), length, access)
}

// find returns registered memory whose first byte has the address base.
func (r *Rail) find(key, addr, base, length uint64, access rail.Access) ([]byte, error) {
	m, ok := r.keys[key]
	offset := addr - base
	switch size := uint64(len(m.bytes)); {
	case !ok:
		return nil, fmt.Errorf("key %d is unknown", key)
	case offset > size || length > size-offset:
		return nil, fmt.Errorf("%d bytes at %#x are not in the %d at %#x", length, addr, size, base)
	case m.access&access != access:
		return nil, fmt.Errorf("the memory allows %#x, not %#x", m.access, access)
	}
	return m.bytes[offset:][:length], nil
}

// Connect implements [rail.Rail].
func (r *Rail) Connect(now time.Time, address []byte, deadline time.Time) (rail.PeerID, error) {
	return r.meet(now, address, deadline, false)
}

// Expect implements [rail.Rail].
func (r *Rail) Expect(now time.Time, address []byte, deadline time.Time) (rail.PeerID, error) {
	return r.meet(now, address, deadline, true)
}

// meet connects, or leaves it to the peer.
func (r *Rail) meet(now time.Time, address []byte, deadline time.Time, silent bool) (rail.PeerID, error) {
	defer r.own()()
	r.touch(now)
	if len(address) == 0 || len(address) > rail.MaxAddress {
		return 0, fmt.Errorf("%s: connect to an address of %d bytes: %w", r.Name(), len(address), syscall.EINVAL)
	}
	if r.dead {
		return 0, fmt.Errorf("%s: connect: this end was killed: %w", r.Name(), rail.ErrUnreachable)
	}
	if l := r.linkTo(string(address)); l != nil {
		if deadline.After(l.deadline) {
			l.deadline = deadline
		}
		l.wanted = true
		if l.silent && !silent {
			l.silent = false
			l.call()
		}
		return l.id, nil
	}
	l := r.newLink(string(address))
	l.wanted, l.deadline, l.silent = true, deadline, silent
	l.call()
	return l.id, nil
}

// touch notes that something was done between two turns.
func (r *Rail) touch(now time.Time) {
	r.hear(now)
	r.touched = true
}

// hear takes in what time it is. The network has the latest that any rail was told.
func (r *Rail) hear(now time.Time) {
	if now.Before(r.last) {
		_ = r.network.violated("%s: the time goes back by %v", r.address, r.last.Sub(now))
	}
	r.last = now
	if now.After(r.network.now) {
		r.network.now = now
	}
}

// Disconnect implements [rail.Rail].
func (r *Rail) Disconnect(now time.Time, peer rail.PeerID) {
	defer r.own()()
	r.touch(now)
	if l := r.links[peer]; l != nil && l.state != leaving {
		l.leave()
	}
}

// connected returns the link of a peer that is up.
func (r *Rail) connected(op string, peer rail.PeerID) (*link, error) {
	l := r.links[peer]
	if l == nil || l.state != up {
		return nil, fmt.Errorf("%s: %s to peer %d: %w", r.Name(), op, peer, rail.ErrNotUp)
	}
	return l, nil
}

// Post implements [rail.Rail].
func (r *Rail) Post(peer rail.PeerID, ops []rail.Op) (n int, err error) {
	defer r.own()()
	l, err := r.connected("post", peer)
	if err != nil {
		return 0, err
	}
	for room := r.room(l, len(ops)); n < room; n++ {
		op := &ops[n]
		if err := r.check(op); err != nil {
			return n, err
		}
		if op.HasImm {
			if l.credit == 0 {
				break
			}
			l.credit--
		}
		l.post(*op)
	}
	r.touched = true
	return n, nil
}

// room is how many of so many operations can be posted.
func (r *Rail) room(l *link, ops int) int {
	c := &r.network.config
	room := min(ops, c.Depth-l.flying, c.MaxBatch)
	if c.PartialPosts && room > 0 {
		room = max(r.network.random.IntN(room+1), 1-l.flying)
	}
	return room
}

// check refuses what no NIC could be asked for.
func (r *Rail) check(op *rail.Op) error {
	atomic := op.Kind == rail.FetchAdd || op.Kind == rail.CompareSwap
	switch {
	case op.Length > r.network.config.MaxLength:
		return fmt.Errorf("%s: operation of %d bytes: at most %d are possible: %w", r.Name(), op.Length,
			r.network.config.MaxLength, syscall.EMSGSIZE)
	case op.Kind > rail.CompareSwap:
		return fmt.Errorf("%s: operation of kind %d: %w", r.Name(), op.Kind, errors.ErrUnsupported)
	case atomic && (op.Length != 8 || op.RemoteAddr%8 != 0):
		return fmt.Errorf("%s: atomic operation on %d bytes at %#x, not 8 at a multiple of 8: %w", r.Name(), op.Length,
			op.RemoteAddr, syscall.EINVAL)
	case op.HasImm && op.Kind != rail.Write:
		return fmt.Errorf("%s: immediate of an operation that is no write: %w", r.Name(), syscall.EINVAL)
	}
	return nil
}

// post sends an operation on its way.
func (l *link) post(op rail.Op) {
	n := l.rail.network
	f := &flight{link: l, op: op}
	if n.config.Script.Operation != nil {
		f.fault = n.config.Script.Operation(Operation{From: l.rail.address, To: l.address, N: l.posted, Op: op})
	}
	l.posted++
	if len(l.flights) >= 2*n.config.Depth {
		l.flights = slices.DeleteFunc(l.flights, func(f *flight) bool { return f.done })
	}
	l.flights = append(l.flights, f)
	l.flying++
	n.push(&packet{kind: request, from: l, to: l.peer, flight: f}, n.draw(n.config.Delay)+f.fault.Delay)
}

// Send implements [rail.Rail].
func (r *Rail) Send(peer rail.PeerID, data []byte) (sent bool, err error) {
	defer r.own()()
	l, err := r.connected("send", peer)
	switch {
	case err != nil:
		return false, err
	case len(data) > messageLimit:
		return false, fmt.Errorf("%s: message of %d bytes: at most %d are possible: %w", r.Name(), len(data), messageLimit,
			syscall.EMSGSIZE)
	case l.sends == messageDepth:
		return false, nil
	}
	l.sends++
	r.network.push(&packet{kind: message, from: l, to: l.peer, data: bytes.Clone(data)}, r.network.draw(r.network.config.Delay))
	r.touched = true
	return true, nil
}

// Turn implements [rail.Rail].
func (r *Rail) Turn(now time.Time, events []rail.Event) (n int, next time.Time) {
	defer r.own()()
	r.hear(now)
	r.network.advance()
	r.touched = false
	for _, p := range r.inbox {
		p.arrive()
	}
	r.inbox = r.inbox[:0]
	room := len(events)
	if r.slow > 0 {
		room = min(room, r.slow)
	}
	for n < min(room, len(r.events)) {
		events[n] = r.events[n].Event
		r.network.note(r, &events[n])
		r.told(&r.events[n])
		n++
	}
	r.events = r.events[:copy(r.events, r.events[n:])]
	return n, r.network.next()
}

// told follows up on an event that the engine takes.
func (r *Rail) told(e *event) {
	switch e.Kind {
	case rail.Immediate:
		e.link.owed++
		e.link.grant()
	case rail.Message:
		if sender := e.link.peer; sender != nil {
			sender.sends--
			sender.rail.wake()
		}
	}
}

// Arm implements [rail.Rail].
func (r *Rail) Arm() (ready bool) {
	defer r.own()()
	n := r.network
	if len(r.events) > 0 || len(r.inbox) > 0 || r.touched || len(n.packets) > 0 && !n.packets[0].due.After(n.now) {
		return true
	}
	r.armed = true
	return false
}

// notify ends the Wait of a rail that was armed.
func (r *Rail) notify() {
	if r.armed {
		r.armed = false
		select {
		case r.signal <- struct{}{}:
		default:
		}
	}
}

// wake has the rail's engine try again what the rail did not take.
func (r *Rail) wake() {
	r.touched = true
	r.notify()
}

// Wait implements [rail.Rail].
func (r *Rail) Wait(ctx context.Context) error {
	select {
	case <-r.signal:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close implements [rail.Rail].
func (r *Rail) Close() error {
	defer r.own()()
	r.die()
	return nil
}

// die ends the rail's links without telling their peers, who notice.
func (r *Rail) die() {
	if r.dead {
		return
	}
	r.dead = true
	for _, l := range r.sorted() {
		l.flush() // what nobody takes back ends with the rail
		l.settle()
		l.die(fmt.Errorf("%s: %w: this end was killed", l.address, rail.ErrPeerGone))
	}
	inbox := r.inbox
	r.inbox = nil
	for _, p := range inbox {
		p.arrive() // where it is not taken
	}
	if r.network.rails[r.address] == r {
		delete(r.network.rails, r.address)
	}
	r.network.nudge()
}
