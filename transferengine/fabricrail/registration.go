package fabricrail

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/transferengine/rail"
)

// registration implements [rail.Registration].
type registration struct {
	life life.Object
	rail *Rail
	mr   *fabric.MR
}

// Without FI_MR_VIRT_ADDR peers name memory by how far it is behind the start of its region. They are given addresses, so the
// key, which is then ours to choose, says where the region starts; and what peers may do with it, as tcp of libfabric 1.17
// lets them read what they may only write.
//
//	bit  62     peers may write
//	     61     peers may read
//	bits 48–60  a number, another one for each registration
//	      0–47  address of the region's first byte
const (
	keyAddressBits = 48
	keyNumbers     = 1 << 13
	keyReadable    = 1 << 61
	keyWritable    = 1 << 62
)

// newKey makes the key of a region.
func (r *Rail) newKey(start uint64, access fabric.Access) (uint64, error) {
	if start>>keyAddressBits != 0 {
		return 0, fmt.Errorf("memory at %#x is beyond %d bits of address: %w", start, keyAddressBits, errors.ErrUnsupported)
	}
	key := uint64(r.keyCount.Add(1)%keyNumbers)<<keyAddressBits | start
	if access&fabric.CapRemoteRead != 0 {
		key |= keyReadable
	}
	if access&fabric.CapRemoteWrite != 0 {
		key |= keyWritable
	}
	return key, nil
}

// permits tells whether a peer's key lets an operation be tried: the provider may not ask.
func (c *conn) permits(o *rail.Op) bool {
	if c.virtual {
		return true
	}
	switch o.Kind {
	case rail.Write:
		return o.RemoteKey&keyWritable != 0
	case rail.Read:
		return o.RemoteKey&keyReadable != 0
	}
	return o.RemoteKey&keyReadable != 0 && o.RemoteKey&keyWritable != 0
}

// remoteAddr is what the provider takes for an address of a peer's.
func (c *conn) remoteAddr(address, key uint64) uint64 {
	if c.virtual {
		return address
	}
	return address - key&(1<<keyAddressBits-1)
}

// Register implements [rail.Rail].
func (r *Rail) Register(memory []byte, access rail.Access) (rail.Registration, error) {
	if err := r.life.Enter(); err != nil {
		return nil, err
	}
	defer r.life.Exit()
	cfg := fabric.MRConfig{Access: fabric.AccessLocal}
	if access&(rail.RemoteWrite|rail.RemoteAtomic) != 0 {
		cfg.Access |= fabric.CapRemoteWrite
	}
	if access&(rail.RemoteRead|rail.RemoteAtomic) != 0 {
		cfg.Access |= fabric.CapRemoteRead
	}
	mr, err := r.register(memory, cfg)
	if err != nil {
		return nil, err
	}
	reg := &registration{rail: r, mr: mr}
	if err := reg.life.Init("registration", &r.life, mr.Close); err != nil {
		return nil, errors.Join(err, mr.Close())
	}
	return reg, nil
}

// register tries other keys where one is in use.
func (r *Rail) register(memory []byte, cfg fabric.MRConfig) (mr *fabric.MR, err error) {
	r.registering.Lock()
	defer r.registering.Unlock()
	for range keyNumbers {
		if !r.traits.virtual {
			if cfg.Key, err = r.newKey(mem.Addr(memory), cfg.Access); err != nil {
				return nil, err
			}
		}
		if mr, err = r.domain.RegMR(memory, cfg); errors.Is(err, fabric.ENoKey) && !r.traits.virtual {
			continue
		}
		return mr, err
	}
	return nil, fmt.Errorf("%d registrations are all there can be: %w", keyNumbers, syscall.ENOSPC)
}

func (g *registration) LocalKey() uint64  { return uint64(g.mr.LKey()) }
func (g *registration) RemoteKey() uint64 { return g.mr.RKey() }
func (g *registration) Close() error      { return g.life.Close() }
