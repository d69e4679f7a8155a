package simrail

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/weftrdma/weft/transferengine/rail"
)

// Config says how a network behaves. Its zero value delivers everything at once, in any order.
type Config struct {
	// Seed decides everything that is left to chance; 0 is a seed of the network's choice (see [Network.Seed]).
	Seed uint64
	// Delay is the longest that a packet takes; how long each takes is drawn.
	Delay time.Duration
	// Ordered keeps the packets from one rail to another in order, as an RC queue pair does; rail.Caps says so.
	Ordered bool
	// TargetDriven has packets land in turns of their target alone, as with providers of manual progress.
	TargetDriven bool
	// PartialPosts has Post accept as many operations as chance decides.
	PartialPosts bool
	// CopyEnds, if not 0, copies only so many bytes at either end of an operation: for transfers larger than memory.
	CopyEnds uint64

	// MaxLength is the largest operation in bytes; 0 is 1 GiB.
	MaxLength uint64
	// MaxBatch is the most operations in one Post; 0 is 64.
	MaxBatch int
	// Depth is how many operations to one peer can be in flight; 0 is 256.
	Depth int
	// Immediates is how many immediates of one peer a rail takes in while no turn is taken; 0 is 256.
	Immediates int
	// NoImmSource leaves unsaid who sent an immediate.
	NoImmSource bool
	// NoRecall leaves the operations of a lost peer in flight until the peer answers them, as reliable datagrams do.
	NoRecall bool
	// DeathWithin is the longest until a peer that died or was cut off is given up, and that a farewell is waited for; 0 is
	// 10 ms.
	DeathWithin time.Duration

	// Script decides over single packets.
	Script Script
}

// Script decides over single packets. Its functions are called with the network locked: they must not call it.
type Script struct {
	// Operation, if not nil, is asked about every operation when it is posted.
	Operation func(Operation) Fault
	// Handshake, if not nil, is asked how many copies of a hello or welcome go out: 0 loses it.
	Handshake func(Handshake) (copies int)
}

// Operation is an operation that a rail was given.
type Operation struct {
	From, To string // addresses
	N        int    // counts those from From to To, from 0
	Op       rail.Op
}

// Fault is what becomes of an operation. Its zero value is that all goes well.
type Fault struct {
	// Err is what the operation completes with. Nothing of it lands, unless Delivered is set: then its acknowledgement is
	// what was lost.
	Err       error
	Delivered bool
	// Break takes the connection down by Err, as an RC queue pair that failed.
	Break bool
	// Corrupt has a bit of a write be wrong where it lands, as no NIC notices once the bytes have left it.
	Corrupt bool
	// Delay comes on top of Config.Delay.
	Delay time.Duration
}

// Handshake is a packet of a connection in the making.
type Handshake struct {
	From, To string // addresses
	N        int    // counts those of the network, from 0
}

const (
	maxImmediates = 1 << 20
	messageLimit  = rail.MinSend
	messageDepth  = 16
	helloInterval = time.Millisecond
)

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	orDefault(&c.Seed, rand.Uint64())
	orDefault(&c.MaxLength, 1<<30)
	orDefault(&c.MaxBatch, 64)
	orDefault(&c.Depth, 256)
	orDefault(&c.Immediates, 256)
	orDefault(&c.DeathWithin, 10*time.Millisecond)
	return c
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate checks a Config with its defaults filled in.
func (c *Config) validate() error {
	switch {
	case c.MaxBatch < 1 || c.Depth < 1:
		return fmt.Errorf("simrail: MaxBatch %d or Depth %d is less than 1: %w", c.MaxBatch, c.Depth, syscall.EINVAL)
	case c.Immediates < 1 || c.Immediates > maxImmediates:
		return fmt.Errorf("simrail: Immediates is %d: 1 to %d are possible: %w", c.Immediates, maxImmediates, syscall.EINVAL)
	case c.Delay < 0 || c.DeathWithin < 0:
		return fmt.Errorf("simrail: Delay %v or DeathWithin %v is negative: %w", c.Delay, c.DeathWithin, syscall.EINVAL)
	}
	return nil
}

// Network joins rails. All its methods may be called by any goroutine.
type Network struct {
	config Config
	err    error // of the config

	mu         sync.Mutex
	random     *rand.Rand
	now        time.Time // the latest that a turn said
	rails      map[string]*Rail
	packets    packetHeap
	parked     []*packet // that wait for a cut to heal
	cuts       map[[2]string]uint64
	cutCount   uint64
	last       uint64 // number given out, of a rail, peer or key
	sequence   uint64 // of packets
	handshakes int
	trace      uint64 // see Hash
	violations []error
}

// NewNetwork makes a network. What is wrong with the config is the error of opening a rail.
func NewNetwork(config Config) *Network {
	n := &Network{config: config.withDefaults(), rails: make(map[string]*Rail), cuts: make(map[[2]string]uint64)}
	n.err = n.config.validate()
	n.random = rand.New(rand.NewPCG(n.config.Seed, 0))
	return n
}

// Seed is what replays a run of engines that a [Run] drove.
func (n *Network) Seed() uint64 { return n.config.Seed }

// Rail is the opener of a rail with the address, any text of at most [rail.MaxAddress] bytes. A rail that is opened at the
// address of another takes its place, as a process that was restarted does.
func (n *Network) Rail(address string) rail.Opener { return opener{n, address} }

