package transferengine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/transferengine/rail"
)

// Config says how to open an engine. Every field but Rails may be left zero.
type Config struct {
	// Rails are the NICs. This version drives exactly one.
	Rails []rail.Opener
	// Progress says who does the engine's work; zero is Inline.
	Progress Progress
	// NoSpin lets waits sleep as soon as they find nothing, rather than look again for a while. A wait then ends some
	// microseconds later, and the processor is free meanwhile: for programs that compute while others of their goroutines wait.
	NoSpin bool
	// QueueDepth is how many requests, to whichever peers, may wait for the next turn of the engine's work, rounded up to a power
	// of two; zero is 1024.
	QueueDepth int
	// MaxTransfers is how many requests may be under way to one peer, at most 1<<20; zero is 1024. Others' do not count: peers that
	// answer nothing take no room from those that do.
	MaxTransfers int
	// TransferTimeout is how long a request may take that names no limit of its own; zero is 30 seconds.
	TransferTimeout time.Duration
	// MaxImmediates is how many distinct values of immediates, not yet taken by a Wait, are kept for one peer; zero is
	// 65536. A peer that sends more is given up, since it would fill memory.
	MaxImmediates int
	// ConnectTimeout bounds Connect, besides its context; zero is 10 seconds.
	ConnectTimeout time.Duration
	// CloseTimeout is how long Close waits for peers to be given up; zero is 5 seconds.
	CloseTimeout time.Duration
}

// validate refuses what cannot be and fills in what is zero.
func (c *Config) validate() error {
	const maxTransfers = 1 << 20
	switch {
	case len(c.Rails) == 0:
		return fmt.Errorf("Config.Rails is empty, give it the Config of one rail: %w", syscall.EINVAL)
	case len(c.Rails) > 1:
		return fmt.Errorf("Config.Rails has %d NICs, this version drives one: %w", len(c.Rails), errors.ErrUnsupported)
	case c.Rails[0] == nil:
		return fmt.Errorf("Config.Rails[0] is nil: %w", syscall.EINVAL)
	case c.Progress > Manual:
		return fmt.Errorf("Config.Progress is %d, neither Inline, Dedicated nor Manual: %w", c.Progress, syscall.EINVAL)
	case c.QueueDepth < 0 || c.QueueDepth > maxTransfers:
		return fmt.Errorf("Config.QueueDepth is %d, not 0 to %d: %w", c.QueueDepth, maxTransfers, syscall.EINVAL)
	case c.MaxTransfers < 0 || c.MaxTransfers > maxTransfers:
		return fmt.Errorf("Config.MaxTransfers is %d, not 0 to %d: %w", c.MaxTransfers, maxTransfers, syscall.EINVAL)
	case c.MaxImmediates < 0:
		return fmt.Errorf("Config.MaxImmediates is %d, less than 0: %w", c.MaxImmediates, syscall.EINVAL)
	case c.TransferTimeout < 0 || c.ConnectTimeout < 0 || c.CloseTimeout < 0:
		return fmt.Errorf("Config.TransferTimeout %v, ConnectTimeout %v or CloseTimeout %v is less than 0: %w",
			c.TransferTimeout, c.ConnectTimeout, c.CloseTimeout, syscall.EINVAL)
	}
	orDefault(&c.QueueDepth, 1024)
	orDefault(&c.MaxTransfers, 1024)
	orDefault(&c.TransferTimeout, 30*time.Second)
	orDefault(&c.MaxImmediates, 1<<16)
	orDefault(&c.ConnectTimeout, 10*time.Second)
	orDefault(&c.CloseTimeout, 5*time.Second)
	return nil
}

func orDefault[T comparable](value *T, standard T) {
	var zero T
	if *value == zero {
		*value = standard
	}
}

// Engine moves memory over the NICs that it was opened with. See the package comment.
type Engine struct {
	config      Config
	incarnation rail.Incarnation
	rail        rail.Rail
	worker      *worker
	progress    *progress
	counters    *counterTable
	peers       *peerTable
	stats       *counts

	life     life.Object // parent of the regions
	requests life.Object // guards requests against Close and Shutdown
	ending   sync.Once
	closeErr error // of the Close that closed

	mu         sync.Mutex
	regions    map[*Region]struct{}
	generation uint64 // of the region registered last

	stopping sync.Mutex // held by a Close or Shutdown at work
	cutOff   context.Context
	cut      context.CancelFunc // ends a Shutdown's patience when Close comes
}

// Open opens an engine on the NIC of Config.Rails. Close it with [Engine.Close].
func Open(config Config) (*Engine, error) {
	e, err := open(config)
	if err == nil {
		e.progress.start(config.Progress)
	}
	return e, err
}

