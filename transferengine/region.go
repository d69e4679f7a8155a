package transferengine

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

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
	uses         atomic.Int64 // transfers in flight that use it; far below zero once it is closed
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
// uses the region the error wraps syscall.EBUSY and nothing changes: wait for the transfer. Closing again returns nil.
func (r *Region) Close() error {
	r.closing.Lock()
	defer r.closing.Unlock()
	if !r.uses.CompareAndSwap(0, regionClosed) {
		if n := r.uses.Load(); n > 0 {
			return fmt.Errorf("close %v: transfers in flight use it (%d), wait for them: %w", r, n, syscall.EBUSY)
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
