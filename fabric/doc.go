// Package fabric is a thin binding of libfabric: reliable datagrams, connections and unreliable datagrams over EFA, verbs,
// tcp, shared memory and the other providers. api.txt, beside the sources, lists every function of rdma/fabric.h and
// rdma/fi_*.h with what binds it, or the reason that nothing does.
//
// The package keeps the library's objects, names and rules, and adds three things. Operations are posted and completions polled in
// batches, one crossing into C for each or for both ([Endpoint.PostPoll]), and may be prepared once ([Template]). Everything that
// can be checked is checked before anything is posted. An object cannot be used after Close, nor closed while others need it.
//
// The Example is a whole program: two endpoints, a write with data, and its completions.
//
// # Objects
//
//	Info ── Fabric ─┬─ EQ, Listener
//	                └─ Domain ─┬─ MR, CQ, Counter, AV
//	                           └─ Endpoint (on its AV, CQs, counters, EQ) ── Template
//
// [GetInfo] lists what there is. Everything but an Info has Close. Close them in the reverse order: closing an object that others
// stand on is refused with EBUSY and changes nothing. Closing twice does nothing. A call on a closed object gives an error that wraps
// [net.ErrClosed]. The garbage collector frees nothing that a NIC can reach.
//
// # Memory and peers
//
// [Domain.RegMR] takes any memory that stays where it is: a mapping, C memory, or a Go slice, which it pins. C keeps no Go
// pointer. Every segment must lie in a registered region, and every peer must be in the address vector. The package checks both,
// also for providers that do not: tcp and shm use any address that they are given, and a wrong one would end the process. Peers
// need [MR.Addr] and [MR.RKey]; the mode bits that the provider returned decide what these are.
//
// # Progress
//
// Most providers move only when they are called (ProgressManual), so the target of a write polls as well. A full queue
// ([ErrQueueFull]) is back-pressure: the post has then progressed every queue of its endpoint, so poll, and post the rest again. Do not
// rely on the length in a target's completion, which some providers leave 0.
//
// # Concurrency
//
// With [ThreadSafe], the default of Hints, every method may be called from any goroutine at any time. Exceptions: one goroutine at a
// time posts a [Template], and one at a time waits on a queue (Wait, Await). With another [Threading] one goroutine at a time uses a
// domain, or a completion queue and what completes in it. The race detector reports goroutines that do otherwise, although what they
// race for is in C.
//
// # Calls that do not return
//
// A call lasts as long as the provider lets it. Providers of sockets and NICs return at once. shm takes spin locks in memory that
// processes share: a process that is killed while it holds one leaves it taken, and a post or poll that wants it spins for ever.
// Nothing ends such a call, neither a context nor Close, and its thread keeps a processor. So shm is for processes that end together.
//
// # The library, and Go
//
// libfabric is needed as headers when building, and opened when it is first used. A program that is linked with this package starts
// on a machine without it; [GetInfo] then says what is missing. The package builds with the headers of 1.17 or later, and runs with
// the library of that version or a later one. With the build tag nofabric, and on any platform but Linux with cgo, every call gives
// an error that wraps [errors.ErrUnsupported].
//
// Some of what libfabric loads installs signal handlers over those by which Go turns faults into panics. The package restores Go's
// handlers before a call returns. Signal handlers belong to the process, so such calls wait for one another: GetInfo, and those that
// open, enable, connect or close something. A signal.Ignore or signal.Reset during one may be undone. One of libfabric's handlers cleaned up /dev/shm; instead, opening an endpoint of shm removes what
// dead processes left there.
//
// # Environment
//
// libfabric takes these from the environment alone. They are set when it is loaded, unless they are set already:
//
//	FI_MR_CACHE_MONITOR=disabled     its registration cache learns that memory was unmapped from libc,
//	FI_MR_CACHE_MAX_COUNT=0          which Go does not call: it would go on with the old pages
//	FI_EFA_MR_CACHE_ENABLE=0         likewise EFA's
//	IPATH_NO_BACKTRACE=1             no signal handlers of libinfinipath and libpsm2
//	HFI_NO_BACKTRACE=1
//	FI_EFA_ENABLE_SHM_TRANSFER=0     with the tag efa: peers of the same machine by the NIC, too
//	FI_EFA_USE_HUGE_PAGE=1           with the tag efa
//
// These are left to the user, and stay as they are. [Params] lists all variables with their values:
//
//	FI_VERBS_GID_IDX=3               the GID by which verbs' datagrams (verbs;ofi_rxd) leave, where that of index 0 is of another
//	                                 network; connections (verbs;ofi_rxm) leave by the GID of the local address in Hints.Node
//
// # EFA
//
// EFA's provider works without a tag where it is named. The tag efa makes it the default, prefers its direct form, and adds
// its options (EFAOptions). docs/fabric.md says what to run on an instance.
package fabric

//go:generate go run ../internal/apicoverage -headers "/usr/include/rdma/fabric.h /usr/include/rdma/fi_*.h" -prefix fi_ -absent api.absent -o api.txt
