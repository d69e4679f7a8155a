package verbsrail

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/process"
	"github.com/weftrdma/weft/transferengine/internal/handshake"
	"github.com/weftrdma/weft/transferengine/internal/liveness"
	"github.com/weftrdma/weft/transferengine/internal/outbox"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/verbs"
)

// Rail is an open device. It implements [rail.Rail].
type Rail struct {
	life    life.Object
	memory  life.Object // of the protection domain, on which registrations may outlive the rail
	cfg     Config
	name    string
	caps    rail.Caps
	address []byte

	ctx *verbs.Context
	pd  *verbs.PD
	cq  *verbs.CQ
	gid verbs.GIDEntry

	datagrams datagrams
	handshake *handshake.Machine[address, half]
	process   process.ID // this one

	conns      []*conn // by slot; nil where free
	freeSlots  []uint32
	generation uint32
	peers      map[rail.PeerID]*conn // each peer's current connection
	recent     *conn                 // posted to last
	dying      []*conn
	depth      int // of the completion queue
	room       int // completions that the queue has room for, beyond those of the connections that there are
	freed      int // more room, once the queue has been seen empty: a destroyed queue pair's completions may be in it

	// One turn's.
	now     time.Time
	touched bool // since the last turn
	outbox  outbox.Outbox
	vigil   liveness.Vigil
	wcs     [64]verbs.WC
	wcAt    int // of wcs, the next that is to be taken
	wcEnd   int
	emptied bool // the queue was empty after wcs had been polled
	wrs     []verbs.SendWR
	sges    []verbs.SGE
	recvs   []verbs.RecvWR
}

var _ rail.Spinner = (*Rail)(nil)

// Open implements [rail.Opener].
func (cfg Config) Open(incarnation rail.Incarnation) (rail.Rail, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r := &Rail{cfg: cfg, peers: make(map[rail.PeerID]*conn),
		wrs: make([]verbs.SendWR, cfg.WriteDepth), sges: make([]verbs.SGE, cfg.WriteDepth),
		recvs: make([]verbs.RecvWR, max(cfg.Immediates, messageRecvs))}
	err := r.setUp(incarnation)
	if err == nil {
		err = r.life.Init("rail "+r.name, nil, r.free)
	}
	if err != nil {
		return nil, errors.Join(err, r.free())
	}
	return r, nil
}

func (r *Rail) setUp(incarnation rail.Incarnation) (err error) {
	r.process = process.This()
	if r.ctx = r.cfg.Context; r.ctx == nil {
		if r.ctx, err = verbs.Open(r.cfg.Device); err != nil {
			return err
		}
	}
	r.name = "verbs:" + r.ctx.Name()
	port, err := r.choosePort()
	if err != nil {
		return err
	}
	if r.pd, err = r.ctx.AllocPD(); err != nil {
		return err
	}
	if err = r.memory.Init("memory of "+r.name, nil, r.freeMemory); err != nil {
		return err
	}
	depth, err := r.cfg.completionDepth(r.ctx.Name(), r.ctx.Attr())
	if err != nil {
		return err
	}
	if r.cq, err = r.ctx.CreateCQ(verbs.CQConfig{Depth: depth, Events: true}); err != nil {
		return err
	}
	r.depth = r.cq.Depth()
	r.room = r.depth - ownCompletions
	r.caps = rail.Caps{
		MaxLength: uint64(min(port.MaxMessage, math.MaxUint32)), MaxBatch: r.cfg.WriteDepth,
		MaxImmediates: r.cfg.Immediates, MaxSend: messageSize - controlSize, Completion: rail.Responsible,
		ImmSource: true, Ordered: true, Read: true, Atomics: r.ctx.Attr().Atomics != verbs.AtomicNone,
		DeathBy: rail.ByHeartbeat | rail.ByProcess, DeathWithin: r.cfg.PeerTimeout + 2*r.cfg.DrainTimeout + r.cfg.Heartbeat,
		CancelProof: true, Recalls: true, Fences: true,
	}
	r.datagrams = datagrams{pd: r.pd, gid: r.gid, path: r.cfg.Connection.Path, fault: r.cfg.fault,
		qkey: uint32(random()) & maxQKey}
	if err := r.datagrams.open(r.cq, port.ActiveMTU); err != nil {
		return fmt.Errorf("handshake of %s: %w", r.name, err)
	}
	self := address{gid: r.gid.GID, lid: port.LID, qpn: r.datagrams.qp.Num(), qkey: r.datagrams.qkey}
	r.address = self.append(nil)
	r.vigil = liveness.Vigil{Heartbeat: r.cfg.Heartbeat, Timeout: r.cfg.PeerTimeout}
	r.handshake = handshake.New(handshake.Config[address, half]{
		Wire: &wire, Self: self, Incarnation: incarnation, Nonce: random, Effects: railEffects{r},
		Timing:     handshake.Timing{First: r.cfg.HandshakeInterval, Most: 20 * r.cfg.HandshakeInterval, Accept: r.cfg.AcceptTimeout},
		OnlyCalled: r.cfg.OnlyCalled,
	})
	return nil
}

