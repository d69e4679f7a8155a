package fabric

import "fmt"

// Caps are what an endpoint can do, and what a completion is of (the FI_ capability bits of rdma/fabric.h).
type Caps uint64

// The capabilities that have users here. The base ones imply what they need of sending, receiving, reading and writing.
const (
	CapMsg            Caps = 1 << 1
	CapRMA            Caps = 1 << 2
	CapTagged         Caps = 1 << 3
	CapAtomic         Caps = 1 << 4
	CapMulticast      Caps = 1 << 5
	CapRead           Caps = 1 << 8
	CapWrite          Caps = 1 << 9
	CapRecv           Caps = 1 << 10
	CapSend           Caps = 1 << 11
	CapRemoteRead     Caps = 1 << 12
	CapRemoteWrite    Caps = 1 << 13
	CapMultiRecv      Caps = 1 << 16
	CapFence          Caps = 1 << 21
	CapHMEM           Caps = 1 << 47 // memory of accelerators
	CapRMAPersistent  Caps = 1 << 49
	CapSourceErr      Caps = 1 << 50
	CapLocalComm      Caps = 1 << 51 // with peers on this machine
	CapRemoteComm     Caps = 1 << 52 // with peers on others
	CapSharedAV       Caps = 1 << 53
	CapRMAEvent       Caps = 1 << 56 // completions at the target of writes and reads
	CapSource         Caps = 1 << 57 // completions tell who sent
	CapNamedRxContext Caps = 1 << 58
	CapDirectedRecv   Caps = 1 << 59 // receives from one peer
)

// String names the bits as libfabric does.
//
// Implements:
//
//	char *fi_tostr_r(char *buf, size_t len, const void *data, enum fi_type datatype)
func (c Caps) String() string { return cText(typeCaps, uint64(c)) }

// Mode bits are demands of a provider on its user (the FI_ mode bits of rdma/fabric.h).
type Mode uint64

// The modes. ModeContext and ModeContext2, memory for a provider's own notes with each operation, are met by this package;
// whoever lets a provider make other demands meets them.
const (
	ModeContext      Mode = 1 << 59
	ModeMsgPrefix    Mode = 1 << 58 // buffers begin with MsgPrefixSize bytes that are the provider's
	ModeAsyncIOV     Mode = 1 << 57
	ModeRxCQData     Mode = 1 << 56 // a write with data takes a posted receive
	ModeContext2     Mode = 1 << 52
	ModeBufferedRecv Mode = 1 << 51
)

// String names the bits as libfabric does.
func (m Mode) String() string { return cText(typeMode, uint64(m)) }

// MRMode bits say what registered memory needs, and how peers name it (FI_MR_ bits of rdma/fabric.h).
type MRMode uint32

// The memory modes. This package meets the first five, and MRHMEM: see [MR.RKey] and [MR.Addr].
const (
	MRLocal     MRMode = 1 << 2 // memory of local operations is registered
	MRVirtAddr  MRMode = 1 << 4 // peers use addresses; without, offsets from 0
	MRAllocated MRMode = 1 << 5 // pages are there when they are registered
	MRProvKey   MRMode = 1 << 6 // the provider chooses keys
	MRHMEM      MRMode = 1 << 10

	MRRaw       MRMode = 1 << 3 // keys longer than 8 bytes: [MR.RawKey] and [Domain.MapKey]
	MRMMUNotify MRMode = 1 << 7 // [MR.Refresh] after pages changed
	MRRMAEvent  MRMode = 1 << 8 // [MR.BindCounter] and [MR.Enable] where a counter counts what peers do
	MREndpoint  MRMode = 1 << 9 // [MR.BindEndpoint] and [MR.Enable]

	mrModesMet = MRLocal | MRVirtAddr | MRAllocated | MRProvKey
)

// String names the bits as libfabric does.
func (m MRMode) String() string { return cText(typeMRMode, uint64(m)) }

// Flags are what an operation is asked for, and what a completion says of itself (the FI_ flags of rdma/fabric.h).
type Flags uint64

// The flags of operations.
const (
	FlagMultiRecv        Flags = 1 << 16 // a receive: takes messages until less than [EndpointConfig].MinMultiRecv is left
	FlagRemoteCQData     Flags = 1 << 17 // Data goes into a completion at the target
	FlagMore             Flags = 1 << 18 // more follows in this post: the provider may wait with this. The last one never has it
	FlagPeek             Flags = 1 << 19 // a tagged receive: only look whether there is such a message
	FlagFence            Flags = 1 << 21 // not before what was posted to that peer earlier has ended
	FlagCompletion       Flags = 1 << 24 // give a completion, where the endpoint is Selective or with FlagInject
	FlagInject           Flags = 1 << 25 // take the bytes during the post; no completion without FlagCompletion
	FlagInjectComplete   Flags = 1 << 26 // complete when the buffer can be used again
	FlagTransmitComplete Flags = 1 << 27 // complete when it is out of the sender's hands for good
	FlagDeliveryComplete Flags = 1 << 28 // complete when the bytes are in place at the target
	FlagCommitComplete   Flags = 1 << 30 // complete when they are in persistent memory there
	FlagMatchComplete    Flags = 1 << 31 // complete when a receive took the message
	FlagMulticast        Flags = 1 << 5  // a send: Peer is a [Group]'s
	FlagDiscard          Flags = 1 << 58 // a tagged receive, with FlagPeek or FlagClaim: drop the message
	FlagClaim            Flags = 1 << 59 // a tagged receive: with FlagPeek keep the message for a later one; take it
)

