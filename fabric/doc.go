// Package fabric is a thin binding of libfabric: reliable datagrams, connections and unreliable datagrams over EFA, verbs,
// tcp, shared memory and whatever else it has a provider for. api.txt, beside the sources, lists every function of
// rdma/fabric.h and rdma/fi_*.h and what it is bound by, or why it is not.
//
// It keeps the library's objects, names and rules. What it adds: operations are posted and completions polled in batches,
// one crossing into C for each or for both ([Endpoint.PostPoll]), and may be prepared once and for all ([Template]); everything
// that can be checked is checked before anything is posted; and an object cannot be used after, or closed before, it may be.
//
// # Objects
//
//	Info ── Fabric ─┬─ EQ, Listener
//	                └─ Domain ─┬─ MR, CQ, Counter, AV
//	                           └─ Endpoint (on its AV, CQs, counters, EQ) ── Template
//
// [GetInfo] lists what there is. Everything but an Info has Close. Closing what others stand on is refused with EBUSY and
// changes nothing; closing twice does nothing; a call on a closed object gives an error that wraps [net.ErrClosed]. Nothing
// that a NIC can reach is freed by the garbage collector.
//
// # Memory and peers
//
// [Domain.RegMR] takes any memory that stays where it is: a mapping, C memory, or a Go slice, which it pins. No Go pointer is
// kept in C. Every segment lies in a registered region, and every peer was inserted into the address vector, also with
// providers that would not look: tcp and shm reach for any address that they are given, and a wrong one would end the
// process. What peers need is [MR.Addr] and [MR.RKey], which the mode bits that the provider returned decide.
//
// # Progress
//
// Most providers move only when they are called (ProgressManual): whoever is written to polls as well. A queue that is full
// ([ErrQueueFull]) is back-pressure; the post has then progressed every queue of its endpoint, and the completions are there
// to be taken. Completions of a target say how long a write was with some providers and 0 with others: they are not to be
// relied on.
//
// # Concurrency
//
// With [ThreadSafe], which is asked for by default, every method may be called from any goroutine at any time, but for a
// [Template], which one goroutine posts at a time, and the Wait and Await of a queue.
//
// # Calls that do not return
//
// A call lasts as long as the provider lets it. Providers of sockets and NICs return at once. shm takes spin locks in memory that
// processes share: a process that is killed while it holds one leaves it taken, and a post or poll that wants it spins for ever.
// Nothing ends such a call, neither a context nor Close, and its thread keeps a processor. So shm is for processes that end together.
//
// # The library, and Go
//
// libfabric is needed as headers when building, and opened when it is first used. A program linked with this package starts
// on a machine without it; [GetInfo] then says what is missing. It is built with the headers of 1.17 or later and runs with
// the library of that version or a later one. The build tag nofabric, and any platform but Linux with cgo, leaves the binding
// out: every call gives an error that wraps [errors.ErrUnsupported].
//
// Some of what libfabric loads installs signal handlers, over those by which Go turns faults into panics. They are taken away
// again before a call returns. The clean-up of /dev/shm is among what they did; so opening an endpoint of shm removes what
// processes that have died left there of theirs.
//
// # Environment
//
// libfabric takes these from the environment alone. They are set when it is loaded, unless they are set already:
//
//	FI_MR_CACHE_MONITOR=disabled     its registration cache learns that memory was unmapped from libc,
//	FI_MR_CACHE_MAX_COUNT=0          which Go does not call: it would go on with the pages of before
//	FI_EFA_MR_CACHE_ENABLE=0         likewise EFA's
//	IPATH_NO_BACKTRACE=1             no signal handlers of libinfinipath and libpsm2
//	HFI_NO_BACKTRACE=1
//	FI_EFA_ENABLE_SHM_TRANSFER=0     with the tag efa: peers of the same machine by the NIC, too
//	FI_EFA_USE_HUGE_PAGE=1           with the tag efa
//
// # EFA
//
// EFA's provider works without a tag where it is named. The tag efa makes it the default, prefers its direct form, and adds
// its options (EFAOptions); docs/fabric.md has what to run on an instance.
package fabric

//go:generate go run ../internal/apicoverage -headers "/usr/include/rdma/fabric.h /usr/include/rdma/fi_*.h" -prefix fi_ -absent api.absent -o api.txt
