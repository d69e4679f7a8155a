package fabric

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// Access is what may be done with memory: CapSend and CapRecv, and CapRead and CapWrite as the source or destination of one's
// own operations; CapRemoteRead and CapRemoteWrite by peers.
type Access = Caps

// The usual rights.
const (
	AccessLocal  Access = CapSend | CapRecv | CapRead | CapWrite
	AccessRemote Access = CapRemoteRead | CapRemoteWrite
	AccessAll    Access = AccessLocal | AccessRemote
)

// HMEM is where memory is (enum fi_hmem_iface).
type HMEM uint32

// The kinds of memory.
const (
	HMEMSystem HMEM = iota
	HMEMCUDA
	HMEMROCR
	HMEMZE
	HMEMNeuron
	HMEMSynapseAI
)

// MRConfig says how to register memory. The zero value is memory of this machine that only its own operations use.
type MRConfig struct {
	Access Access // 0 is AccessLocal
	// Key is what peers will name the region by, where the provider leaves that to its user (no MRProvKey); 0 has one drawn
	// at random, so that a peer's stale key hits nothing.
	Key    uint64
	HMEM   HMEM   // needs CapHMEM
	Device uint64 // of HMEM: its number
	// RMAEvent: a counter will count what peers do with the region, which stays disabled until [MR.Enable].
	RMAEvent bool
}

func (cfg *MRConfig) validate(info *Info, length uint64) error {
	switch keys := info.MRKeySize; {
	case length == 0:
		return invalid("register memory: it is empty")
	case cfg.Access&^AccessAll != 0:
		return invalid("register memory: the access %v is not one of AccessAll", cfg.Access&^AccessAll)
	case cfg.Key != 0 && info.MRMode&MRProvKey != 0:
		return invalid("register memory: Key is given, but %s chooses keys itself (MRProvKey)", info.Provider)
	case keys < 8 && cfg.Key>>(8*keys) != 0:
		return invalid("register memory: Key %#x is longer than the %d bytes of %s", cfg.Key, keys, info.Provider)
	case cfg.HMEM > HMEMSynapseAI:
		return invalid("register memory: unknown kind of memory %d", cfg.HMEM)
	case cfg.HMEM != HMEMSystem && info.Caps&CapHMEM == 0:
		return invalid("register memory: HMEM is %d, but the domain was opened without CapHMEM", cfg.HMEM)
	}
	return nil
}

// MR is a memory region: memory that a provider may use.
type MR struct {
	life   life.Object
	domain *Domain
	ptr    unsafe.Pointer // struct weft_fi_mr *
	raw    unsafe.Pointer // struct fid_mr *
	addr   uint64
	length uint64
	lkey   uint32
	key    atomic.Uint64
	pins   []*life.Pin // of Go memory
	holds  holds       // what it is bound to
}

// RegMR registers mem. It may be any memory that stays where it is until the region is closed: a mapping, C memory, or a
// Go slice, which RegMR pins for that time. Every segment of an operation lies in a region of the domain, also where the
// provider itself would not ask for that: so an address outside is an error and not a crash.
//
// Where a NIC's provider says ENOMEM, and the limit on locked memory binds this process, the error wraps [ErrMemlock] too.
//
// There is no cache behind this. Memory that is unmapped must be deregistered first, and what is mapped there later
// registered anew.
//
// Implements:
//
//	int fi_mr_reg(struct fid_domain *domain, const void *buf, size_t len, uint64_t acs, uint64_t offset,
//		uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
//	int fi_mr_regattr(struct fid_domain *domain, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr)
func (d *Domain) RegMR(mem []byte, cfg MRConfig) (*MR, error) {
	mr := &MR{domain: d, addr: addressOf(mem), length: uint64(len(mem)), pins: []*life.Pin{life.NewPin(mem)}}
	return d.register(mr, cfg, func(attr *mrAttr) error { return cRegMR(d.ptr, attr, mr) })
}

func addressOf(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }

// RegDevice registers length bytes of an accelerator's memory by their address there. Whatever has it there keeps it.
func (d *Domain) RegDevice(addr, length uint64, cfg MRConfig) (*MR, error) {
	mr := &MR{domain: d, addr: addr, length: length}
	return d.register(mr, cfg, func(attr *mrAttr) error { return cRegMR(d.ptr, attr, mr) })
}

// RegDMABuf registers length bytes of a dma-buf from offset on; base is where the whole of it is mapped, here or on its
// device. Where the headers that the program was built with know no dma-buf (before 1.20), or the provider does not, the
// error wraps [errors.ErrUnsupported].
func (d *Domain) RegDMABuf(fd int, offset, length, base uint64, cfg MRConfig) (*MR, error) {
	if fd < 0 {
		return nil, invalid("register dma-buf: descriptor %d is negative", fd)
	}
	mr := &MR{domain: d, addr: base + offset, length: length}
	return d.register(mr, cfg, func(attr *mrAttr) error {
		attr.fd, attr.offset, attr.addr = int32(fd), offset, base
		return cRegMR(d.ptr, attr, mr)
	})
}

