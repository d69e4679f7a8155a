package verbs

import (
	"fmt"
	"strings"
	"time"
)

// DeviceAttr is what a device can do.
type DeviceAttr struct {
	FirmwareVersion string
	NodeGUID        GUID
	SystemImageGUID GUID
	VendorID        uint32
	VendorPartID    uint32
	HardwareVersion uint32
	Ports           int    // ports are numbered from 1
	MaxMRSize       uint64 // bytes
	MaxQP           int
	MaxQPWR         int // work requests in one queue
	MaxSGE          int // entries of one work request
	MaxCQ           int
	MaxCQE          int // completions in one queue
	MaxMR           int
	MaxPD           int
	MaxAH           int
	// MaxQPRdAtom is how many RDMA reads and atomics a queue pair takes at a time as target, MaxQPInitRdAtom how many it
	// starts.
	MaxQPRdAtom     int
	MaxQPInitRdAtom int
	MaxResRdAtom    int // for all queue pairs together, as target
	MaxSGERd        int // entries of one read
	MaxMW           int
	MaxSRQ          int
	MaxSRQWR        int // receives in one shared queue
	MaxSRQSGE       int
	MaxMcastGroups  int
	MaxMcastQPs     int // queue pairs in one multicast group
	MaxPKeys        int
	PageSizes       uint64 // bit n: memory can be registered in pages of 2^n bytes
	Flags           DeviceFlags
	Atomics         AtomicCap
	// AckDelay is how long the device takes to acknowledge: timeouts below it make no sense.
	AckDelay time.Duration
}

// DeviceFlags are what a device has beyond the ordinary (enum ibv_device_cap_flags).
type DeviceFlags uint32

// The device flags that this binding has a use for.
const (
	DeviceResizeMaxWR   DeviceFlags = 1 << 0  // the depth of a queue pair can be changed
	DeviceSRQResize     DeviceFlags = 1 << 13 // that of a shared receive queue too
	DeviceMemWindow     DeviceFlags = 1 << 17 // memory windows of type 1
	DeviceMemMgt        DeviceFlags = 1 << 21 // [OpLocalInv], [OpSendInv]
	DeviceMemWindow2A   DeviceFlags = 1 << 23
	DeviceMemWindow2B   DeviceFlags = 1 << 24
	DeviceMemWindowType             = DeviceMemWindow2A | DeviceMemWindow2B // memory windows of type 2
)

// AtomicCap is what a device's atomics are atomic with (enum ibv_atomic_cap).
type AtomicCap uint32

// Atomic capabilities. With AtomicHCA only other atomics through the same device see them whole: not those of processors.
const (
	AtomicNone AtomicCap = iota
	AtomicHCA
	AtomicGlobal
)

func (c AtomicCap) String() string {
	return name(c, "none", "with the device's own", "with everything")
}

// deviceAttr is struct weft_device_attr.
type deviceAttr struct {
	fwVer                                                      [64]byte
	nodeGUID, systemImageGUID                                  [8]byte
	maxMRSize, pageSizes                                       uint64
	flags, atomics                                             uint32
	vendorID, vendorPartID, hwVer                              uint32
	maxQP, maxQPWR, maxSGE, maxCQ, maxCQE, maxMR, maxPD, maxAH uint32
	maxQPRdAtom, maxQPInitRdAtom, ports, maxSGERd              uint32
	maxResRdAtom, maxMW, maxSRQ, maxSRQWR, maxSRQSGE           uint32
	maxMcastGroups, maxMcastQPs, maxPKeys, ackDelay            uint32
}

func (a *deviceAttr) export() DeviceAttr {
	firmware, _, _ := strings.Cut(string(a.fwVer[:]), "\x00")
	return DeviceAttr{
		FirmwareVersion: firmware, NodeGUID: a.nodeGUID, SystemImageGUID: a.systemImageGUID,
		VendorID: a.vendorID, VendorPartID: a.vendorPartID, HardwareVersion: a.hwVer,
		Ports: int(a.ports), MaxMRSize: a.maxMRSize, MaxQP: int(a.maxQP), MaxQPWR: int(a.maxQPWR), MaxSGE: int(a.maxSGE),
		MaxCQ: int(a.maxCQ), MaxCQE: int(a.maxCQE), MaxMR: int(a.maxMR), MaxPD: int(a.maxPD), MaxAH: int(a.maxAH),
		MaxQPRdAtom: int(a.maxQPRdAtom), MaxQPInitRdAtom: int(a.maxQPInitRdAtom), MaxResRdAtom: int(a.maxResRdAtom),
		MaxSGERd: int(a.maxSGERd), MaxMW: int(a.maxMW), MaxSRQ: int(a.maxSRQ), MaxSRQWR: int(a.maxSRQWR),
		MaxSRQSGE: int(a.maxSRQSGE), MaxMcastGroups: int(a.maxMcastGroups), MaxMcastQPs: int(a.maxMcastQPs),
		MaxPKeys: int(a.maxPKeys), PageSizes: a.pageSizes, Flags: DeviceFlags(a.flags), Atomics: AtomicCap(a.atomics),
		AckDelay: timeoutOf(uint8(a.ackDelay)),
	}
}