// open makes an engine that nobody drives yet.
func open(config Config) (*Engine, error) {
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	e := &Engine{config: config, regions: make(map[*Region]struct{}), stats: new(counts)}
	if _, err := rand.Read(e.incarnation[:]); err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	opened, err := config.Rails[0].Open(e.incarnation)
	if err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	if err := checkRail(opened); err != nil {
		return nil, errors.Join(fmt.Errorf("open engine: %w", err), opened.Close())
	}
	e.rail = opened
	e.counters = newCounterTable(config.MaxImmediates, e.stats)
	e.peers = newPeerTable()
	e.worker = newWorker(e)
	e.progress = newProgress(e.worker)
	e.progress.patience.none = config.NoSpin
	e.counters.progress = e.progress
	e.cutOff, e.cut = context.WithCancel(context.Background())
	if err := e.requests.Init("engine", nil, func() error { return nil }); err != nil {
		return nil, err
	}
	return e, e.life.Init("engine", nil, e.free)
}

// checkRail refuses a rail that an engine of this version cannot use.
func checkRail(r rail.Rail) error {
	caps := r.Caps()
	switch {
	case caps.MaxLength == 0 || caps.MaxBatch < 1:
		return fmt.Errorf("%s: Caps.MaxLength is %d and Caps.MaxBatch %d, the least is 1: %w",
			r.Name(), caps.MaxLength, caps.MaxBatch, syscall.EINVAL)
	case !caps.ImmSource:
		return fmt.Errorf("%s: the rail does not tell who sent an immediate (Caps.ImmSource), which the engine needs: %w", r.Name(),
			errors.ErrUnsupported)
	case len(railKind(r.Name())) > maxKind || railKind(r.Name()) == "":
		return fmt.Errorf("%s: the kind of a rail has 1 to %d bytes: %w", r.Name(), maxKind, syscall.EINVAL)
	}
	return nil
}

// Address is what other engines need to connect to this one.
func (e *Engine) Address() Address {
	return Address{incarnation: e.incarnation,
		rails: []railAddress{{kind: railKind(e.rail.Name()), address: e.rail.Address()}}}
}

// Connect connects to the engine at the address, within Config.ConnectTimeout and the context. One side connects; the other
// is told of the peer by [Engine.Accept], and finds it in [Engine.Peers]. Connecting to a peer that is connected already, from
// either side, returns that peer.
//
// Errors wrap [rail.ErrUnreachable]; [rail.ErrRefused], with the peer's reason; [rail.ErrPeerGone], where the process at the
// address was restarted: get its new address; [ErrQueueFull]; or the context's error.
func (e *Engine) Connect(ctx context.Context, address Address) (*Peer, error) {
	return e.meet(ctx, address, false)
}

// Expect is Connect for an engine that connects to this one: nothing is sent to its address before it does. Use it where a
// firewall lets connections through in one direction, or where the address comes from somebody who could name another host's.
func (e *Engine) Expect(ctx context.Context, address Address) (*Peer, error) {
	return e.meet(ctx, address, true)
}

// meet connects, or waits for the other engine to do so.
func (e *Engine) meet(ctx context.Context, address Address, expect bool) (*Peer, error) {
	call, err := e.startConnect(ctx, address, expect)
	if err == nil {
		var met bool
		if met, err = e.progress.await(ctx, &call.waiters, call); met && err == nil {
			return call.peer, nil
		}
	}
	return nil, fmt.Errorf("connect to %x over %s: %w", address.incarnation[:4], e.rail.Name(), err)
}

// startConnect hands the worker a connect call.
func (e *Engine) startConnect(ctx context.Context, address Address, expect bool) (*connectCall, error) {
	if err := e.requests.Enter(); err != nil {
		return nil, err
	}
	defer e.requests.Exit()
	railAddress, err := address.Rail(railKind(e.rail.Name()))
	if err != nil {
		return nil, err
	}
	timeout := e.config.ConnectTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline))
	}
	call := &connectCall{address: railAddress, incarnation: address.incarnation, timeout: timeout, expect: expect}
	return call, e.submit(submission{connect: call}, false)
}

// Accept returns the next peer that connected to this engine, and that it did not call or expect itself, in the order in which they
// came. It waits for one until the context ends. Nobody has to accept peers: they are connected in any case, see [Engine.Peers]. One
// that was lost before it was accepted is passed over.
func (e *Engine) Accept(ctx context.Context) (*Peer, error) {
	call := &acceptCall{table: e.peers}
	if _, err := e.progress.await(ctx, &e.peers.waiters, call); err != nil {
		return nil, fmt.Errorf("accept over %s: %w", e.rail.Name(), err)
	}
	return call.peer, nil
}

// submit hands the worker work.
func (e *Engine) submit(s submission, more bool) error {
	if e.progress.submit(s, more) {
		return nil
	}
	e.stats.queueFull.Add(1)
	return fmt.Errorf("%w: %d requests wait in it (Config.QueueDepth)", ErrQueueFull, e.worker.queue.Cap())
}

// Peers returns the peers that are connected, whichever side asked for it, in the order in which they came.
func (e *Engine) Peers() []*Peer { return e.peers.all() }