// The flags of completions alone, beside those above: what completed.
const (
	FlagMsg         = Flags(CapMsg)
	FlagRMA         = Flags(CapRMA)
	FlagTagged      = Flags(CapTagged)
	FlagAtomic      = Flags(CapAtomic)
	FlagRead        = Flags(CapRead)
	FlagWrite       = Flags(CapWrite)
	FlagRecv        = Flags(CapRecv)
	FlagSend        = Flags(CapSend)
	FlagRemoteRead  = Flags(CapRemoteRead)  // a peer read
	FlagRemoteWrite = Flags(CapRemoteWrite) // a peer wrote
)

// String names the bits as libfabric does.
func (f Flags) String() string { return cText(typeOpFlags, uint64(f)) }

// EndpointType is how endpoints talk (enum fi_ep_type).
type EndpointType uint32

// The types.
const (
	Msg   EndpointType = 1 // connected, reliable
	Dgram EndpointType = 2 // unconnected, unreliable
	RDM   EndpointType = 3 // unconnected, reliable
)

func (t EndpointType) String() string {
	switch t {
	case Msg:
		return "MSG"
	case Dgram:
		return "DGRAM"
	case RDM:
		return "RDM"
	}
	return fmt.Sprint(uint32(t))
}

// Progress says who moves an operation on (enum fi_progress).
type Progress uint32

// With ProgressManual the provider does something only in calls to it: whoever waits, also as a target, polls.
const (
	ProgressAuto   Progress = 1
	ProgressManual Progress = 2
)

// String names it as libfabric does.
func (p Progress) String() string { return cText(typeProgress, uint64(p)) }

// Threading is what a provider needs of callers (enum fi_threading).
type Threading uint32

// ThreadSafe needs nothing, and is asked for by default. With ThreadDomain whoever calls anything of one domain does so one
// goroutine at a time; with ThreadCompletion, anything that shares a completion queue.
const (
	ThreadSafe       Threading = 1
	ThreadDomain     Threading = 3
	ThreadCompletion Threading = 4
)

// String names it as libfabric does.
func (t Threading) String() string { return cText(typeThreading, uint64(t)) }

// Order bits are what a provider keeps in order: reads, writes and sends after one another (FI_ORDER_ bits).
type Order uint64

// The orders that have users here.
const (
	OrderWAW    Order = 1 << 4  // writes after writes
	OrderSAW    Order = 1 << 7  // sends after writes
	OrderSAS    Order = 1 << 8  // sends after sends
	OrderRMAWAW Order = 1 << 35 // writes of RMA after one another
)

// The orders of completions.
const (
	OrderStrict Order = 0x1ff   // as the operations were posted
	OrderData   Order = 1 << 16 // a message's bytes are in place in their order
)

// ResourceMgmt is whether a provider keeps queues from overrunning (enum fi_resource_mgmt).
type ResourceMgmt uint32

// With ResourceMgmtEnabled a full queue is back-pressure ([ErrQueueFull]); with ResourceMgmtDisabled its user counts, and a queue that
// overruns is an error for good.
const (
	ResourceMgmtUnspec   ResourceMgmt = 0
	ResourceMgmtDisabled ResourceMgmt = 1
	ResourceMgmtEnabled  ResourceMgmt = 2
)

// String names the bits as libfabric does.
func (o Order) String() string { return cText(typeMsgOrder, uint64(o)) }

// TrafficClass is how a network is to treat what is sent (FI_TC_ of rdma/fabric.h); 0 leaves that to the provider.
type TrafficClass uint32

// The classes that are not a DSCP.
const (
	ClassBestEffort TrafficClass = 0x200 + iota
	ClassLowLatency
	ClassDedicatedAccess
	ClassBulkData
	ClassScavenger
	ClassNetworkControl

	classDSCP TrafficClass = 0x100
)

// DSCPClass is the class of a DSCP, of 6 bits.
//
// Implements:
//
//	uint32_t fi_tc_dscp_set(uint8_t dscp)
func DSCPClass(dscp uint8) TrafficClass { return classDSCP | TrafficClass(dscp) }

// DSCP is the class's DSCP; 0 for one that is none.
//
// Implements:
//
//	uint8_t fi_tc_dscp_get(uint32_t tclass)
func (c TrafficClass) DSCP() uint8 {
	if c&classDSCP == 0 {
		return 0
	}
	return uint8(c)
}

// AddrFormat is the form of a provider's addresses.
type AddrFormat uint32

// The forms that have users here.
const (
	AddrSockaddr   AddrFormat = 1
	AddrSockaddrIn AddrFormat = 2
	AddrSockaddrV6 AddrFormat = 3
	AddrString     AddrFormat = 9
	AddrEFA        AddrFormat = 12
)

// String names it as libfabric does.
func (f AddrFormat) String() string { return cText(typeAddrFormat, uint64(f)) }

// The kinds of text that fi_tostr_r gives (enum fi_type).
const (
	typeCaps       = 2
	typeOpFlags    = 3
	typeAddrFormat = 4
	typeThreading  = 10
	typeProgress   = 11
	typeMsgOrder   = 13
	typeMode       = 14
	typeAtomicType = 16
	typeAtomicOp   = 17
	typeMRMode     = 21
)