// Err tells of everything that whoever uses the rails did and package rail forbids, and of methods of the network that named a
// rail which is not there.
func (n *Network) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(n.violations...)
}

// Hash sums up what happened: every event that a rail reported, in their order, with its time. Runs of one seed have the same.
func (n *Network) Hash() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.trace
}

// note adds an event to the trace.
func (n *Network) note(r *Rail, e *rail.Event) {
	failed := uint64(0)
	if e.Err != nil { // whose text may have addresses of memory
		failed = 1
	}
	for _, word := range [...]uint64{r.id, uint64(n.now.UnixNano()), uint64(e.Kind), uint64(e.Peer), e.Token, uint64(e.Imm), failed,
		uint64(len(e.Data))} {
		n.trace = (n.trace ^ word) * 0x9e3779b97f4a7c15
		n.trace ^= n.trace >> 32
	}
}

// violated keeps what somebody did and must not, for Err, and returns it.
func (n *Network) violated(format string, args ...any) error {
	err := fmt.Errorf("simrail: "+format, args...)
	n.violations = append(n.violations, err)
	return err
}

// SetDelay changes Config.Delay for packets that are yet to be sent.
func (n *Network) SetDelay(delay time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.config.Delay = delay
}

// Kill ends the process of the rail at the address: its peers notice within DeathWithin, and nothing that was sent to it
// lands any more. The rail's own engine is told that all its peers are gone, so that a test can close it.
func (n *Network) Kill(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.rail("kill", address); r != nil {
		r.die()
	}
}

// Cut cuts the connection between two addresses. What is on its way waits; after DeathWithin either end gives up the other.
func (n *Network) Cut(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cutCount++
	n.cuts[between(a, b)] = n.cutCount
	for _, r := range []*Rail{n.rails[a], n.rails[b]} {
		if r == nil {
			continue
		}
		for _, l := range r.sorted() {
			if l.address == a || l.address == b {
				n.push(&packet{kind: silence, to: l, cut: n.cutCount}, n.config.DeathWithin/2+n.draw(n.config.DeathWithin/2))
			}
		}
	}
	n.nudge()
}

// Heal ends a cut. What waited for it arrives as if it was sent now, or at once if the network is ordered.
func (n *Network) Heal(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cuts, between(a, b))
	parked := n.parked
	n.parked = nil
	for _, p := range parked {
		if n.config.Ordered { // it stays ahead of what was sent after it
			heap.Push(&n.packets, p)
		} else {
			n.push(p, n.draw(n.config.Delay))
		}
	}
	n.nudge()
}

// Exhaust has the rail at the address grant no more immediates, or grant again what it held back.
func (n *Network) Exhaust(address string, exhausted bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.rail("exhaust", address)
	if r == nil {
		return
	}
	r.exhausted = exhausted
	for _, l := range r.sorted() {
		l.grant()
	}
	n.nudge()
}

// Slow has the rail at the address report at most so many events in a turn; 0 is as many as there are.
func (n *Network) Slow(address string, events int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.rail("slow", address); r != nil {
		r.slow = events
	}
}

// rail returns the rail at an address for a test that does something to it. A test that misses it would show nothing.
func (n *Network) rail(what, address string) *Rail {
	r := n.rails[address]
	if r == nil {
		_ = n.violated("%s: there is no rail at %q", what, address)
	}
	return r
}

// between is the name of a connection.
func between(a, b string) [2]string {
	if b < a {
		a, b = b, a
	}
	return [2]string{a, b}
}

// draw is a random time up to the limit.
func (n *Network) draw(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(n.random.Int64N(int64(limit)))
}

// nudge has every rail take a turn, since the next packet may be due sooner than it knew.
func (n *Network) nudge() {
	for _, r := range n.rails {
		r.wake()
	}
}

// packetHeap has the packets on their way: what is due first comes first, and of those that are due together any.
type packetHeap []*packet

func (h packetHeap) Len() int { return len(h) }

func (h packetHeap) Less(i, j int) bool {
	if !h[i].due.Equal(h[j].due) {
		return h[i].due.Before(h[j].due)
	}
	return h[i].rank < h[j].rank
}

func (h packetHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements [heap.Interface].
func (h *packetHeap) Push(x any) { *h = append(*h, x.(*packet)) }

// Pop implements [heap.Interface].
func (h *packetHeap) Pop() any {
	old := *h
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return p
}

// push sends a packet, which arrives after the delay.
func (n *Network) push(p *packet, delay time.Duration) {
	n.sequence++
	p.due, p.rank = n.now.Add(delay), n.random.Uint64()
	if from := p.from; n.config.Ordered && from != nil {
		if p.due.Before(from.lastDue) {
			p.due = from.lastDue
		}
		from.lastDue, p.rank = p.due, n.sequence
	}
	heap.Push(&n.packets, p)
}

// advance lets everything arrive that is due.
func (n *Network) advance() {
	for len(n.packets) > 0 && !n.packets[0].due.After(n.now) {
		p := heap.Pop(&n.packets).(*packet)
		if _, cut := n.cuts[p.path()]; cut && p.crosses() {
			n.parked = append(n.parked, p)
			continue
		}
		if at := p.target(); n.config.TargetDriven && at != nil && !at.dead {
			at.inbox = append(at.inbox, p)
			at.notify()
			continue
		}
		p.arrive()
	}
}

// next is when the next packet is due, the zero time if there is none.
func (n *Network) next() time.Time {
	if len(n.packets) == 0 {
		return time.Time{}
	}
	return n.packets[0].due
}