// RegMRV registers several pieces of memory as one region for peers, who reach them as if they followed one another. It has
// no local key. How many pieces there may be is [Info].MRIOVLimit.
//
// Implements:
//
//	int fi_mr_regv(struct fid_domain *domain, const struct iovec *iov, size_t count, uint64_t acs, uint64_t offset,
//		uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
func (d *Domain) RegMRV(pieces [][]byte, cfg MRConfig) (*MR, error) {
	if limit := d.told.MRIOVLimit; len(pieces) == 0 || uint64(len(pieces)) > limit {
		return nil, invalid("register %d pieces of memory: %s takes 1 to %d", len(pieces), d.told.Provider, limit)
	}
	mr := &MR{domain: d, addr: addressOf(pieces[0])}
	segs := make([]Seg, len(pieces))
	if i := slices.IndexFunc(pieces, func(piece []byte) bool { return len(piece) == 0 }); i >= 0 {
		return nil, invalid("register pieces of memory: piece %d is empty", i)
	}
	for i, piece := range pieces {
		mr.pins = append(mr.pins, life.NewPin(piece))
		segs[i] = Seg{Addr: addressOf(piece), Length: uint64(len(piece))}
		mr.length += uint64(len(piece))
	}
	return d.register(mr, cfg, func(attr *mrAttr) error { return cRegMRV(d.ptr, segs, attr, mr) })
}

// mrAttr is struct weft_fi_mr_attr.
type mrAttr struct {
	addr, length, access, offset, requestedKey, flags, device uint64
	iface                                                     uint32
	fd                                                        int32
	lkey, _                                                   uint32
}

// register checks a region and has it made by reg; where it is not made, nothing stays pinned.
func (d *Domain) register(mr *MR, cfg MRConfig, reg func(*mrAttr) error) (*MR, error) {
	if err := d.open(mr, cfg, reg); err != nil {
		if mr.ptr == nil { // otherwise the provider knew the memory, and the region's close unpins it unless that was refused
			mr.unpin()
		}
		return nil, err
	}
	return mr, nil
}

func (d *Domain) open(mr *MR, cfg MRConfig, reg func(*mrAttr) error) error {
	d.use()
	if err := d.life.Enter(); err != nil {
		return err
	}
	defer d.life.Exit()
	if err := cfg.validate(d.told, mr.length); err != nil {
		return err
	}
	attr := mrAttr{
		addr: mr.addr, length: mr.length, access: uint64(cfg.Access), requestedKey: cfg.Key, device: cfg.Device,
		iface: uint32(cfg.HMEM), fd: -1,
	}
	if attr.access == 0 {
		attr.access = uint64(AccessLocal)
	}
	if cfg.RMAEvent {
		attr.flags |= uint64(CapRMAEvent)
	}
	err := d.makeMR(cfg.Key, &attr, reg)
	if err != nil {
		return fmt.Errorf("register %d bytes with %s: %w", mr.length, d.told.Provider, d.explain(err, mr.length))
	}
	mr.raw, mr.lkey = cRawMR(mr.ptr), attr.lkey
	mr.key.Store(attr.requestedKey)
	if err := mr.life.Init("memory region", &d.life, mr.close); err != nil {
		return closeAfter(err, mr.close)
	}
	return nil
}

func (d *Domain) makeMR(key uint64, attr *mrAttr, reg func(*mrAttr) error) error {
	random := key == 0 && d.told.MRMode&MRProvKey == 0
	for attempt := 0; ; attempt++ {
		if random {
			attr.requestedKey = randomKey(d.told.MRKeySize)
		}
		if err := reg(attr); err == nil || !random || attempt == 3 || !errors.Is(err, ENoKey) {
			return err
		}
	}
}

// randomKey draws a key of so many bytes, but never FI_KEY_NOTAVAIL.
func randomKey(size uint64) uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.NativeEndian.Uint64(b[:]) >> (64 - 8*min(max(size, 1), 8)) &^ (1 << 63)
}

func (mr *MR) close() error {
	if err := cCloseMR(mr.ptr); err != nil {
		return life.Refused(err)
	}
	mr.unpin()
	mr.holds.release()
	return nil
}

// unpin lets memory go that the provider does not know any more.
func (mr *MR) unpin() {
	for _, pin := range mr.pins {
		pin.Release()
	}
}

// Close deregisters the memory. No operation that uses it may be under way, here or at a peer.
func (mr *MR) Close() error {
	mr.domain.use()
	return mr.life.Close()
}

// Addr is the address by which peers reach the region's first byte: its own with MRVirtAddr, 0 without.
func (mr *MR) Addr() uint64 {
	if mr.domain.told.MRMode&MRVirtAddr != 0 {
		return mr.addr
	}
	return 0
}

// Local is the address of the region's first byte for segments here.
func (mr *MR) Local() uint64 { return mr.addr }

