package verbs

import (
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// AH is an address handle: where a UD send goes.
type AH struct {
	life life.Object
	ptr  unsafe.Pointer // struct ibv_ah *
	ref  AHRef
}

// AHRef names an AH in a work request, on the device that it was made on. The AH must stay open until the request
// completed. A post with the reference of a closed AH is refused, with an error that wraps [net.ErrClosed].
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
	StaticRate   Rate  // as fast as the port; a slower path needs its rate
	SrcPathBits  uint8 // InfiniBand: the low bits of our LID
}

// Rate is how fast packets are sent on a path (enum ibv_rate); 0 is as fast as the port.
type Rate uint8

// rates are the codes of enum ibv_rate with their Mbit/s, which for lanes of 64/66 coding is a little over the name.
var rates = map[Rate]int{
	2: 2500, 5: 5000, 3: 10000, 6: 20000, 4: 30000, 7: 40000, 8: 60000, 9: 80000, 10: 120000, 11: 14062, 12: 56250,
	13: 112500, 14: 168750, 15: 25781, 16: 103125, 17: 206250, 18: 309375, 19: 28125, 20: 53125, 21: 425000, 22: 637500,
	23: 850000, 24: 1275000,
}

// Mbps is the rate in Mbit/s; −1 for a code that is none.
//
// Implements:
//
//	int ibv_rate_to_mbps(enum ibv_rate rate)
//	int ibv_rate_to_mult(enum ibv_rate rate)
func (r Rate) Mbps() int {
	if mbps, ok := rates[r]; ok {
		return mbps
	}
	return -1
}

// RateOf is the code of a rate in Mbit/s; 0 where there is none of just that.
//
// Implements:
//
//	enum ibv_rate mbps_to_ibv_rate(int mbps)
//	enum ibv_rate mult_to_ibv_rate(int mult)
func RateOf(mbps int) Rate {
	for code, rate := range rates {
		if rate == mbps {
			return code
		}
	}
	return 0
}

// FlowLabelToUDPSport is the UDP source port that RoCE v2 packets of a flow label have (IBTA annex 17): what a switch
// spreads flows by.
//
// Implements:
//
//	uint16_t ibv_flow_label_to_udp_sport(uint32_t fl)
func FlowLabelToUDPSport(label uint32) uint16 {
	return uint16(label&0x03fff^(label&0xfc000)>>14) | 0xc000
}

// ahAttr is struct weft_ah_attr.
type ahAttr struct {
	gid                                                            [16]byte
	flowLabel                                                      uint32
	lid                                                            uint16
	isGlobal, gidIndex, hopLimit, trafficClass, serviceLevel, port uint8
	staticRate, srcPathBits                                        uint8
	_                                                              uint16
}

const defaultHopLimit = 64

func (p Path) attr(port uint8, gidIndex int, remote GID, lid uint16) (ahAttr, error) {
	switch {
	case gidIndex < 0 || gidIndex > 255:
		return ahAttr{}, invalid("address: GID index %d: 0 to 255 are possible", gidIndex)
	case p.ServiceLevel > 15:
		return ahAttr{}, invalid("address: service level %d: 0 to 15 are possible", p.ServiceLevel)
	case p.StaticRate != 0 && p.StaticRate.Mbps() < 0:
		return ahAttr{}, invalid("address: static rate %d is no code of a rate: RateOf gives them", p.StaticRate)
	case p.FlowLabel >= 1<<20:
		return ahAttr{}, invalid("address: flow label %#x is longer than 20 bits", p.FlowLabel)
	}
	a := ahAttr{
		gid: remote, flowLabel: p.FlowLabel, lid: lid, gidIndex: uint8(gidIndex), hopLimit: p.HopLimit,
		trafficClass: p.TrafficClass, serviceLevel: p.ServiceLevel, port: port, staticRate: uint8(p.StaticRate),
		srcPathBits: p.SrcPathBits,
	}
	if a.hopLimit == 0 {
		a.hopLimit = defaultHopLimit
	}
	if !remote.IsZero() {
		a.isGlobal = 1
	}
	return a, nil
}

func (cfg *AHConfig) encode() (ahAttr, error) {
	return cfg.Path.attr(cfg.Port, cfg.GIDIndex, cfg.RemoteGID, cfg.RemoteLID)
}

func (a *ahAttr) export() AHConfig {
	return AHConfig{
		Port: a.port, GIDIndex: int(a.gidIndex), RemoteGID: a.gid, RemoteLID: a.lid,
		Path: Path{
			ServiceLevel: a.serviceLevel, TrafficClass: a.trafficClass, FlowLabel: a.flowLabel, HopLimit: a.hopLimit,
			StaticRate: Rate(a.staticRate), SrcPathBits: a.srcPathBits,
		},
	}
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
		return nil, invalid("create address handle: it needs a GID or a LID")
	}
	attr, err := cfg.encode()
	if err != nil {
		return nil, err
	}
	return pd.newAH(&attr)
}

// CreateAHFromWC makes an address handle of the way back to the sender of a datagram that came to a port. grh is what lies
// before its payload, [GRHSize] bytes.
//
// Implements:
//
//	struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port_num)
//	int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc, struct ibv_grh *grh, struct ibv_ah_attr *ah_attr)
func (pd *PD) CreateAHFromWC(port uint8, wc *WC, grh []byte) (*AH, error) {
	if err := pd.life.Enter(); err != nil {
		return nil, err
	}
	defer pd.life.Exit()
	if wc == nil {
		return nil, invalid("address handle of a datagram: its completion is nil")
	}
	if len(grh) < GRHSize {
		return nil, invalid("address handle of a datagram: %d bytes of header, %d are needed", len(grh), GRHSize)
	}
	attr, err := cAHFromWC(pd.ctx.ptr, port, wc, grh)
	if err != nil {
		return nil, err
	}
	return pd.newAH(&attr)
}

// Resolve finds the Ethernet address that packets to such an address would be sent to, and their VLAN, 0xffff without one:
// for whoever looks for a path that does not work.
//
// Implements:
//
//	int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
func (c *Context) Resolve(cfg AHConfig) (mac [6]byte, vlan uint16, err error) {
	if err := c.life.Enter(); err != nil {
		return mac, 0, err
	}
	defer c.life.Exit()
	attr, err := cfg.encode()
	if err != nil {
		return mac, 0, err
	}
	vlan, err = cResolve(c.ptr, &attr, &mac)
	return mac, vlan, err
}

func (pd *PD) newAH(attr *ahAttr) (*AH, error) {
	ptr, ref, err := cCreateAH(pd.ptr, attr)
	if err != nil {
		return nil, err
	}
	ah := &AH{ptr: ptr, ref: ref}
	if err := ah.life.Init("address handle", &pd.life, ah.destroy); err != nil {
		return nil, closeAfter(err, ah.destroy)
	}
	return ah, nil
}

func (ah *AH) destroy() error { return life.Refused(cDestroyAH(ah.ptr, ah.ref)) }

// Close destroys the handle. No send that uses it may be in flight.
//
// Implements:
//
//	int ibv_destroy_ah(struct ibv_ah *ah)
func (ah *AH) Close() error { return ah.life.Close() }

// Ref returns what names the handle in [SendWR.AH].
func (ah *AH) Ref() AHRef { return ah.ref }

// Raw returns the struct ibv_ah pointer, for calls that this package does not have.
func (ah *AH) Raw() unsafe.Pointer { return ah.ptr }