// choosePort checks the port and sets the GID to send from.
func (r *Rail) choosePort() (verbs.PortAttr, error) {
	port, err := r.ctx.QueryPort(r.cfg.Port)
	if err != nil {
		return port, err
	}
	if port.State != verbs.PortActive {
		return port, fmt.Errorf("port %d of %s is %v: set its network interface up", r.cfg.Port, r.ctx.Name(), port.State)
	}
	table, err := r.ctx.GIDTable()
	if err != nil {
		return port, err
	}
	if r.cfg.GIDIndex == nil {
		r.gid, err = verbs.SelectGID(table, r.cfg.Port)
		return port, err
	}
	for _, e := range table {
		if e.Port == r.cfg.Port && e.Index == *r.cfg.GIDIndex {
			r.gid = e
			return port, nil
		}
	}
	return port, fmt.Errorf("port %d of %s has no GID at index %d: %w; the table:\n%s", r.cfg.Port, r.ctx.Name(),
		*r.cfg.GIDIndex, verbs.ErrNoUsableGID, verbs.FormatGIDTable(table))
}

func random() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.NativeEndian.Uint64(b[:])
}

// free gives everything back. It is also what Open does with what it made before an error.
func (r *Rail) free() error {
	var errs []error
	for _, c := range r.conns {
		if c != nil {
			errs = append(errs, c.destroy())
		}
	}
	errs = append(errs, r.datagrams.close())
	if r.cq != nil {
		errs = append(errs, r.cq.Close())
	}
	if r.pd != nil {
		errs = append(errs, r.memory.CloseAfterChildren())
	} else if r.ctx != nil {
		errs = append(errs, r.freeContext())
	}
	return errors.Join(errs...)
}

func (r *Rail) freeMemory() error { return errors.Join(r.pd.Close(), r.freeContext()) }

// freeContext closes the device, if the rail has opened it.
func (r *Rail) freeContext() error {
	if r.cfg.Context != nil {
		return nil
	}
	return r.ctx.Close()
}

// Close implements [rail.Rail].
func (r *Rail) Close() error { return r.life.Close() }

// Name implements [rail.Rail].
func (r *Rail) Name() string { return r.name }

// Caps implements [rail.Rail].
func (r *Rail) Caps() rail.Caps { return r.caps }

// Address implements [rail.Rail].
func (r *Rail) Address() []byte { return append([]byte(nil), r.address...) }

// Ignored returns how many datagrams of the handshake were malformed, forged, or came when they could change nothing.
func (r *Rail) Ignored() uint64 { return r.handshake.Ignored() }

// Arm implements [rail.Rail].
func (r *Rail) Arm() (ready bool) {
	if r.touched || r.outbox.Holding() || r.wcAt < r.wcEnd || r.cq.Arm() != nil {
		return true
	}
	n, err := r.cq.Poll(r.wcs[:]) // what came before the arming gives no notification
	r.wcAt, r.wcEnd, r.emptied = 0, n, n < len(r.wcs)
	return n > 0 || err != nil
}

// Spin implements [rail.Spinner]: one crossing, however often it looks.
func (r *Rail) Spin(limit time.Duration, call *atomic.Uint64, was uint64) (ready bool) {
	if r.touched || r.outbox.Holding() || r.wcAt < r.wcEnd {
		return true
	}
	n, err := r.cq.PollSpinWhile(r.wcs[:], limit, call, was)
	r.wcAt, r.wcEnd, r.emptied = 0, n, n < len(r.wcs)
	return n > 0 || err != nil
}

// Wait implements [rail.Rail].
func (r *Rail) Wait(ctx context.Context) error { return r.cq.Wait(ctx) }

// registration implements [rail.Registration].
type registration struct {
	life life.Object
	mr   *verbs.MR
	addr uint64
}

// Register implements [rail.Rail].
func (r *Rail) Register(memory []byte, access rail.Access) (rail.Registration, error) {
	if err := r.life.Enter(); err != nil {
		return nil, err
	}
	defer r.life.Exit()
	flags := verbs.AccessLocalWrite
	if access&rail.RemoteWrite != 0 {
		flags |= verbs.AccessRemoteWrite
	}
	if access&rail.RemoteRead != 0 {
		flags |= verbs.AccessRemoteRead
	}
	if access&rail.RemoteAtomic != 0 {
		flags |= verbs.AccessRemoteAtomic
	}
	mr, err := r.pd.RegMR(memory, flags)
	if err != nil {
		return nil, err
	}
	reg := &registration{mr: mr, addr: mem.Addr(memory)}
	if err := reg.life.Init("registration", &r.memory, mr.Close); err != nil {
		return nil, errors.Join(err, mr.Close())
	}
	return reg, nil
}

func (g *registration) LocalKey() uint64  { return uint64(g.mr.LKey()) }
func (g *registration) RemoteKey() uint64 { return uint64(g.mr.RKey()) }

// RemoteAddr implements [rail.Registration]: peers name memory by its address in this process.
func (g *registration) RemoteAddr() uint64 { return g.addr }

func (g *registration) Close() error { return g.life.Close() }
