package fabricrail

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/transferengine/rail"
)

// traits are how a provider does what not all do alike.
type traits struct {
	virtual   bool // peers name memory by its addresses
	delivered bool // it has FI_DELIVERY_COMPLETE
	tagged    bool // 8 bytes of data come with a write: room for a tag beside the immediate
	source    bool // it tells who wrote
	keyTable  bool // it must not be asked for what a peer's memory refuses
	atomics   bool // it has atomic operations
	fullReads bool // it must not be asked to read nothing: that never completes
}

// choose asks for what the provider offers, and says in caps and traits what that is.
func (r *Rail) choose() (*fabric.Info, error) {
	hints := fabric.Hints{Provider: r.cfg.Provider, Node: r.cfg.Node, Service: r.cfg.Service, Domain: r.cfg.Domain}
	shm, rxd := r.cfg.Provider == "shm", strings.HasSuffix(r.cfg.Provider, "ofi_rxd")
	if shm {
		// Without an order shm writes small operations into the peer's memory by itself, whatever the key says.
		hints.MsgOrder = fabric.OrderWAW
	}
	const needed = fabric.CapMsg | fabric.CapRMA
	var infos []*fabric.Info
	var err error
	for _, more := range []fabric.Caps{fabric.CapAtomic | fabric.CapSource, fabric.CapSource, fabric.CapAtomic, 0} {
		hints.Caps = needed | more
		if infos, err = fabric.GetInfo(hints); !errors.Is(err, fabric.ErrNoProvider) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	info := infos[0]
	hints.TxOpFlags = fabric.FlagDeliveryComplete
	_, err = fabric.GetInfo(hints)
	r.traits = traits{
		virtual: info.MRMode&fabric.MRVirtAddr != 0,
		// shm takes one operation with FI_DELIVERY_COMPLETE at a time, until the peer looks: without, it completes when it is in
		// the peer's queue, which the peer empties in order.
		delivered: err == nil && !shm,
		tagged:    info.CQDataSize >= 8,
		source:    info.Caps&fabric.CapSource != 0 && !strings.Contains(info.Provider, "ofi_rxm"),
		keyTable:  shm,
		// Atomic operations of ofi_rxd end the process (seen with libfabric 1.17).
		atomics:   info.Caps&fabric.CapAtomic != 0 && !rxd,
		fullReads: rxd,
	}
	return info, r.describe(info)
}

// describe fills in caps, and refuses a provider that cannot be a rail.
func (r *Rail) describe(info *fabric.Info) error {
	switch {
	case info.CQDataSize < 4:
		return fmt.Errorf("%s carries %d bytes of data with a write, an immediate has 4: %w", info.Provider, info.CQDataSize,
			errors.ErrUnsupported)
	case !r.traits.tagged && !r.traits.source:
		return fmt.Errorf("%s carries %d bytes of data with a write, too few for a tag beside the immediate, and does not tell who "+
			"wrote: %w", info.Provider, info.CQDataSize, errors.ErrUnsupported)
	case !r.traits.virtual && (info.MRMode&fabric.MRProvKey != 0 || info.MRKeySize < 8):
		return fmt.Errorf("%s names memory by offsets, and by keys of its own or of %d bytes: %w", info.Provider, info.MRKeySize,
			errors.ErrUnsupported)
	case info.MaxMsgSize < messageSize:
		return fmt.Errorf("%s takes messages of %d bytes, %d are needed: %w", info.Provider, info.MaxMsgSize, messageSize,
			syscall.EMSGSIZE)
	}
	r.caps = rail.Caps{
		MaxLength: min(info.MaxMsgSize, math.MaxInt64), MaxBatch: maxPosted, MaxImmediates: r.cfg.Immediates,
		MaxSend: messageSize - controlSize, Completion: rail.Responsible, ImmSource: true,
		Read: true, Atomics: r.traits.atomics, DeathBy: rail.ByHeartbeat | rail.ByProcess,
		DeathWithin: r.cfg.PeerTimeout + 2*r.cfg.DrainTimeout + r.cfg.Heartbeat, CancelProof: true,
	}
	if r.traits.delivered {
		r.caps.Completion = rail.Delivered
	}
	if r.traits.keyTable {
		r.caps.DeathWithin += r.cfg.CrossingTimeout // of the call that meets what a dead peer has locked
	}
	return nil
}

// Linux's EKEYREJECTED and ENOKEY, which other platforms, where this package builds but opens nothing, do not have.
const (
	keyRejected = syscall.Errno(129)
	noKey       = syscall.Errno(126)
)

// refusedBy tells whether a completion's error is that the peer's memory refused the access.
func (r *Rail) refusedBy(err error) bool {
	var c *fabric.CompletionError
	if !errors.As(err, &c) {
		return false
	}
	for _, reason := range []error{syscall.EACCES, syscall.EPERM, syscall.EFAULT, keyRejected, noKey, fabric.ENoKey,
		fabric.ENoMR} {
		if errors.Is(c.Reason, reason) {
			return true
		}
	}
	// tcp cancels the operation, and says in its own number that there is no such memory.
	return errors.Is(c.Reason, syscall.ECANCELED) && syscall.Errno(c.ProvErrno) == syscall.ENOENT
}
