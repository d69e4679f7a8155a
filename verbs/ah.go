package verbs

import (
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// AH is an address handle: where a UD send goes.
type AH struct {
	life life.Object
	ptr  unsafe.Pointer // struct ibv_ah *
}

// AHRef names an open AH in a work request. The AH must stay open until the request completed.
type AHRef uint64

// AHConfig says where to: the remote port's address, and which of our addresses it is reached from.
type AHConfig struct {
	Port      uint8 // ours
	GIDIndex  int   // ours, on Port
	RemoteGID GID
	RemoteLID uint16 // InfiniBand; 0 on RoCE
	Path
}

// Path is how packets travel. The zero value: service level 0, traffic class 0, flow label 0, 64 hops.
type Path struct {
	ServiceLevel uint8
	TrafficClass uint8
	FlowLabel    uint32
	HopLimit     uint8 // 0 is 64
}

// ahAttr is struct weft_ah_attr.
type ahAttr struct {
	gid                                                            [16]byte
	flowLabel                                                      uint32
	lid                                                            uint16
	isGlobal, gidIndex, hopLimit, trafficClass, serviceLevel, port uint8
}

const defaultHopLimit = 64

func (p Path) attr(port uint8, gidIndex int, remote GID, lid uint16) (ahAttr, error) {
	switch {
	case gidIndex < 0 || gidIndex > 255:
		return ahAttr{}, invalid("GID index %d: 0 to 255 are possible", gidIndex)
	case p.ServiceLevel > 15:
		return ahAttr{}, invalid("service level %d: 0 to 15 are possible", p.ServiceLevel)
	case p.FlowLabel >= 1<<20:
		return ahAttr{}, invalid("flow label %#x: it has 20 bits", p.FlowLabel)
	}
	a := ahAttr{
		gid: remote, flowLabel: p.FlowLabel, lid: lid, gidIndex: uint8(gidIndex), hopLimit: p.HopLimit,
		trafficClass: p.TrafficClass, serviceLevel: p.ServiceLevel, port: port,
	}
	if a.hopLimit == 0 {
		a.hopLimit = defaultHopLimit
	}
	if !remote.IsZero() {
		a.isGlobal = 1
	}
	return a, nil
}

// CreateAH makes an address handle.
//
// Implements:
//
//	struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
func (pd *PD) CreateAH(cfg AHConfig) (*AH, error) {
	if err := pd.life.Enter(); err != nil {
		return nil, err
	}
	defer pd.life.Exit()
	if cfg.RemoteGID.IsZero() && cfg.RemoteLID == 0 {
		return nil, invalid("create address handle: neither a GID nor a LID")
	}
	attr, err := cfg.Path.attr(cfg.Port, cfg.GIDIndex, cfg.RemoteGID, cfg.RemoteLID)
	if err != nil {
		return nil, err
	}
	ptr, err := cCreateAH(pd.ptr, &attr)
	if err != nil {
		return nil, err
	}
	ah := &AH{ptr: ptr}
	if err := ah.life.Init("address handle", &pd.life, ah.destroy); err != nil {
		return nil, closeAfter(err, ah.destroy)
	}
	return ah, nil
}

func (ah *AH) destroy() error { return cDestroyAH(ah.ptr) }

// Close destroys the handle. No send that uses it may be in flight.
//
// Implements:
//
//	int ibv_destroy_ah(struct ibv_ah *ah)
func (ah *AH) Close() error { return ah.life.Close() }

// Ref returns what names the handle in [SendWR.AH].
func (ah *AH) Ref() AHRef { return AHRef(uintptr(ah.ptr)) }

// Raw returns the struct ibv_ah pointer, for calls that this package does not have.
func (ah *AH) Raw() unsafe.Pointer { return ah.ptr }
