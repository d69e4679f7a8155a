package transferengine_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
)

// fabric joins the rails of one test in memory. Writes land in any order, after a delay if there is one.
type fabric struct {
	t    testing.TB
	caps rail.Caps

	// Set before it is used.
	delay        time.Duration // writes and connections take up to so long
	depth        int           // writes in flight per peer, at most
	partial      bool          // Post accepts as many as it likes
	targetDriven bool          // writes land in turns of their target alone, as with manual progress
	broken       bool          // Wait gives an error
	fault        func(w rail.Op) error

	mu      sync.Mutex
	random  *rand.Rand
	ports   map[string]*port
	flights []flight
	last    uint64 // peer or key given out
}

// flight is a write, or a connection coming up, on its way.
type flight struct {
	due   time.Time
	link  *link // of the sender
	write rail.Op
	up    bool // no write: the link comes up
	known bool // its target has turned since, and so knows when it is due
}

// port is one rail.
type port struct {
	fabric      *fabric
	address     string
	incarnation rail.Incarnation
	owned       atomic.Bool
	signal      chan struct{}

	// Under fabric.mu.
	now    time.Time
	links  map[rail.PeerID]*link
	keys   map[uint64][]byte
	events []rail.Event
	armed  bool
	dead   bool
	posts  int
}

// link is one side of a connection.
type link struct {
	id       rail.PeerID
	port     *port
	remote   *port
	back     *link
	up       bool
	deadline time.Time // of a connection to nobody
	flying   int
}

func newFabric(t testing.TB, seed uint64) *fabric {
	return &fabric{t: t, depth: 16, random: rand.New(rand.NewPCG(seed, 0)), ports: make(map[string]*port),
		caps: rail.Caps{MaxLength: 1 << 20, MaxBatch: 8, Completion: rail.Responsible, ImmSource: true}}
}

// at is the opener of a rail with the address.
func (f *fabric) at(address string) rail.Opener { return opener{f, address} }

type opener struct {
	fabric  *fabric
	address string
}

func (o opener) Open(i rail.Incarnation) (rail.Rail, error) {
	p := &port{fabric: o.fabric, address: o.address, incarnation: i, signal: make(chan struct{}, 1),
		links: make(map[rail.PeerID]*link), keys: make(map[uint64][]byte)}
	o.fabric.mu.Lock()
	defer o.fabric.mu.Unlock()
	o.fabric.ports[o.address] = p
	return p, nil
}

// own checks that one goroutine at a time uses the rail.
func (p *port) own() func() {
	if p.owned.Swap(true) {
		p.fabric.t.Errorf("%s: two goroutines use the rail", p.address)
	}
	p.fabric.mu.Lock()
	return func() {
		p.fabric.mu.Unlock()
		p.owned.Store(false)
	}
}

func (p *port) Name() string    { return "fake:" + p.address }
func (p *port) Caps() rail.Caps { return p.fabric.caps }
func (p *port) Address() []byte { return []byte(p.address) }

func (p *port) Register(memory []byte, _ rail.Access) (rail.Registration, error) {
	p.fabric.mu.Lock()
	defer p.fabric.mu.Unlock()
	p.fabric.last++
	p.keys[p.fabric.last] = memory
	return registration{p, p.fabric.last}, nil
}

type registration struct {
	port *port
	key  uint64
}

func (r registration) LocalKey() uint64  { return r.key }
func (r registration) RemoteKey() uint64 { return r.key }

func (r registration) Close() error {
	r.port.fabric.mu.Lock()
	defer r.port.fabric.mu.Unlock()
	for _, f := range r.port.fabric.flights {
		if !f.up && f.link.port == r.port && f.write.LocalKey == r.key {
			r.port.fabric.t.Errorf("%s: memory deregistered under a write", r.port.address)
		}
	}
	delete(r.port.keys, r.key)
	return nil
}

