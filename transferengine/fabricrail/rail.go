package fabricrail

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/process"
	"github.com/weftrdma/weft/transferengine/internal/handshake"
	"github.com/weftrdma/weft/transferengine/internal/liveness"
	"github.com/weftrdma/weft/transferengine/internal/outbox"
	"github.com/weftrdma/weft/transferengine/rail"
)

// Rail is an open endpoint. It implements [rail.Rail].
type Rail struct {
	life    life.Object
	memory  life.Object // of the domain, on which registrations may outlive the rail
	cfg     Config
	name    string
	caps    rail.Caps
	traits  traits
	self    address
	process process.ID // this one

	fabric    *fabric.Fabric
	domain    *fabric.Domain
	transport transport
	queues    []*queue

	handshake  *handshake.Machine[address, half]
	mailbox    mailbox
	operations operations
	conns      []*conn // by slot; nil where free
	freeSlots  []uint32
	tags       []tag                 // by slot, of its last connection
	peers      map[rail.PeerID]*conn // each peer's current connection
	bySource   map[fabric.Addr]*conn // likewise, where the provider tells who wrote
	dying      []*conn
	room       int // completions that the queue has room for, beyond those of the connections that there are

	// One turn's.
	now         time.Time
	turns       uint64
	spins       uint64
	woken       bool    // by the transport, for this turn
	touched     bool    // since the last turn
	starved     bool    // Post took less than it could, for this turn had its share
	owed        []*conn // whose peers are to be granted something
	outbox      outbox.Outbox
	vigil       liveness.Vigil
	fences      fences
	doubts      bool // a peer seems to be gone
	completions [64]fabric.Completion
	at, end     int    // of these, the next that is to be taken, and how many there are
	from        *queue // that they are of
	next        int    // the queue to look at next
	ops         []fabric.Op
	segs        []fabric.Seg

	sleeping sleeper
	failed   error         // of the last look at the queue
	ignored  atomic.Uint64 // messages and immediates that are of no connection

}

var (
	_ rail.Rail    = (*Rail)(nil)
	_ rail.Spinner = (*Rail)(nil)
)

// Open implements [rail.Opener].
func (cfg Config) Open(incarnation rail.Incarnation) (rail.Rail, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r := &Rail{cfg: cfg, name: "fabric:" + cfg.Provider,
		peers: make(map[rail.PeerID]*conn), bySource: make(map[fabric.Addr]*conn),
		ops: make([]fabric.Op, 0, maxPosted), segs: make([]fabric.Seg, 0, maxPosted),
		room: cfg.CompletionDepth - ownCompletions}
	r.transport = &datagram{r: r}
	if cfg.connected() {
		r.transport = &connected{r: r}
		r.room = maxSlots * cfg.perPeer() // each peer has a queue of its own
	}
	err := r.setUp(incarnation)
	if err == nil {
		err = r.life.Init("rail "+r.name, nil, r.free)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("fabric:%s: %w", cfg.Provider, cfg.explain(err)), r.free())
	}
	return r, nil
}

func (r *Rail) setUp(incarnation rail.Incarnation) (err error) {
	r.process = process.This()
	info, err := r.choose()
	if err != nil {
		return err
	}
	r.name = "fabric:" + info.Provider
	if r.fabric, err = fabric.OpenFabric(info); err != nil {
		return err
	}
	if r.domain, err = r.fabric.OpenDomain(info); err != nil {
		return errors.Join(err, r.fabric.Close())
	}
	if err = r.memory.Init("memory of "+r.name, nil, r.freeMemory); err != nil {
		return err
	}
	name, err := r.transport.open(info)
	if err != nil {
		return err
	}
	r.sleeping.open(r.transport)
	if len(name) > maxName {
		return fmt.Errorf("the endpoint's name has %d bytes, more than %d", len(name), maxName)
	}
	if at := r.cfg.Advertise; at.IsValid() {
		name = socketName(at)
	}
	r.self = address{provider: info.Provider, name: string(name), text: nameText(name), key: random() | 1}
	if err := r.mailbox.open(r); err != nil {
		return err
	}
	if err := r.operations.open(r.domain, r.caps.Atomics); err != nil {
		return err
	}
	r.vigil = liveness.Vigil{Heartbeat: r.cfg.Heartbeat, Timeout: r.cfg.PeerTimeout}
	r.handshake = handshake.New(handshake.Config[address, half]{
		Wire: &wire, Self: r.self, Incarnation: incarnation, Nonce: random, Effects: railEffects{r},
		Timing: handshake.Timing{First: r.cfg.HandshakeInterval, Most: 20 * r.cfg.HandshakeInterval, Retry: time.Millisecond,
			Accept: r.cfg.AcceptTimeout},
		OnlyCalled: r.cfg.OnlyCalled,
	})
	return nil
}

func random() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.NativeEndian.Uint64(b[:])
}

// free gives everything back. It is also what Open does with what it made before an error.
func (r *Rail) free() error {
	r.cutOff()
	var errs []error
	if r.transport != nil {
		errs = append(errs, r.transport.cutOff())
		r.fences.pass(math.MaxUint64)
	}
	for _, c := range r.conns {
		if c != nil {
			c.signs.Close()
		}
	}
	errs = append(errs, r.mailbox.close(), r.operations.close())
	if r.transport != nil {
		errs = append(errs, r.transport.close())
	}
	errs = append(errs, r.memory.CloseAfterChildren())
	return errors.Join(errs...)
}

func (r *Rail) freeMemory() error { return errors.Join(r.domain.Close(), r.fabric.Close()) }

// Close implements [rail.Rail].
func (r *Rail) Close() error { return r.life.Close() }

// Name implements [rail.Rail].
func (r *Rail) Name() string { return r.name }

// Caps implements [rail.Rail].
func (r *Rail) Caps() rail.Caps { return r.caps }

// Address implements [rail.Rail].
func (r *Rail) Address() []byte { return r.self.append(nil) }

// Ignored returns how many messages were malformed, forged, or came when they could change nothing. None of them was answered.
func (r *Rail) Ignored() uint64 { return r.handshake.Ignored() + r.ignored.Load() }

// Arm implements [rail.Rail].
func (r *Rail) Arm() (ready bool) {
	if r.busy() {
		return true
	}
	r.sleeping.arm(len(r.peers) > 0)
	return false
}

// busy tells whether a turn has something to do, whatever the queue has.
func (r *Rail) busy() bool {
	return r.touched || r.starved || r.sleeping.woke.Load() || r.outbox.Holding() || r.at < r.end || r.failed != nil
}

// looksAtTransport is how many looks at the queues, of up to 10 µs each, there are to one at the transport itself.
const looksAtTransport = 64

// Spin implements [rail.Spinner]: one crossing, however often it looks.
func (r *Rail) Spin(limit time.Duration, call *atomic.Uint64, was uint64) (ready bool) {
	if r.busy() {
		return true
	}
	if r.spins++; r.spins%looksAtTransport == 0 || len(r.queues) == 0 {
		if r.touched = r.transport.ready(); r.touched {
			return true
		}
	}
	for range r.queues {
		q := r.nextQueue()
		n, err := q.cq.PollSpinWhile(r.completions[:], limit/time.Duration(len(r.queues)), call, was)
		if r.took(q, n); n > 0 || err != nil {
			r.failed = err
			return true
		}
	}
	return false
}

// Wait implements [rail.Rail].
func (r *Rail) Wait(ctx context.Context) error { return r.sleeping.wait(ctx) }
