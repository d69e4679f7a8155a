package fabricrail

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/transferengine/rail"
)

// registration implements [rail.Registration].
type registration struct {
	life   life.Object
	rail   *Rail
	mr     *fabric.MR
	pin    *life.Pin // of the memory, which peers may use after mr is closed
	shared bool
	fence  atomic.Uint64 // once it is closed
}

// Register implements [rail.Rail].
func (r *Rail) Register(memory []byte, access rail.Access) (rail.Registration, error) {
	if err := r.life.Enter(); err != nil {
		return nil, err
	}
	defer r.life.Exit()
	if access&rail.RemoteAtomic != 0 && mem.Addr(memory)%8 != 0 {
		return nil, fmt.Errorf("%s: atomic operations on memory at %#x, which is not a multiple of 8: %w", r.name, mem.Addr(memory),
			syscall.EINVAL)
	}
	// Without FI_SEND and FI_RECV, which the rail's own messages do not need of it either: ofi_rxm lets peers read what may be sent.
	cfg := fabric.MRConfig{Access: fabric.CapRead | fabric.CapWrite}
	if access&(rail.RemoteWrite|rail.RemoteAtomic) != 0 {
		cfg.Access |= fabric.CapRemoteWrite
	}
	if access&(rail.RemoteRead|rail.RemoteAtomic) != 0 {
		cfg.Access |= fabric.CapRemoteRead
	}
	mr, err := r.domain.RegMR(memory, cfg) // by a key that the binding draws at random, where the provider does not choose it
	if err != nil {
		return nil, err
	}
	reg := &registration{rail: r, mr: mr, pin: life.NewPin(memory), shared: access != rail.LocalOnly}
	if err := reg.life.Init("registration", &r.memory, reg.close); err != nil {
		return nil, errors.Join(err, reg.close())
	}
	return reg, nil
}

func (g *registration) LocalKey() uint64  { return uint64(g.mr.LKey()) }
func (g *registration) RemoteKey() uint64 { return g.mr.RKey() }

// RemoteAddr implements [rail.Registration]: without FI_MR_VIRT_ADDR, as with tcp, peers count from 0.
func (g *registration) RemoteAddr() uint64 { return g.mr.Addr() }

// Close implements [rail.Registration].
func (g *registration) Close() error { return g.life.Close() }

func (g *registration) close() error {
	if err := g.mr.Close(); err != nil {
		return err
	}
	if g.shared {
		g.fence.Store(g.rail.ask(g.pin))
	} else {
		g.pin.Release()
	}
	return nil
}

// InUse implements [rail.Lingerer].
func (g *registration) InUse() bool { return g.fence.Load() > g.rail.fences.passed.Load() }

var _ rail.Lingerer = (*registration)(nil)
