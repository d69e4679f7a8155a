package fabric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// Addr names a peer: its place in an address vector (fi_addr_t).
type Addr uint64

// AddrUnspec, as the peer of a receive, is anyone; as the source of a completion, nobody that is known.
const AddrUnspec Addr = math.MaxUint64

// RxAddr names a receive context of a scalable endpoint by the endpoint's address; contextBits is the [AVConfig]'s.
//
// Implements:
//
//	fi_addr_t fi_rx_addr(fi_addr_t fi_addr, int rx_index, int rx_ctx_bits)
func RxAddr(addr Addr, context, contextBits int) Addr {
	if contextBits == 0 {
		return addr
	}
	return Addr(uint64(context)<<(64-contextBits)) | addr
}

// AV is an address vector: the peers that endpoints talk to.
type AV struct {
	life   life.Object
	domain *Domain
	ptr    unsafe.Pointer // struct weft_fi_av *
	raw    unsafe.Pointer // struct fid_av *
	eq     *EQ            // what insertions report to; nil otherwise
}

// AVConfig says how to make an address vector.
type AVConfig struct {
	Count       int // how many peers are expected; a hint
	ContextBits int // for receive contexts of scalable endpoints ([RxAddr])
	// EQ gets an event for each address, which is then inserted by [AV.InsertLater] alone. libfabric has that no more from 2.0 on.
	EQ *EQ
}

// OpenAV makes an address vector. Its addresses are indexes (FI_AV_TABLE).
//
// Implements:
//
//	int fi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context)
//	int fi_av_bind(struct fid_av *av, struct fid *fid, uint64_t flags)
func (d *Domain) OpenAV(cfg AVConfig) (*AV, error) {
	if err := d.life.Enter(); err != nil {
		return nil, err
	}
	defer d.life.Exit()
	if cfg.Count < 0 || cfg.ContextBits < 0 || cfg.ContextBits > 16 {
		return nil, invalid("open address vector: Count is %d, ContextBits %d; they are at least 0, and these at most 16",
			cfg.Count, cfg.ContextBits)
	}
	var queue unsafe.Pointer
	var parents []*life.Object
	if cfg.EQ != nil {
		if err := d.fabric.owns("EQ", cfg.EQ.fabric); err != nil {
			return nil, invalid("open address vector: %w", err)
		}
		queue, parents = cfg.EQ.ptr, []*life.Object{&cfg.EQ.life}
	}
	exit, err := enter(parents...)
	if err != nil {
		return nil, err
	}
	defer exit()
	ptr, err := cOpenAV(d.ptr, cfg.Count, cfg.ContextBits, queue)
	if err != nil {
		return nil, fmt.Errorf("open address vector: %w", err)
	}
	av := &AV{domain: d, ptr: ptr, raw: cRawAV(ptr), eq: cfg.EQ}
	if av.eq != nil {
		av.eq.know(av.raw, av)
	}
	if err := av.life.Init("address vector", &d.life, av.close, parents...); err != nil {
		return nil, closeAfter(err, av.close)
	}
	return av, nil
}

func (av *AV) close() error {
	if err := cCloseAV(av.ptr); err != nil {
		return life.Refused(err)
	}
	if av.eq != nil {
		av.eq.forgetAV(av)
	}
	return nil
}

// InsertLater begins to insert an address. An EventAVComplete with the Context tells of its Peer, by which operations can then call
// it; for one that is refused an *[EventError] with the Context comes first, and its Peer is AddrUnspec. The address vector was made
// with an EQ.
//
// Implements:
//
//	int fi_av_insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *fi_addr, uint64_t flags, void *context)
func (av *AV) InsertLater(context uint64, address []byte) error {
	av.domain.use()
	if err := av.life.Enter(); err != nil {
		return err
	}
	defer av.life.Exit()
	if av.eq == nil {
		return invalid("insert address: the address vector was made without an EQ to report to: use Insert")
	}
	if err := av.domain.told.checkAddress("insert address", address); err != nil {
		return err
	}
	if av.domain.told.AddrFormat == AddrString {
		address = append(address[:len(address):len(address)], 0)
	}
	av.eq.insertion(av, 1)
	err := cInsertLater(av.ptr, address, context)
	if err != nil {
		av.eq.insertion(av, -1)
	}
	return err
}