// Length is the region's length in bytes.
func (mr *MR) Length() uint64 { return mr.length }

// LKey goes into the segments of operations here, which give the provider its descriptor of the region.
//
// Implements:
//
//	void *fi_mr_desc(struct fid_mr *mr)
func (mr *MR) LKey() uint32 { return mr.lkey }

// RKey lets peers reach the region, as far as its access allows.
//
// Implements:
//
//	uint64_t fi_mr_key(struct fid_mr *mr)
func (mr *MR) RKey() uint64 { return mr.key.Load() }

// Seg is a part of the region for operations here.
func (mr *MR) Seg(offset, length uint64) Seg {
	return Seg{Addr: mr.addr + offset, Length: length, LKey: mr.lkey}
}

// Raw returns the struct fid_mr pointer, for calls that this package does not have.
func (mr *MR) Raw() unsafe.Pointer { return mr.raw }

func (mr *MR) lifetime() *life.Object { return &mr.life }

// RawKey is the key of a region whose provider has longer ones than 8 bytes (MRRaw), with the address that goes with it.
//
// Implements:
//
//	int fi_mr_raw_attr(struct fid_mr *mr, uint64_t *base_addr, uint8_t *raw_key, size_t *key_size, uint64_t flags)
func (mr *MR) RawKey() (base uint64, key []byte, err error) {
	if err := mr.life.Enter(); err != nil {
		return 0, nil, err
	}
	defer mr.life.Exit()
	return cRawKey(mr.ptr)
}

// MapKey turns a peer's RawKey into a key for operations here; UnmapKey gives it back.
//
// Implements:
//
//	int fi_mr_map_raw(struct fid_domain *domain, uint64_t base_addr, uint8_t *raw_key, size_t key_size, uint64_t *key,
//		uint64_t flags)
func (d *Domain) MapKey(base uint64, key []byte) (uint64, error) {
	if err := d.life.Enter(); err != nil {
		return 0, err
	}
	defer d.life.Exit()
	if len(key) == 0 {
		return 0, invalid("map key: it is empty")
	}
	return cMapKey(d.ptr, base, key)
}

// UnmapKey gives back what MapKey made.
//
// Implements:
//
//	int fi_mr_unmap_key(struct fid_domain *domain, uint64_t key)
func (d *Domain) UnmapKey(key uint64) error {
	if err := d.life.Enter(); err != nil {
		return err
	}
	defer d.life.Exit()
	return cUnmapKey(d.ptr, key)
}

// BindEndpoint gives the region to an endpoint, where the provider has MREndpoint; then [MR.Enable].
//
// Implements:
//
//	int fi_mr_bind(struct fid_mr *mr, struct fid *bfid, uint64_t flags)
func (mr *MR) BindEndpoint(ep *Endpoint) error {
	if ep == nil {
		return invalid("bind memory region: the endpoint is nil")
	}
	if err := mr.domain.owns("the endpoint", ep.domain); err != nil {
		return invalid("bind memory region: %w", err)
	}
	return mr.holds.during("memory region", []*life.Object{&mr.life, &ep.life}, func() error {
		return cBindMREndpoint(mr.ptr, ep.ptr)
	})
}

// BindCounter has a counter count what peers write into the region.
//
// Implements:
//
//	int fi_mr_bind(struct fid_mr *mr, struct fid *bfid, uint64_t flags)
func (mr *MR) BindCounter(counter *Counter) error {
	if counter == nil {
		return invalid("bind memory region: the counter is nil")
	}
	if err := mr.domain.owns("the counter", counter.domain); err != nil {
		return invalid("bind memory region: %w", err)
	}
	return mr.holds.during("memory region", []*life.Object{&mr.life, &counter.life}, func() error {
		return cBindMRCounter(mr.ptr, counter.ptr, uint64(CapRemoteWrite))
	})
}

// Enable lets a region be used that was left disabled, once it is bound.
//
// Implements:
//
//	int fi_mr_enable(struct fid_mr *mr)
func (mr *MR) Enable() error {
	if err := mr.life.Enter(); err != nil {
		return err
	}
	defer mr.life.Exit()
	if err := cEnableMR(mr.ptr); err != nil {
		return err
	}
	mr.key.Store(cMRKey(mr.ptr))
	return nil
}

// Refresh tells a provider with MRMMUNotify that other pages are behind a part of the region.
//
// Implements:
//
//	int fi_mr_refresh(struct fid_mr *mr, const struct iovec *iov, size_t count, uint64_t flags)
func (mr *MR) Refresh(offset, length uint64) error {
	if err := mr.life.Enter(); err != nil {
		return err
	}
	defer mr.life.Exit()
	if offset > mr.length || length > mr.length-offset {
		return invalid("refresh memory region: %d bytes at offset %d reach beyond its %d bytes", length, offset, mr.length)
	}
	return cRefreshMR(mr.ptr, mr.addr+offset, length)
}