func (p *port) Connect(now time.Time, address []byte, deadline time.Time) (rail.PeerID, error) {
	defer p.own()()
	remote := p.fabric.ports[string(address)]
	for _, l := range p.links {
		if l.remote == remote && remote != nil {
			return l.id, nil
		}
	}
	l := p.link(remote)
	if remote == nil || remote.dead {
		l.remote, l.deadline = nil, deadline
		return l.id, nil
	}
	l.back = remote.link(p)
	l.back.back = l
	p.fabric.flights = append(p.fabric.flights,
		flight{due: p.fabric.due(now), link: l, up: true}, flight{due: p.fabric.due(now), link: l.back, up: true})
	remote.notify()
	return l.id, nil
}

func (p *port) link(remote *port) *link {
	p.fabric.last++
	l := &link{id: rail.PeerID(p.fabric.last), port: p, remote: remote}
	p.links[l.id] = l
	return l
}

func (f *fabric) due(now time.Time) time.Time {
	if f.delay == 0 {
		return now
	}
	return now.Add(time.Duration(f.random.Int64N(int64(f.delay))))
}

func (p *port) Disconnect(_ time.Time, id rail.PeerID) {
	defer p.own()()
	if l := p.links[id]; l != nil {
		l.cut(net.ErrClosed)
		if l.back != nil {
			l.back.cut(rail.ErrPeerClosed)
		}
	}
}

// cut takes a link down. What is in flight on it either lands first or never, as the fabric likes.
func (l *link) cut(err error) {
	if l.port.links[l.id] == nil {
		return
	}
	f := l.port.fabric
	f.flights = slices.DeleteFunc(f.flights, func(fl flight) bool {
		if fl.link == l && !fl.up {
			l.port.event(rail.Event{Kind: rail.Completed, Peer: l.id, Token: fl.write.Token, Err: rail.ErrFlushed})
		}
		return fl.link == l
	})
	delete(l.port.links, l.id)
	l.port.event(rail.Event{Kind: rail.PeerDown, Peer: l.id, Err: err})
}

func (p *port) Peer(id rail.PeerID) rail.PeerInfo {
	p.fabric.mu.Lock()
	defer p.fabric.mu.Unlock()
	l := p.links[id]
	if l == nil {
		return rail.PeerInfo{}
	}
	return rail.PeerInfo{Incarnation: l.remote.incarnation, Address: []byte(l.remote.address), Name: l.remote.address}
}

func (p *port) Post(id rail.PeerID, writes []rail.Op) (n int, err error) {
	defer p.own()()
	l := p.links[id]
	if l == nil || !l.up {
		return 0, rail.ErrPeerGone
	}
	p.posts++
	room := min(len(writes), p.fabric.depth-l.flying, p.fabric.caps.MaxBatch)
	if p.fabric.partial && room > 0 {
		room = max(p.fabric.random.IntN(room+1), 1-l.flying)
	}
	for ; n < room; n++ {
		if writes[n].Length > p.fabric.caps.MaxLength {
			return n, syscall.EMSGSIZE
		}
		l.flying++
		p.fabric.flights = append(p.fabric.flights, flight{due: p.fabric.due(p.now), link: l, write: writes[n]})
	}
	if n > 0 {
		l.remote.notify()
	}
	return n, nil
}

func (p *port) Send(id rail.PeerID, message []byte) (bool, error) {
	defer p.own()()
	l := p.links[id]
	if l == nil || !l.up {
		return false, rail.ErrPeerGone
	}
	l.remote.event(rail.Event{Kind: rail.Message, Peer: l.back.id, Data: message})
	return true, nil
}

func (p *port) Turn(now time.Time, events []rail.Event) (n int, next time.Time) {
	defer p.own()()
	p.now = now
	if !p.dead {
		p.land()
	}
	for _, id := range slices.Sorted(maps.Keys(p.links)) {
		l := p.links[id]
		if !l.deadline.IsZero() && !l.deadline.After(now) {
			l.cut(rail.ErrUnreachable)
		} else if !l.deadline.IsZero() {
			next = l.deadline
		}
	}
	n = copy(events, p.events)
	p.events = slices.Delete(p.events, 0, n)
	for i := range p.fabric.flights {
		f := &p.fabric.flights[i]
		if p.lands(*f) && (next.IsZero() || f.due.Before(next)) {
			next = f.due
		}
		f.known = f.known || f.link.remote == p
	}
	return n, next
}