// inserted is what an event of the address vector is about: the context of an insertion, and where the event says that it has ended
// its peer.
func (av *AV) inserted(record uint64, ended bool) (context uint64, peer Addr) {
	if av.life.Enter() != nil {
		return 0, AddrUnspec
	}
	defer av.life.Exit()
	context, peer, err := cInserted(av.ptr, record, ended)
	if err != nil {
		return context, AddrUnspec
	}
	return context, peer
}

// atOnce is that an insertion can be made that ends with its call.
func (av *AV) atOnce() error {
	if av.eq != nil {
		return invalid("insert addresses: the address vector reports to an EQ: use InsertLater")
	}
	return nil
}

// Close closes the address vector. It is refused with EBUSY while an endpoint is open on it.
func (av *AV) Close() error { return av.life.Close() }

// Raw returns the struct fid_av pointer, for calls that this package does not have.
func (av *AV) Raw() unsafe.Pointer { return av.raw }

func (av *AV) lifetime() *life.Object { return &av.life }

// InsertError is that of [AV.Insert], address by address: nil for those that are in.
type InsertError struct{ Errors []error }

func (e *InsertError) Error() string {
	var parts []string
	for i, err := range e.Errors {
		if err != nil {
			parts = append(parts, fmt.Sprintf("address %d: %v", i, err))
		}
	}
	return fmt.Sprintf("fi_av_insert: %d of %d addresses refused: %s", len(parts), len(e.Errors), strings.Join(parts, "; "))
}