// ExtendedAttr is what newer drivers tell beyond [DeviceAttr].
type ExtendedAttr struct {
	// ODP tells whether memory can be registered without being pinned, and by transport which operations may use it.
	ODP                 ODPCaps
	ODPRC, ODPUC, ODPUD ODPOps
	// TimestampMask is the bits of the device's counter that completions carry as their timestamp; 0 without timestamps.
	TimestampMask uint64
	// CoreClockKHz is how many ticks of that counter are a millisecond; 0 where the driver does not tell.
	CoreClockKHz uint64
	Flags        uint64
	// MaxModerationCount completions or MaxModerationPeriod are the most that [CQ.Moderate] takes.
	MaxModerationCount  int
	MaxModerationPeriod time.Duration
	// RateLimitMin and RateLimitMax, kbit/s, bound [QP.SetRateLimit]; 0 where there is no such limit.
	RateLimitMin, RateLimitMax int
	RateLimitTypes             QPTypes
	// Sizes of atomics towards PCI (enum ibv_pci_atomic_op_size).
	PCIFetchAdd, PCISwap, PCICompareSwap uint32
}

// ODPCaps is what a device can do on demand (enum ibv_odp_general_caps).
type ODPCaps uint64

// On-demand paging: of regions ([AccessOnDemand]), and of the whole address space ([PD.RegImplicit]).
const (
	ODPSupport ODPCaps = 1 << iota
	ODPImplicit
)

// ODPOps are operations that may use memory which is not pinned (enum ibv_odp_transport_cap_bits).
type ODPOps uint32

// The operations of a transport on such memory, local or, for writes, reads and atomics, remote.
const (
	ODPSend ODPOps = 1 << iota
	ODPRecv
	ODPWrite
	ODPRead
	ODPAtomic
	ODPSRQRecv
)

// QPTypes is a set of transports.
type QPTypes uint32

// Has tells whether a transport is in the set.
//
// Implements:
//
//	bool ibv_is_qpt_supported(uint32_t caps, enum ibv_qp_type qpt)
func (s QPTypes) Has(typ QPType) bool { return s&(1<<typ) != 0 }

// extendedAttr is struct weft_extended_attr.
type extendedAttr struct {
	odp, timestampMask, coreClockKHz, flags uint64
	odpRC, odpUC, odpUD                     uint32
	maxModerationCount, maxModerationPeriod uint32
	rateLimitMin, rateLimitMax, rateTypes   uint32
	pciFetchAdd, pciSwap, pciCompareSwap, _ uint32
}

// QueryExtended asks the device for its extended attributes. The error wraps [errors.ErrUnsupported] where the driver does
// not know the question.
//
// Implements:
//
//	int ibv_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input, struct ibv_device_attr_ex *attr)
func (c *Context) QueryExtended() (ExtendedAttr, error) {
	if err := c.life.Enter(); err != nil {
		return ExtendedAttr{}, err
	}
	defer c.life.Exit()
	a, err := cQueryExtended(c.ptr)
	if err != nil {
		return ExtendedAttr{}, fmt.Errorf("%s: %w", c.name, err)
	}
	return ExtendedAttr{
		ODP: ODPCaps(a.odp), ODPRC: ODPOps(a.odpRC), ODPUC: ODPOps(a.odpUC), ODPUD: ODPOps(a.odpUD), TimestampMask: a.timestampMask,
		CoreClockKHz: a.coreClockKHz, Flags: a.flags, MaxModerationCount: int(a.maxModerationCount),
		MaxModerationPeriod: time.Duration(a.maxModerationPeriod) * time.Microsecond,
		RateLimitMin:        int(a.rateLimitMin), RateLimitMax: int(a.rateLimitMax), RateLimitTypes: QPTypes(a.rateTypes),
		PCIFetchAdd: a.pciFetchAdd, PCISwap: a.pciSwap, PCICompareSwap: a.pciCompareSwap,
	}, nil
}