// lands tells whether a flight may land in the port's turns.
func (p *port) lands(f flight) bool {
	if f.up {
		return f.link.port == p
	}
	return f.link.back.up && (f.link.remote == p || f.link.port == p && !p.fabric.targetDriven)
}

// land lands what is due, in any order that the caps allow.
func (p *port) land() {
	f := p.fabric
	var landing []flight
	f.flights = slices.DeleteFunc(f.flights, func(fl flight) bool {
		take := p.lands(fl) && !fl.due.After(p.now)
		if take {
			landing = append(landing, fl)
		}
		return take
	})
	if !f.caps.Ordered {
		f.random.Shuffle(len(landing), func(i, j int) { landing[i], landing[j] = landing[j], landing[i] })
	}
	for _, fl := range landing {
		if fl.up {
			fl.link.up = true
			fl.link.remote.notify() // what it sent already can land
			p.event(rail.Event{Kind: rail.PeerUp, Peer: fl.link.id})
			continue
		}
		fl.link.flying--
		err := f.place(fl)
		fl.link.port.event(rail.Event{Kind: rail.Completed, Peer: fl.link.id, Token: fl.write.Token, Err: err})
	}
}

// place does a write. Its immediate comes after its bytes.
func (f *fabric) place(fl flight) error {
	w := &fl.write
	if f.fault != nil {
		if err := f.fault(*w); err != nil {
			return err
		}
	}
	to, ok := find(fl.link.remote.keys, w.RemoteKey, w.RemoteAddr, w.Length)
	if !ok {
		return rail.ErrAccess
	}
	if w.Length > 0 {
		from, ok := find(fl.link.port.keys, w.LocalKey, w.LocalAddr, w.Length)
		if !ok {
			return fmt.Errorf("local memory: %w", rail.ErrAccess)
		}
		copy(to, from)
	}
	if w.HasImm {
		fl.link.remote.event(rail.Event{Kind: rail.Immediate, Peer: fl.link.back.id, Imm: w.Imm})
	}
	return nil
}

func find(keys map[uint64][]byte, key, addr, length uint64) ([]byte, bool) {
	memory := keys[key]
	offset := addr - mem.Addr(memory)
	if memory == nil || offset > uint64(len(memory)) || length > uint64(len(memory))-offset {
		return nil, false
	}
	return memory[offset : offset+length], true
}

// event queues an event.
func (p *port) event(e rail.Event) {
	p.events = append(p.events, e)
	p.notify()
}

func (p *port) notify() {
	if p.armed {
		p.armed = false
		select {
		case p.signal <- struct{}{}:
		default:
		}
	}
}

func (p *port) Arm() bool {
	defer p.own()()
	due := slices.ContainsFunc(p.fabric.flights, func(f flight) bool {
		return p.lands(f) && (!f.due.After(p.now) || f.link.remote == p && !f.known)
	})
	if len(p.events) > 0 || due && !p.dead {
		return true
	}
	p.armed = true
	return false
}

func (p *port) Wait(ctx context.Context) error {
	if p.fabric.broken {
		return syscall.EIO
	}
	select {
	case <-p.signal:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *port) Close() error {
	defer p.own()()
	if len(p.keys) > 0 {
		return syscall.EBUSY
	}
	p.die()
	return nil
}

// die ends all connections. Both sides learn of it, so that a test can close the dead engine too.
func (p *port) die() {
	p.dead = true
	for _, id := range slices.Sorted(maps.Keys(p.links)) {
		l := p.links[id]
		if l.back != nil {
			l.back.cut(rail.ErrPeerGone)
		}
		l.cut(rail.ErrPeerGone)
	}
	if p.fabric.ports[p.address] == p {
		delete(p.fabric.ports, p.address)
	}
}

// kill ends the rail at the address as if its process had died.
func (f *fabric) kill(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ports[address].die()
}

// awaitSleep returns when the engine's rail is armed, which is the last thing before an engine sleeps.
func (f *fabric) awaitSleep(e *transferengine.Engine) {
	for armed := false; !armed && !f.t.Failed(); runtime.Gosched() {
		f.mu.Lock()
		for _, p := range f.ports {
			armed = armed || p.incarnation == e.Address().Incarnation() && p.armed
		}
		f.mu.Unlock()
	}
}