// Unwrap returns the errors of the addresses that were refused.
func (e *InsertError) Unwrap() []error {
	var errs []error
	for _, err := range e.Errors {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// Insert adds peers, by the addresses that their endpoints' Name gives, and returns what to call them by, in one crossing.
// Where some are refused, for want of room or because they are none, the rest are in; the error is an *[InsertError], and
// theirs is AddrUnspec. An address that is in already has the Addr that it had, and is one peer: Remove takes it out once for all who
// have inserted it.
//
// On a transport that keeps no order (EFA) a target needs its initiators in here too, before they write.
//
// Implements:
//
//	int fi_av_insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *fi_addr, uint64_t flags, void *context)
func (av *AV) Insert(addresses ...[]byte) ([]Addr, error) {
	av.domain.use()
	if err := av.life.Enter(); err != nil {
		return nil, err
	}
	defer av.life.Exit()
	if err := av.atOnce(); err != nil {
		return nil, err
	}
	packed, ends := []byte(nil), make([]uint32, len(addresses))
	for i, address := range addresses {
		if err := av.domain.told.checkAddress("insert address", address); err != nil {
			return nil, fmt.Errorf("address %d: %w", i, err)
		}
		packed = append(packed, address...)
		if av.domain.told.AddrFormat == AddrString { // to the shim's C, a string
			packed = append(packed, 0)
		}
		ends[i] = uint32(len(packed))
	}
	if len(addresses) == 0 {
		return nil, nil
	}
	peers, errnos := make([]Addr, len(addresses)), make([]uint32, len(addresses))
	cInsertAV(av.ptr, packed, ends, peers, errnos)
	bad := false
	errs := make([]error, len(errnos))
	for i, errno := range errnos {
		if errno != 0 {
			bad, errs[i], peers[i] = true, reason(int(errno)), AddrUnspec
		}
	}
	if bad {
		return peers, &InsertError{errs}
	}
	return peers, nil
}

// addressSizes are those of formats that have one.
var addressSizes = map[AddrFormat]int{AddrSockaddrIn: 16, AddrSockaddrV6: 28, AddrEFA: 32}

// families are those of the formats that are a struct sockaddr: AF_INET and Linux's AF_INET6.
var families = map[AddrFormat]uint16{AddrSockaddrIn: 2, AddrSockaddrV6: 10}

// familySizes are those of a struct sockaddr whose format is left open (AddrSockaddr), by its family: AF_INET, AF_INET6, AF_IB.
var familySizes = map[uint16]int{2: 16, 10: 28, 27: 48}

// checkAddress keeps providers, which know no length, from reading behind the end of an address, and ofi_rxm of 1.17 from a family that
// it does not know, since its AV takes nothing more after that.
func (i *Info) checkAddress(op string, address []byte) error {
	format := i.AddrFormat
	size, fixed := addressSizes[format]
	family, isSockaddr := families[format]
	if format == AddrSockaddr && len(address) >= 2 {
		size, fixed = familySizes[binary.NativeEndian.Uint16(address)], true
	}
	switch {
	case len(address) == 0 || len(address) > addrSize:
		return invalid("%s: the address has %d bytes; 1 to %d are possible", op, len(address), addrSize)
	case fixed && len(address) != size, format == AddrSockaddr && len(address) < 2:
		return invalid("%s: the address has %d bytes, one of %v has %d", op, len(address), format, size)
	case isSockaddr && binary.NativeEndian.Uint16(address) != family:
		return invalid("%s: the address is of family %d, one of %v is of %d", op, binary.NativeEndian.Uint16(address), format, family)
	}
	return nil
}

// InsertService adds the peer that listens on a node's service.
//
// Implements:
//
//	int fi_av_insertsvc(struct fid_av *av, const char *node, const char *service, fi_addr_t *fi_addr, uint64_t flags,
//		void *context)
func (av *AV) InsertService(node, service string) (Addr, error) {
	av.domain.use()
	if err := av.life.Enter(); err != nil {
		return AddrUnspec, err
	}
	defer av.life.Exit()
	if err := av.atOnce(); err != nil {
		return AddrUnspec, err
	}
	peer, err := cInsertService(av.ptr, node, service)
	if err != nil {
		return AddrUnspec, fmt.Errorf("insert %s port %s: %w", node, service, err)
	}
	return peer, nil
}

// InsertSymmetric adds the peers on services from service on of nodes from node on, as many of each as is said, services
// first. Where a provider does not tell all addresses, as sockets does not, the error wraps [errors.ErrUnsupported].
//
// Implements:
//
//	int fi_av_insertsym(struct fid_av *av, const char *node, size_t nodecnt, const char *service, size_t svccnt,
//		fi_addr_t *fi_addr, uint64_t flags, void *context)
func (av *AV) InsertSymmetric(node string, nodes int, service string, services int) ([]Addr, error) {
	av.domain.use()
	if err := av.life.Enter(); err != nil {
		return nil, err
	}
	defer av.life.Exit()
	if err := av.atOnce(); err != nil {
		return nil, err
	}
	if nodes < 1 || services < 1 || nodes > 1<<16 || services > 1<<16 {
		return nil, invalid("insert %d nodes of %d services: each 1 to 65536", nodes, services)
	}
	peers := make([]Addr, nodes*services)
	return peers, cInsertSymmetric(av.ptr, node, nodes, service, services, peers)
}

// Remove takes peers out. Nothing may be under way to or from them. An address that is not in is an error that wraps
// ENOENT, before anything is done.
//
// Implements:
//
//	int fi_av_remove(struct fid_av *av, fi_addr_t *fi_addr, size_t count, uint64_t flags)
func (av *AV) Remove(peers ...Addr) error {
	av.domain.use()
	if err := av.life.Enter(); err != nil {
		return err
	}
	defer av.life.Exit()
	if len(peers) == 0 {
		return nil
	}
	err := cRemoveAV(av.ptr, peers)
	if errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("remove %d addresses: one is not in the address vector: %w", len(peers), err)
	}
	return err
}

// Lookup returns the address of a peer, as Insert takes it.
//
// Implements:
//
//	int fi_av_lookup(struct fid_av *av, fi_addr_t fi_addr, void *addr, size_t *addrlen)
func (av *AV) Lookup(peer Addr) ([]byte, error) {
	av.domain.use()
	if err := av.life.Enter(); err != nil {
		return nil, err
	}
	defer av.life.Exit()
	address, err := cLookupAV(av.ptr, peer)
	if err != nil {
		return nil, fmt.Errorf("look up address %d: %w", peer, err)
	}
	return av.domain.trim(address), nil
}

// trim leaves the zero byte away that ends an address that is a string.
func (d *Domain) trim(address []byte) []byte {
	if d.told.AddrFormat == AddrString {
		return []byte(text(address))
	}
	return address
}

// Text is an address in words, such as "fi_sockaddr_in://127.0.0.1:4791".
//
// Implements:
//
//	const char *fi_av_straddr(struct fid_av *av, const void *addr, char *buf, size_t *len)
func (av *AV) Text(address []byte) (string, error) {
	if err := av.life.Enter(); err != nil {
		return "", err
	}
	defer av.life.Exit()
	if err := av.domain.told.checkAddress("text of an address", address); err != nil {
		return "", err
	}
	return cAddressText(av.ptr, append(address[:len(address):len(address)], 0)), nil
}
