package fabric

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Version is a version of libfabric, of its interface or of a provider.
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// AtLeast tells whether v is that version or a newer one.
func (v Version) AtLeast(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

func version(v uint32) Version { return Version{int(v >> 16), int(v & 0xffff)} }

// LibraryVersion is the version of the libfabric that this program found. Its error wraps [ErrNoLibrary].
//
// Implements:
//
//	uint32_t fi_version(void)
func LibraryVersion() (Version, error) {
	v, err := cVersion()
	return version(v), err
}

// libraryVersion is the version of a library that is known to be loaded.
func libraryVersion() Version {
	v, _ := cVersion()
	return version(v)
}

// Hints say what is wanted; a zero field leaves the choice to the providers.
type Hints struct {
	// Node and Service are what to listen on, a host name or address and a port, or with Remote whom to talk to; of shm,
	// a name of its own.
	Node, Service string
	Remote        bool

	Provider string // such as "tcp;ofi_rxm", "shm", "efa"; "tcp" takes whatever is layered on it too
	Fabric   string
	Domain   string // such as "lo"

	Type       EndpointType // 0 is RDM
	Caps       Caps
	MRMode     MRMode // further ones that the caller meets
	Mode       Mode   // likewise
	AddrFormat AddrFormat

	Threading       Threading // 0 is ThreadSafe
	ControlProgress Progress
	DataProgress    Progress

	MsgOrder   Order // of sends and receives alike
	CompOrder  Order // of their completions: [OrderStrict], [OrderData], or neither
	TxOpFlags  Flags // of operations that are posted without flags
	RxOpFlags  Flags
	InjectSize int
	TxSize     int // operations at a time
	RxSize     int
	// TxSegments and RxSegments are how many segments an operation is to take, RMASegments how many pieces of a peer's memory.
	TxSegments, RxSegments, RMASegments int

	// ResourceMgmt: whether the provider keeps queues from overrunning.
	ResourceMgmt ResourceMgmt

	Class      TrafficClass
	TxContexts int // of a scalable endpoint, or [SharedTxContexts]
	RxContexts int
}

// SharedTxContexts asks for endpoints that share a transmit context ([Domain.OpenSharedTx]), and as RxContexts for those
// that share a receive context ([Domain.OpenSharedRx]).
const SharedTxContexts = -1

func (h *Hints) validate() error {
	for _, name := range []string{h.Provider, h.Fabric, h.Domain} {
		if len(name) >= nameSize || strings.ContainsRune(name, 0) {
			return invalid("get infos: the name %q has %d bytes; it may have %d, and no zero byte", name, len(name), nameSize-1)
		}
	}
	if strings.ContainsRune(h.Node+h.Service, 0) {
		return invalid("get infos: Node %q or Service %q has a zero byte", h.Node, h.Service)
	}
	for _, check := range []struct {
		field        string
		value, least int
	}{
		{"InjectSize", h.InjectSize, 0}, {"TxSize", h.TxSize, 0}, {"RxSize", h.RxSize, 0},
		{"TxSegments", h.TxSegments, 0}, {"RxSegments", h.RxSegments, 0}, {"RMASegments", h.RMASegments, 0},
		{"TxContexts", h.TxContexts, SharedTxContexts}, {"RxContexts", h.RxContexts, SharedTxContexts},
	} {
		if check.value < check.least {
			return invalid("get infos: %s is %d, the least is %d", check.field, check.value, check.least)
		}
	}
	if h.ResourceMgmt > ResourceMgmtEnabled {
		return invalid("get infos: unknown resource management %d", h.ResourceMgmt)
	}
	if h.Type > RDM {
		return invalid("get infos: endpoint type %v is neither RDM, MSG nor DGRAM", h.Type)
	}
	return nil
}

// raw is what the shim makes a struct fi_info of.
func (h *Hints) raw() *rawInfo {
	contexts := func(n int) uint64 { return uint64(n) } // -1 is FI_SHARED_CONTEXT
	mr := h.MRMode | mrModesMet
	if h.Caps&CapHMEM != 0 {
		mr |= MRHMEM
	}
	r := &rawInfo{
		caps: uint64(h.Caps), mode: uint64(h.Mode | ModeContext | ModeContext2), mrMode: uint32(mr),
		epType: uint32(h.Type), addrFormat: uint32(h.AddrFormat), threading: uint32(h.Threading),
		controlProgress: uint32(h.ControlProgress), dataProgress: uint32(h.DataProgress),
		txMsgOrder: uint64(h.MsgOrder), rxMsgOrder: uint64(h.MsgOrder),
		txCompOrder: uint64(h.CompOrder), rxCompOrder: uint64(h.CompOrder), resourceMgmt: uint32(h.ResourceMgmt),
		txIOVLimit: uint64(h.TxSegments), rxIOVLimit: uint64(h.RxSegments), txRMALimit: uint64(h.RMASegments),
		txOpFlags: uint64(h.TxOpFlags), rxOpFlags: uint64(h.RxOpFlags),
		txInjectSize: uint64(h.InjectSize), txSize: uint64(h.TxSize), rxSize: uint64(h.RxSize),
		tclass: uint32(h.Class), epTxCtxCnt: contexts(h.TxContexts), epRxCtxCnt: contexts(h.RxContexts),
	}
	if r.epType == 0 {
		r.epType = uint32(RDM)
	}
	if r.threading == 0 {
		r.threading = uint32(ThreadSafe)
	}
	copy(r.provider[:], orDefaultProvider(h.Provider))
	copy(r.fabric[:], h.Fabric)
	copy(r.domain[:], h.Domain)
	return r
}

// flagSource has fi_getinfo take node and service for the local address (FI_SOURCE).
const flagSource = 1 << 57

// GetInfo lists what providers offer for the hints, the best first. None is an error that wraps [ErrNoProvider]; one that
// wraps [ErrNoLibrary] says that libfabric is missing.
//
// Implements:
//
//	struct fi_info *fi_allocinfo(void)
//	int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
//		struct fi_info **info)
//	struct fi_info *fi_dupinfo(const struct fi_info *info)
//	void fi_freeinfo(struct fi_info *info)
func GetInfo(hints Hints) ([]*Info, error) {
	if err := hints.validate(); err != nil {
		return nil, err
	}
	flags := uint64(0)
	if !hints.Remote && hints.Node+hints.Service != "" {
		flags = flagSource
	}
	list, err := cGetInfo(hints.Node, hints.Service, flags, hints.raw())
	switch {
	case errors.Is(err, syscall.ENODATA):
		return nil, fmt.Errorf("%w: %s; `fi_info -l` lists the providers%s (%w)", ErrNoProvider, hints.describe(), hints.unresolved(), err)
	case err != nil:
		return nil, fmt.Errorf("get infos: %w", err)
	}
	infos := make([]*Info, len(list))
	for i, ptr := range list {
		infos[i] = newInfo(ptr, hints.Node+hints.Service != "")
	}
	return preferred(infos), nil
}

// unresolved says what else may be wrong where a node is named.
func (h *Hints) unresolved() string {
	if h.Node == "" {
		return ""
	}
	return ", and this machine must be able to resolve the node"
}

// describe is what an error says was asked for.
func (h *Hints) describe() string {
	typ := h.Type
	if typ == 0 {
		typ = RDM
	}
	text := fmt.Sprintf("%v endpoints", typ)
	for _, part := range []struct{ what, value string }{
		{"provider", h.Provider}, {"fabric", h.Fabric}, {"domain", h.Domain}, {"node", h.Node}, {"service", h.Service},
	} {
		if part.value != "" {
			text += fmt.Sprintf(", %s %s", part.what, part.value)
		}
	}
	if h.Caps != 0 {
		text += fmt.Sprintf(", capabilities %v", h.Caps)
	}
	return text
}

// Info is one way to communicate that a provider offers (struct fi_info). Its fields tell what was granted; changing them
// changes nothing.
type Info struct {
	Provider, Fabric, Domain    string
	NIC                         string // the device's name, where the provider tells
	ProviderVersion, APIVersion Version
	Type                        EndpointType
	Protocol, ProtocolVersion   uint32
	Caps                        Caps
	Mode                        Mode
	MRMode                      MRMode
	AddrFormat                  AddrFormat
	SrcAddr, DestAddr           []byte
	Threading                   Threading
	ControlProgress             Progress
	DataProgress                Progress
	ResourceMgmt                ResourceMgmt

	Tx, Rx ContextAttr

	MaxMsgSize    uint64 // bytes of a message, a write or a read
	MsgPrefixSize uint64 // with ModeMsgPrefix
	MaxOrderWAW   uint64 // bytes up to which OrderWAW holds
	MemTagFormat  uint64
	MRKeySize     uint64 // bytes of a key that a user chooses
	MRIOVLimit    uint64 // pieces of one region
	CQDataSize    uint64 // bytes of remote completion data
	Endpoints     uint64 // of a domain, at most
	MaxTxContexts uint64 // of a scalable endpoint
	MaxRxContexts uint64
	MaxSharedTx   uint64
	MaxSharedRx   uint64
	LinkSpeed     uint64 // bits a second; 0 where the provider names no NIC
	LinkMTU       uint64

	named   bool           // the address is one that was asked for
	request *request       // of EventConnReq
	ptr     unsafe.Pointer // struct fi_info *
}

// request is a connection that a peer asks for. The provider gives what it keeps of one to whoever answers first, so it is
// answered once.
type request struct {
	to       *Listener
	answered atomic.Bool
}

// answer takes an info's request, if it is of one, and returns an error for one that was answered.
func (i *Info) answer() error {
	if i.request != nil && !i.request.answered.CompareAndSwap(false, true) {
		return errors.New("the connection request was accepted or rejected already")
	}
	return nil
}

// told is the info as libfabric has it, whatever was done to the fields.
func (i *Info) told() (*Info, error) {
	if i == nil || i.ptr == nil {
		return nil, errors.New("there is no info: take one of GetInfo or of an Event")
	}
	defer runtime.KeepAlive(i)
	return cReadInfo(i.ptr).export(), nil
}

// ContextAttr are the limits of one direction.
type ContextAttr struct {
	Caps        Caps
	Mode        Mode
	OpFlags     Flags
	Order       Order
	CompOrder   Order
	InjectSize  uint64 // bytes that FlagInject takes; of Tx
	Size        uint64 // operations at a time
	Segments    uint64 // of one operation
	RMASegments uint64 // pieces of a peer's memory in one operation; of Tx
}

// newInfo owns ptr. A struct fi_info is plain memory that no NIC knows, so the collector may free it.
func newInfo(ptr unsafe.Pointer, named bool) *Info {
	raw := cReadInfo(ptr)
	i := raw.export()
	i.ptr, i.named = ptr, named
	runtime.AddCleanup(i, cFreeInfo, ptr)
	return i
}

// String is the whole of it, as the command fi_info prints it.
func (i *Info) String() string {
	if i.ptr == nil {
		return "no info"
	}
	defer runtime.KeepAlive(i)
	return cInfoText(i.ptr)
}

// Summary is one line: provider, type, domain, fabric, and what it can do.
func (i *Info) Summary() string {
	return fmt.Sprintf("%s %v domain %s fabric %s, %v progress, inject %d, caps%v", i.Provider, i.Type, i.Domain, i.Fabric,
		i.DataProgress, i.Tx.InjectSize, i.Caps)
}

// Raw returns the struct fi_info pointer, for calls that this package does not have. It is valid as long as the Info is
// referred to.
func (i *Info) Raw() unsafe.Pointer { return i.ptr }

func (r *rawInfo) export() *Info {
	return &Info{
		Provider: text(r.provider[:]), Fabric: text(r.fabric[:]), Domain: text(r.domain[:]), NIC: text(r.nic[:]),
		ProviderVersion: version(r.provVersion), APIVersion: version(r.apiVersion),
		Type: EndpointType(r.epType), Protocol: r.protocol, ProtocolVersion: r.protocolVersion,
		Caps: Caps(r.caps), Mode: Mode(r.mode), MRMode: MRMode(r.mrMode), AddrFormat: AddrFormat(r.addrFormat),
		SrcAddr:   bytes.Clone(r.srcAddr[:min(r.srcAddrLen, addrSize)]),
		DestAddr:  bytes.Clone(r.destAddr[:min(r.destAddrLen, addrSize)]),
		Threading: Threading(r.threading), ControlProgress: Progress(r.controlProgress), DataProgress: Progress(r.dataProgress),
		Tx: ContextAttr{
			Caps: Caps(r.txCaps), Mode: Mode(r.txMode), OpFlags: Flags(r.txOpFlags), Order: Order(r.txMsgOrder),
			CompOrder: Order(r.txCompOrder), InjectSize: r.txInjectSize, Size: r.txSize, Segments: r.txIOVLimit,
			RMASegments: r.txRMALimit,
		},
		Rx: ContextAttr{
			Caps: Caps(r.rxCaps), Mode: Mode(r.rxMode), OpFlags: Flags(r.rxOpFlags), Order: Order(r.rxMsgOrder),
			CompOrder: Order(r.rxCompOrder), Size: r.rxSize, Segments: r.rxIOVLimit,
		},
		ResourceMgmt: ResourceMgmt(r.resourceMgmt),
		MaxMsgSize:   r.maxMsgSize, MsgPrefixSize: r.msgPrefixSize, MaxOrderWAW: r.maxOrderWAW, MemTagFormat: r.memTagFormat,
		MRKeySize: r.mrKeySize, MRIOVLimit: r.mrIOVLimit, CQDataSize: r.cqDataSize, Endpoints: r.epCnt,
		MaxTxContexts: r.maxEPTx, MaxRxContexts: r.maxEPRx, MaxSharedTx: r.maxEPStx, MaxSharedRx: r.maxEPSrx,
		LinkSpeed: r.linkSpeed, LinkMTU: r.linkMTU,
	}
}

// text is a C string in an array.
func text(b []byte) string {
	name, _, _ := bytes.Cut(b, []byte{0})
	return string(name)
}

// Param is a variable of the environment that libfabric or a provider reads.
type Param struct{ Name, Help, Value string }

// Params lists the variables of the environment that libfabric and its providers read.
//
// Implements:
//
//	int fi_getparams(struct fi_param **params, int *count)
//	void fi_freeparams(struct fi_param *params)
func Params() ([]Param, error) { return cParams() }

const (
	nameSize = 128
	addrSize = 256
	textSize = 128
)

// rawInfo is struct weft_fi_info.
type rawInfo struct {
	caps, mode                                                                                       uint64
	txCaps, txMode, txOpFlags, txMsgOrder, txCompOrder, txInjectSize, txSize, txIOVLimit, txRMALimit uint64
	rxCaps, rxMode, rxOpFlags, rxMsgOrder, rxCompOrder, rxSize, rxIOVLimit                           uint64
	maxMsgSize, msgPrefixSize, maxOrderRAW, maxOrderWAR, maxOrderWAW, memTagFormat                   uint64
	epTxCtxCnt, epRxCtxCnt                                                                           uint64
	mrKeySize, cqDataSize, cqCnt, epCnt, maxEPTx, maxEPRx, maxEPStx, maxEPSrx                        uint64
	cntrCnt, mrIOVLimit, mrCnt, maxErrData, domainCaps, domainMode, linkSpeed, linkMTU               uint64
	linkState, addrFormat, epType, protocol, protocolVersion                                         uint32
	threading, controlProgress, dataProgress, resourceMgmt, avType, mrMode, tclass                   uint32
	provVersion, apiVersion, srcAddrLen, destAddrLen                                                 uint32
	provider, fabric, domain, nic                                                                    [nameSize]byte
	srcAddr, destAddr                                                                                [addrSize]byte
}
