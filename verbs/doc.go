// Package verbs is a thin binding of libibverbs: reliable and unreliable connections (RC, UC) and unreliable datagrams (UD)
// over InfiniBand, RoCE and soft-RoCE. api.txt, beside the sources, lists every function of infiniband/verbs.h and what it is
// bound by, or why it is not.
//
// It keeps the library's objects, names and rules. What it adds: work requests are posted and completions polled in
// batches, one crossing into C for each, and may be prepared once and for all ([Template]); a queue pair is brought up in one
// call; everything that can be checked is checked before anything is posted; the first error of a queue pair is told apart
// from those that follow from it; and an object cannot be used after, or closed before, it may be.
//
// # Objects
//
//	Context ─┬─ CompChannel ── CQ
//	         ├─ CQ
//	         └─ PD ─┬─ MR, MW
//	                ├─ AH, AHCache
//	                ├─ SRQ
//	                └─ QP (on its CQs) ── Template
//
// Each has Close. Closing what others stand on is refused with EBUSY and changes nothing; closing twice does nothing; a
// call on a closed object gives an error that wraps [net.ErrClosed]. Nothing that a NIC can reach is freed by the garbage
// collector, since a NIC goes on writing to memory that Go no longer knows.
//
// # Memory
//
// [PD.RegMR] takes any memory that stays where it is: a mapping, C memory, or a Go slice, which it pins. No Go pointer is
// kept in C. Work requests carry addresses as numbers; [MR.Addr] is where they start.
//
// # Concurrency
//
// As of the C objects: every method may be called from any goroutine at any time, but for a [Template], which one goroutine
// posts at a time. Two goroutines that post to one queue pair get their work requests in as two whole batches, in either
// order.
//
// # Polling
//
// A loop that polls should let the scheduler have a look (runtime.Gosched) every few milliseconds. From a goroutine that
// goes on for 10 ms the runtime takes its processor away, in the middle of a call, and its watching thread then wakes every
// 20 µs for some time (retake and sysmon in Go's runtime/proc.go). [CQ.PollSpin] looks more often per crossing than
// [CQ.Poll]; where nothing is likely to come soon, [CQ.Wait] holds no thread.
//
// # Failures
//
// A queue pair fails with its first completion that has an error: the poll that finds it moves the queue pair to the error
// state, where all else that is posted completes as flushed, and posts are refused with that first error from then on
// ([QP.Err]). A completion queue that the device reports lost says so ([ErrCQFailed]). What happens outside of any queue, to a
// port for example, comes by [Context.Events].
//
// # Connecting
//
// How the ends of a connection come to know one another is left to their owners: an [Endpoint] travels by whatever way they
// have. librdmacm is not bound: it would be a second way to make and to lose connections, with threads and events of its own.
//
// # The library
//
// libibverbs is needed as headers when building, and opened when it is first used. A program linked with this package
// starts on a machine without it; [Devices] and [Open] then say what is missing. The build tag noverbs, and any platform
// but Linux with cgo, leaves the binding out: every call gives an error that wraps [errors.ErrUnsupported].
//
// # Immediates
//
// Immediate data is in host order here and converted once, in C.
package verbs

//go:generate go run ../internal/apicoverage -headers /usr/include/infiniband/verbs.h -prefix ibv_ -absent api.absent -o api.txt