// Counter returns the counter of the immediate; the same one for every call. The engine keeps it until it is closed.
func (e *Engine) Counter(imm uint32) *Counter { return e.counters.claim(imm) }

// Poll does one turn of the engine's work unless somebody else is at it: it posts what is queued and takes in what
// arrived. It never blocks and is never needed.
func (e *Engine) Poll() { e.progress.poll() }

// Turn does one turn of the work of an engine that was opened with Progress: [Manual], at a time by the caller's clock, which
// must not go backwards. It returns how many things it did, and when the next turn is due even if nothing happens, the zero
// time if never. One goroutine at a time may call it. Of any other engine it does nothing.
func (e *Engine) Turn(now time.Time) (did int, next time.Time) {
	if !e.progress.manual {
		return 0, time.Time{}
	}
	return e.progress.turnAt(now)
}

// Stats returns the engine's counts since it was opened.
func (e *Engine) Stats() Stats { return e.stats.snapshot() }

// Shutdown ends an engine's traffic: it refuses new requests with net.ErrClosed, waits for those in flight, and then tells the
// peers. If the context ends first, Shutdown cuts off what is in flight, which ends with an error, and returns the context's
// error. Regions stay registered: close them next, and then the engine.
func (e *Engine) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.cutOff, func() { cancel(errors.New("Close was called meanwhile")) })()
	if err := e.stop(ctx); err != nil {
		return fmt.Errorf("shut down engine: %w", err)
	}
	return nil
}

// Close closes the engine, within about Config.CloseTimeout. While regions are open it returns an error that names them
// and wraps syscall.EBUSY, and changes nothing; those that [Region.Close] refused only for what lost peers had left do not count, and
// are closed after step 7. Closing again returns the same result.
//
// The order:
//
//  1. Requests are refused, with net.ErrClosed.
//  2. The goroutines that drive the worker end; whoever waits stops driving it. From here on Close drives it alone.
//  3. Shutdown awaits the requests in flight; Close does not.
//  4. Every peer is given up, and told so. Its writes in flight end with an error.
//  5. The peers have come down, or CloseTimeout is over. No write is in flight, or the rail cannot take it back, or is broken.
//  6. The rail is closed: from here on no NIC uses the memory of this process.
//  7. What the rail never gave back ends with net.ErrClosed, and so do waits for counters and peers.
func (e *Engine) Close() error {
	if kept := e.keptRegions(); len(kept) > 0 {
		e.end()
		for _, r := range kept {
			_ = r.Close() // one that cannot be is open, which the error says
		}
	}
	err := e.life.Close()
	if errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("close engine: regions are open, close them first: %s: %w", e.nameRegions(), syscall.EBUSY)
	}
	return e.closeErr
}

// keptRegions are the open regions, if what lost peers had left is all that keeps them from being closed.
func (e *Engine) keptRegions() (kept []*Region) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for r := range e.regions {
		if !r.kept() {
			return nil
		}
		kept = append(kept, r)
	}
	return kept
}

// free is Close once no region is left.
func (e *Engine) free() error {
	e.end()
	return nil
}

// end is steps 1 to 7 of Close, once.
func (e *Engine) end() { e.ending.Do(e.doEnd) }

func (e *Engine) doEnd() {
	e.cut()
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.stop(done); err != nil && !errors.Is(err, context.Canceled) {
		e.closeErr = fmt.Errorf("close engine: %w", err)
	}
	if err := e.rail.Close(); err != nil {
		e.closeErr = errors.Join(e.closeErr, fmt.Errorf("close engine: %w", err))
	}
	e.worker.abandon()
	e.counters.close()
	e.peers.close()
}

// stop is steps 1 to 5 of Close. The context says how long step 3 may take.
func (e *Engine) stop(ctx context.Context) error {
	e.stopping.Lock()
	defer e.stopping.Unlock()
	if err := e.requests.Close(); err != nil {
		return err
	}
	e.progress.halt()
	err := e.progress.until(ctx, e.worker.drained)
	e.progress.giveUp()
	bounded, cancel := context.WithTimeout(context.Background(), e.config.CloseTimeout)
	defer cancel()
	if e.progress.until(bounded, e.worker.alone) != nil && !e.worker.onlyHeld() {
		return fmt.Errorf("%s: %d peers and %d requests had not ended after %v (Config.CloseTimeout): %w", e.rail.Name(),
			len(e.worker.paths), e.worker.underWay(), e.config.CloseTimeout, context.DeadlineExceeded)
	}
	return err
}

// nameRegions lists the open regions, the first few of many.
func (e *Engine) nameRegions() string {
	const few = 4
	e.mu.Lock()
	defer e.mu.Unlock()
	var names []string
	for r := range e.regions {
		if len(names) == few {
			names = append(names, "…")
			break
		}
		names = append(names, r.String())
	}
	return strings.Join(names, ", ")
}
