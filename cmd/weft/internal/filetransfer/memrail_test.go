package filetransfer_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/transferengine/rail"
)

// network joins rails of this process that copy memory, and report what happened in a random order as far as package
// rail allows.
type network struct {
	mu     sync.Mutex
	random *rand.Rand
	rails  map[string]*memRail
	last   uint64 // key or peer given out
	flip   bool   // a bit of every write
}

func newNetwork(t *testing.T) *network {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return &network{random: rand.New(rand.NewPCG(seed, 0)), rails: make(map[string]*memRail)}
}

// memRail is a rail.Rail. All is under network.mu.
type memRail struct {
	network     *network
	address     string
	incarnation rail.Incarnation
	links       map[rail.PeerID]*memLink
	memory      map[uint64][]byte
	events      []rail.Event
	armed, dead bool
	signal      chan struct{}
}

// memLink is one side of a connection.
type memLink struct {
	id   rail.PeerID
	rail *memRail
	back *memLink
}

// at is the opener of a rail with the address.
func (n *network) at(address string) rail.Opener { return memOpener{n, address} }

type memOpener struct {
	network *network
	address string
}

func (o memOpener) Open(i rail.Incarnation) (rail.Rail, error) {
	o.network.mu.Lock()
	defer o.network.mu.Unlock()
	r := &memRail{network: o.network, address: o.address, incarnation: i, links: make(map[rail.PeerID]*memLink),
		memory: make(map[uint64][]byte), signal: make(chan struct{}, 1)}
	o.network.rails[o.address] = r
	return r, nil
}

// cut takes a rail off the network; its peers notice.
func (n *network) cut(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.rails[address]
	r.dead = true
	for id := range r.links {
		r.unlink(id, rail.ErrPeerGone)
	}
}

func (r *memRail) Name() string    { return "mem:" + r.address }
func (r *memRail) Address() []byte { return []byte(r.address) }
func (r *memRail) Caps() rail.Caps {
	return rail.Caps{MaxLength: 1 << 30, MaxBatch: 8, Completion: rail.Responsible, ImmSource: true}
}

type memRegistration struct {
	rail *memRail
	key  uint64
}

func (r *memRail) Register(memory []byte, _ rail.Access) (rail.Registration, error) {
	r.network.mu.Lock()
	defer r.network.mu.Unlock()
	r.network.last++
	r.memory[r.network.last] = memory
	return memRegistration{r, r.network.last}, nil
}

func (g memRegistration) LocalKey() uint64  { return g.key }
func (g memRegistration) RemoteKey() uint64 { return g.key }
func (g memRegistration) Close() error {
	g.rail.network.mu.Lock()
	defer g.rail.network.mu.Unlock()
	delete(g.rail.memory, g.key)
	return nil
}

// find returns registered memory.
func (r *memRail) find(key, addr, length uint64) ([]byte, bool) {
	memory := r.memory[key]
	if memory == nil || addr < mem.Addr(memory) || addr-mem.Addr(memory)+length > uint64(len(memory)) {
		return nil, false
	}
	return memory[addr-mem.Addr(memory):][:length], true
}

func (r *memRail) Connect(_ time.Time, address []byte, _ time.Time) (rail.PeerID, error) {
	r.network.mu.Lock()
	defer r.network.mu.Unlock()
	other := r.network.rails[string(address)]
	if other == nil || other.dead || r.dead {
		return 0, rail.ErrUnreachable
	}
	for id, l := range r.links {
		if l.back.rail == other {
			return id, nil
		}
	}
	a, b := &memLink{rail: r}, &memLink{rail: other}
	a.back, b.back = b, a
	for _, l := range []*memLink{a, b} {
		r.network.last++
		l.id = rail.PeerID(r.network.last)
		l.rail.links[l.id] = l
		l.rail.report(rail.Event{Kind: rail.PeerUp, Peer: l.id})
	}
	return a.id, nil
}

func (r *memRail) Disconnect(_ time.Time, peer rail.PeerID) {
	r.network.mu.Lock()
	defer r.network.mu.Unlock()
	r.unlink(peer, net.ErrClosed)
}

// unlink ends a connection on both sides.
func (r *memRail) unlink(id rail.PeerID, err error) {
	l := r.links[id]
	if l == nil {
		return
	}
	delete(r.links, id)
	delete(l.back.rail.links, l.back.id)
	r.report(rail.Event{Kind: rail.PeerDown, Peer: id, Err: err})
	if errors.Is(err, net.ErrClosed) {
		err = rail.ErrPeerClosed
	}
	l.back.rail.report(rail.Event{Kind: rail.PeerDown, Peer: l.back.id, Err: err})
}

func (r *memRail) Peer(peer rail.PeerID) rail.PeerInfo {
	r.network.mu.Lock()
	defer r.network.mu.Unlock()
	l := r.links[peer]
	if l == nil {
		return rail.PeerInfo{}
	}
	other := l.back.rail
	return rail.PeerInfo{Incarnation: other.incarnation, Address: []byte(other.address), Name: other.address}
}

func (r *memRail) Post(peer rail.PeerID, writes []rail.Op) (int, error) {
	r.network.mu.Lock()
	defer r.network.mu.Unlock()
	l := r.links[peer]
	if l == nil {
		return 0, rail.ErrPeerGone
	}
	for _, w := range writes {
		r.report(rail.Event{Kind: rail.Completed, Peer: peer, Token: w.Token, Err: l.write(w)})
	}
	return len(writes), nil
}

func (r *memRail) Send(rail.PeerID, []byte) (bool, error) { return false, errors.ErrUnsupported }

func (l *memLink) write(w rail.Op) error {
	to, ok := l.back.rail.find(w.RemoteKey, w.RemoteAddr, w.Length)
	if !ok {
		return rail.ErrAccess
	}
	if w.Length > 0 {
		from, ok := l.rail.find(w.LocalKey, w.LocalAddr, w.Length)
		if !ok {
			return errors.New("local memory is not registered")
		}
		copy(to, from)
		if l.rail.network.flip {
			to[w.Length/2] ^= 1
		}
	}
	if w.HasImm {
		l.back.rail.report(rail.Event{Kind: rail.Immediate, Peer: l.back.id, Imm: w.Imm})
	}
	return nil
}

// report queues an event: those of writes before any other of their kind, but after whatever else there is.
func (r *memRail) report(e rail.Event) {
	at := len(r.events)
	if e.Kind == rail.Completed || e.Kind == rail.Immediate {
		first := at
		for first > 0 && (r.events[first-1].Kind == rail.Completed || r.events[first-1].Kind == rail.Immediate) {
			first--
		}
		at = first + r.network.random.IntN(at-first+1)
	}
	r.events = slices.Insert(r.events, at, e)
	if r.armed {
		r.armed = false
		select {
		case r.signal <- struct{}{}:
		default:
		}
	}
}

func (r *memRail) Turn(_ time.Time, events []rail.Event) (int, time.Time) {
	r.network.mu.Lock()
	defer r.network.mu.Unlock()
	n := copy(events, r.events)
	r.events = slices.Delete(r.events, 0, n)
	return n, time.Time{}
}

func (r *memRail) Arm() bool {
	r.network.mu.Lock()
	defer r.network.mu.Unlock()
	r.armed = len(r.events) == 0
	return !r.armed
}

func (r *memRail) Wait(ctx context.Context) error {
	select {
	case <-r.signal:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *memRail) Close() error {
	r.network.mu.Lock()
	defer r.network.mu.Unlock()
	r.dead = true
	return nil
}
