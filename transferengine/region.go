package transferengine

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/transferengine/rail"
)

// Access is what peers may do with a region's memory. The engine itself may always read and write it.
type Access = rail.Access

// The rights of peers. Combine them with |.
const (
	LocalOnly   = rail.LocalOnly   // peers may do nothing
	RemoteWrite = rail.RemoteWrite // peers may write
	RemoteRead  = rail.RemoteRead  // peers may read
)

// regionClosed is far enough below zero that the uses a closed region counts by mistake do not reach zero.
const regionClosed = -1 << 62

// Region is memory that the engine's NICs may use.
type Region struct {
	life         life.Object
	engine       *Engine
	mem          []byte // keeps the memory alive
	registration rail.Registration
	localKey     uint64
	descriptor   Descriptor
	uses         atomic.Int64 // transfers in flight that use it, and keeps; far below zero once it is closed
	keeps        atomic.Int64 // transfers that have ended, and of which the rail has operations that may use it
	unwanted     atomic.Bool  // Close was refused for these
	closing      sync.Mutex   // held by a Close at work: one that fails opens the region to requests again
}

// Register lets the engine's NICs use memory; access says what peers may do with it, [LocalOnly] that they may do nothing. A Go
// slice is fine: it is pinned until the region is closed. Other memory must not be unmapped before. It must not be empty.
// Registering takes time; register once and use the region for many requests.
//
// Errors wrap syscall.EINVAL, net.ErrClosed, or what the NIC says: verbs.ErrMemlock where the limit on locked memory is too low.
func (e *Engine) Register(memory []byte, access Access) (*Region, error) {
	fail := func(err error) (*Region, error) {
		return nil, fmt.Errorf("register %d bytes on %s: %w", len(memory), e.rail.Name(), err)
	}
	if err := e.life.Enter(); err != nil {
		return fail(err)
	}
	defer e.life.Exit()
	if len(memory) == 0 {
		return fail(fmt.Errorf("the memory is empty: %w", syscall.EINVAL))
	}
	if access&^(RemoteWrite|RemoteRead) != 0 {
		return fail(fmt.Errorf("access %#x is more than RemoteWrite and RemoteRead: %w", uint8(access), syscall.EINVAL))
	}
	registration, err := e.rail.Register(memory, access)
	if err != nil {
		return fail(err)
	}
	r := &Region{engine: e, mem: memory, registration: registration, localKey: registration.LocalKey()}
	if err := r.life.Init("region", &e.life, registration.Close); err != nil {
		_ = registration.Close() // the engine began to close meanwhile, which is the error to report
		return fail(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.generation++
	e.regions[r] = struct{}{}
	r.descriptor = Descriptor{owner: e.incarnation, base: registration.RemoteAddr(), length: uint64(len(memory)),
		generation: e.generation, access: access, rails: 1, keys: [MaxRails]uint64{registration.RemoteKey()}}
	return r, nil
}

// Descriptor returns what peers need to use the memory. It travels as bytes or text, and is valid until the region is closed.
func (r *Region) Descriptor() Descriptor { return r.descriptor }

// Bytes returns the memory.
func (r *Region) Bytes() []byte { return r.mem }

// String names the region: "region of 4096 bytes at 0xc000100000".
func (r *Region) String() string {
	return fmt.Sprintf("region of %d bytes at %#x", r.descriptor.length, mem.Addr(r.mem))
}

// Close takes the memory away from the NICs, which refuse peers that go on using its descriptor. While a transfer of this engine
// uses the region the error wraps syscall.EBUSY and nothing changes: wait for the transfer. It is the same for a transfer that has
// ended with InFlight, until its peer is down; [Engine.Close] waits for that no longer than CloseTimeout, and closes the regions that
// were to be closed. Closing again returns nil.
//
// Where a NIC lets peers go on with what they had begun (tcp), Close waits until they have, or have lost their connection: about a round
// trip, if they answer. An engine whose turns are taken by hand ([Manual]) does not wait: the error wraps syscall.EBUSY, the memory must
// be left alone, and Close is to be called again after a later turn. So it is after CloseTimeout.
func (r *Region) Close() error {
	r.closing.Lock()
	defer r.closing.Unlock()
	if err := r.close(); err != nil {
		return err
	}
	return r.awaitPeers()
}

// awaitPeers waits until no peer is in the midst of anything in memory that is closed.
func (r *Region) awaitPeers() error {
	lingerer, can := r.registration.(rail.Lingerer)
	for start := time.Now(); can && lingerer.InUse(); time.Sleep(lingerPause) {
		if r.engine.progress.manual || time.Since(start) > r.engine.config.CloseTimeout {
			return fmt.Errorf("close %v: peers may be using it yet, close it again after a turn: %w", r, syscall.EBUSY)
		}
		r.engine.Poll()
	}
	return nil
}

// lingerPause is the time between two looks whether peers are done with closed memory, which takes a round trip.
const lingerPause = 50 * time.Microsecond

// close is Close, but for what peers have begun.
func (r *Region) close() error {
	if !r.uses.CompareAndSwap(0, regionClosed) {
		if n := r.uses.Load(); n > 0 {
			return r.busy(n)
		}
		return r.life.Close() // as it was closed before
	}
	err := r.life.Close()
	if err != nil {
		err = fmt.Errorf("close %v: %w", r, err)
		if r.life.Enter() == nil { // nothing was freed
			r.life.Exit()
			r.uses.Add(-regionClosed)
			return err
		}
	}
	r.engine.mu.Lock()
	defer r.engine.mu.Unlock()
	delete(r.engine.regions, r)
	return err
}

// busy is the error of a Close while the region is in use.
func (r *Region) busy(uses int64) error {
	if keeps := r.keeps.Load(); keeps == uses {
		r.unwanted.Store(true)
		return fmt.Errorf("close %v: the NIC has operations to lost peers that may use it (of %d transfers), and gives them back when the "+
			"peers are down, or the engine is closed: %w", r, keeps, syscall.EBUSY)
	}
	return fmt.Errorf("close %v: transfers in flight use it (%d), wait for them: %w", r, uses, syscall.EBUSY)
}

// kept tells whether nothing but operations to lost peers keeps the region from being closed, which somebody has asked for.
func (r *Region) kept() bool {
	return r.unwanted.Load() && r.uses.Load() == r.keeps.Load()
}

// keep holds the region, which is held, for what is left of a transfer.
func (r *Region) keep() {
	r.uses.Add(1)
	r.keeps.Add(1)
}

// letGo ends what keep began.
func (r *Region) letGo() {
	r.keeps.Add(-1)
	r.release()
}

// hold keeps the region open for one transfer.
func (r *Region) hold() error {
	if r.uses.Add(1) > 0 {
		return nil
	}
	return r.refuse()
}

// refuse takes back what hold has counted. It is apart so that hold can be inlined.
func (r *Region) refuse() error {
	r.uses.Add(-1)
	return fmt.Errorf("%v: %w", r, net.ErrClosed)
}

// release ends what hold began.
func (r *Region) release() { r.uses.Add(-1) }
