package verbs

import (
	"sync/atomic"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// MWType is who decides about a memory window's key (enum ibv_mw_type).
type MWType uint32

// The types of memory windows.
const (
	MWType1 MWType = iota + 1 // the key changes at each binding, as the driver likes
	MWType2                   // the low byte of the key counts bindings; bound to a queue pair, and invalidated by sends
)

// MW is a memory window: a remote key for part of a region, which can be given and taken back without registering.
type MW struct {
	life life.Object
	pd   *PD
	ptr  unsafe.Pointer // struct ibv_mw *
	rkey atomic.Uint32
}

// AllocMW makes a memory window, bound to nothing. Where the device has none of the type, the error wraps
// [errors.ErrUnsupported] ([DeviceAttr].Flags tells too).
//
// Implements:
//
//	struct ibv_mw *ibv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
func (pd *PD) AllocMW(typ MWType) (*MW, error) {
	if err := pd.life.Enter(); err != nil {
		return nil, err
	}
	defer pd.life.Exit()
	if typ != MWType1 && typ != MWType2 {
		return nil, invalid("allocate memory window: type %d is neither 1 nor 2", typ)
	}
	ptr, rkey, err := cAllocMW(pd.ptr, uint32(typ))
	if err != nil {
		return nil, err
	}
	mw := &MW{pd: pd, ptr: ptr}
	mw.rkey.Store(rkey)
	if err := mw.life.Init("memory window", &pd.life, mw.dealloc); err != nil {
		return nil, closeAfter(err, mw.dealloc)
	}
	return mw, nil
}

func (mw *MW) dealloc() error { return life.Refused(cDeallocMW(mw.ptr)) }

// Close unbinds and frees the window. It comes before its region's.
//
// Implements:
//
//	int ibv_dealloc_mw(struct ibv_mw *mw)
func (mw *MW) Close() error { return mw.life.Close() }

// RKey is the key of the last binding that was posted.
func (mw *MW) RKey() uint32 { return mw.rkey.Load() }

// Raw returns the struct ibv_mw pointer, for calls that this package does not have.
func (mw *MW) Raw() unsafe.Pointer { return mw.ptr }

// BindConfig says what a memory window opens: Length bytes of a region, which has [AccessMWBind], from Addr on. No bytes
// unbind it.
type BindConfig struct {
	ID     uint64
	MR     *MR
	Addr   uint64
	Length uint64
	Access AccessFlags
	Flags  SendFlags
}

// mwBind is struct weft_mw_bind.
type mwBind struct {
	id, addr, length uint64
	access, flags    uint32
}

// BindMW posts the binding of a window, and returns the key that peers reach it with: not before the binding has completed,
// unless it is told to them by a send behind it. A window of type 1 completes with [WCBindMW] as one of type 2 does.
//
// Implements:
//
//	int ibv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind)
//	void ibv_wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *bind_info)
//	uint32_t ibv_inc_rkey(uint32_t rkey)
func (qp *QP) BindMW(mw *MW, cfg BindConfig) (rkey uint32, err error) {
	if mw == nil || cfg.MR == nil {
		return 0, invalid("bind memory window: MW or MR is nil")
	}
	for _, object := range []*life.Object{&qp.life, &mw.life, &cfg.MR.life} {
		if err := object.Enter(); err != nil {
			return 0, err
		}
		defer object.Exit()
	}
	switch mr := cfg.MR; {
	case mw.pd.ctx != qp.pd.ctx:
		return 0, foreign("bind memory window", "the window", mw.pd.ctx, qp.pd.ctx)
	case mr.pd.ctx != qp.pd.ctx:
		return 0, foreign("bind memory window", "MR", mr.pd.ctx, qp.pd.ctx)
	case mr.access&AccessMWBind == 0 && !mr.wrapped:
		return 0, invalid("bind memory window: its memory region was registered without AccessMWBind")
	case cfg.Addr < mr.addr || cfg.Length > mr.length || cfg.Addr-mr.addr > mr.length-cfg.Length:
		return 0, invalid("bind memory window: %d bytes at %#x are not within the region's %d at %#x",
			cfg.Length, cfg.Addr, mr.length, mr.addr)
	case cfg.Access&^(AccessRemoteWrite|AccessRemoteRead|AccessRemoteAtomic|AccessZeroBased) != 0:
		return 0, invalid("bind memory window: access flags %#x are not for windows", uint32(cfg.Access))
	}
	bind := mwBind{cfg.ID, cfg.Addr, cfg.Length, uint32(cfg.Access), uint32(cfg.Flags)}
	rkey, result := cBindMW(qp.ptr, mw.ptr, cfg.MR.ptr, &bind)
	if result != 0 {
		return 0, qp.postError("ibv_bind_mw", &post{n: 1, result: int32(result)})
	}
	mw.rkey.Store(rkey)
	return rkey, nil
}
