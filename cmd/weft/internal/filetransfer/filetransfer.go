// Package filetransfer moves files between two processes: their bytes by RDMA, everything else over one TCP connection
// (see package wire).
//
// The receiver registers a window of memory for each sender, cut into slots of one size. The sender fills slot after slot
// with records (record.go), round and round, each by one write whose immediate is the number of the slot. The receiver takes
// the slots in order and gives each back by a write without bytes whose immediate the sender counts.
//
// Both ends work in stages, so that reading, hashing, moving and writing go on at once: the sender fills slots, hashes them
// and writes them (send.go); the receiver takes them, hashes and stores them at once, and then puts files in place and
// gives slots back (receive.go). Files are announced ahead over TCP and answered for later, so that no file waits for an answer.
//
// What ends a transfer early is told to the other end, which reports it; a process or a host that is gone is noticed by the
// TCP connection or by the engine, whichever is first.
package filetransfer

import (
	"errors"
	"fmt"
	"time"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/transferengine"
)

const (
	// DefaultWindow is the memory for one sender in bytes. With as much again for what is to be sent it stays within the
	// 8 MiB of locked memory that most systems allow a user.
	DefaultWindow = 4 << 20
	// MinWindow and MaxWindow bound it.
	MinWindow = slotAlign
	MaxWindow = 1 << 30

	slotAlign  = 4096
	maxSlot    = 1 << 20
	wantSlots  = 16
	stageBytes = 4 << 20 // what the sender reads ahead, unless one slot is more

	// What a sender accepts of a receiver, so that the receiver cannot make it allocate at will. A slot has at least slotAlign bytes:
	// each record but data must fit into an empty one.
	acceptSlot  = 16 << 20
	acceptSlots = 1 << 16

	// creditImm is the immediate of the writes that give slots back.
	creditImm = 0
)

const (
	// grace is how long the other end's own words are waited for when the engine has reported it lost, and how long a
	// receiver that gave up keeps its window for writes that are on the way.
	grace = time.Second
	// shutdownTimeout bounds how long writes in flight are waited for at the end.
	shutdownTimeout = 5 * time.Second
)

// Timeouts bound how long one end waits for the other. The zero value is the default.
type Timeouts struct {
	// Greeting bounds how long a connection may take to say who it is; zero is a second. Only a receiver heeds it.
	Greeting time.Duration
	// Handshake bounds everything before the first file, zero is 10 seconds; and single messages.
	Handshake time.Duration
	// Idle bounds each wait after that: zero is a minute. A disk may need that long.
	Idle time.Duration
}

func (t Timeouts) withDefaults() Timeouts {
	if t.Greeting <= 0 {
		t.Greeting = time.Second
	}
	if t.Handshake <= 0 {
		t.Handshake = 10 * time.Second
	}
	if t.Idle <= 0 {
		t.Idle = time.Minute
	}
	return t
}

// cut cuts a window into slots.
func cut(window int) (slotSize, slots int) {
	slotSize = min(max(window/wantSlots/slotAlign*slotAlign, slotAlign), maxSlot)
	return slotSize, window / slotSize
}

// buffer is registered memory.
type buffer struct {
	memory *mem.Buffer
	region *transferengine.Region
}

func newBuffer(engine *transferengine.Engine, size int, access transferengine.Access) (*buffer, error) {
	memory, err := mem.Map(size)
	if err != nil {
		return nil, err
	}
	region, err := engine.Register(memory.Bytes(), access)
	if err != nil {
		return nil, errors.Join(err, memory.Close())
	}
	return &buffer{memory: memory, region: region}, nil
}

// slot is the memory of slot i.
func (b *buffer) slot(i, size int) []byte { return b.region.Bytes()[i*size : (i+1)*size] }

// close deregisters the memory, and only then unmaps it.
func (b *buffer) close() error {
	if err := b.region.Close(); err != nil {
		return err
	}
	return b.memory.Close()
}

// marshal returns the wire formats of an engine's address and of a region's descriptor.
func marshal(engine *transferengine.Engine, b *buffer) (address, descriptor []byte, err error) {
	address, err = engine.Address().MarshalBinary()
	if err == nil {
		descriptor, err = b.region.Descriptor().MarshalBinary()
	}
	return address, descriptor, err
}

// unmarshal is the reverse, of the other end's.
func unmarshal(address, descriptor []byte) (a transferengine.Address, d transferengine.Descriptor, err error) {
	if err = a.UnmarshalBinary(address); err == nil {
		err = d.UnmarshalBinary(descriptor)
	}
	if err == nil && d.Owner() != a.Incarnation() {
		err = fmt.Errorf("the memory is of engine %x, the address of %x", d.Owner(), a.Incarnation())
	}
	return a, d, err
}
