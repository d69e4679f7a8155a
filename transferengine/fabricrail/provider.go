package fabricrail

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/transferengine/rail"
)

// providers is what [Providers] lists. Others offer the same calls and do not keep what the rail has to promise. A process of shm
// that is killed leaves locks in its peers' memory taken, and their calls never return. Operations of ofi_rxd that a peer refuses
// never complete. verbs;ofi_rxm has no room for a tag beside an immediate. Rails over sockets do not come up.
var providers = [...]string{"tcp", "efa"}

// Providers lists the providers that a rail can use, of which a machine may have some.
func Providers() []string { return slices.Clone(providers[:]) }

// CheckProvider refuses a provider that is not one of [Providers], with an error that says what to use instead and wraps EINVAL.
func CheckProvider(name string) error {
	usable := strings.Join(providers[:], ", ")
	switch {
	case slices.Contains(providers[:], name):
		return nil
	case name == "":
		return fmt.Errorf("no provider is named: there are %s: %w", usable, syscall.EINVAL)
	case name == "shm":
		return fmt.Errorf("libfabric's shm cannot be a rail, because a process that is killed leaves locks in its peers' memory taken: "+
			"use tcp, which reaches processes of the same host too, until a rail shm of Weft's own comes: %w", syscall.EINVAL)
	case strings.HasPrefix(name, "verbs"):
		return fmt.Errorf("provider %q cannot be a rail: use the RDMA device itself, by package verbsrail (--rail verbs:DEVICE): %w",
			name, syscall.EINVAL)
	}
	return fmt.Errorf("provider %q cannot be a rail: there are %s: %w", name, usable, syscall.EINVAL)
}

// traits are how a provider does what not all do alike.
type traits struct {
	delivered bool // it has FI_DELIVERY_COMPLETE
	tagged    bool // 8 bytes of data come with a write: room for a tag beside the immediate
	source    bool // it tells who wrote
	atomics   bool // it has atomic operations
}

// hints are what the rail asks for: connections over tcp, and reliable datagrams otherwise.
func (r *Rail) hints() fabric.Hints {
	h := fabric.Hints{Provider: r.cfg.Provider, Node: r.cfg.Node, Service: r.cfg.Service, Domain: r.cfg.Domain,
		Caps: fabric.CapMsg | fabric.CapRMA}
	if r.cfg.connected() {
		h.Type, h.RxContexts = fabric.Msg, fabric.SharedTxContexts
	}
	return h
}

// choose asks for what the provider offers, and says in caps and traits what that is.
func (r *Rail) choose() (*fabric.Info, error) {
	hints := r.hints()
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
		delivered: err == nil,
		tagged:    info.CQDataSize >= 8,
		source:    info.Caps&fabric.CapSource != 0 && !strings.Contains(info.Provider, "ofi_rxm"),
		atomics:   info.Caps&fabric.CapAtomic != 0,
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
	case info.MRMode&fabric.MRProvKey == 0 && info.MRKeySize < 8:
		return fmt.Errorf("%s names memory by keys of %d bytes, which can be guessed: %w", info.Provider, info.MRKeySize,
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
	if r.cfg.connected() {
		r.caps.DeathBy |= rail.ByTransport
		r.caps.Recalls, r.caps.Fences = true, true
	}
	if r.traits.delivered {
		r.caps.Completion = rail.Delivered
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
