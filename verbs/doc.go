// Package verbs is a thin binding of libibverbs: reliable and unreliable connections (RC, UC) and unreliable datagrams (UD)
// over InfiniBand, RoCE and soft-RoCE. api.txt, beside the sources, lists every function of infiniband/verbs.h with what binds it,
// or the reason that nothing does.
//
// The package keeps the library's objects, names and rules, and adds five things. Work requests are posted and completions polled in
// batches, one crossing into C for each, and may be prepared once ([Template]). One call brings a queue pair up. Everything that can
// be checked is checked before anything is posted. The first error of a queue pair is told apart from those that follow from it. An
// object cannot be used after Close, nor closed while others need it.
//
// # Objects
//
//	Context ─┬─ CompChannel ── CQ
//	         ├─ CQ
//	         ├─ ThreadDomain
//	         └─ PD ─┬─ MR, MW
//	                ├─ AH, AHCache
//	                ├─ SRQ
//	                └─ QP (on its CQs) ── Template
//
// Each has Close. Close them in the reverse order: closing an object that others stand on is refused with EBUSY and changes
// nothing. Closing twice does nothing. A call on a closed object gives an error that wraps [net.ErrClosed]. The garbage collector
// frees nothing that a NIC can reach, because a NIC goes on writing to memory that Go no longer knows.
//
// What was made by other means, such as mlx5dv or efadv, is taken by [ImportContext] and the Wrap methods of [Context] and [PD],
// and Raw goes the other way.
//
// # Memory
//
// [PD.RegMR] takes any memory that stays where it is: a mapping, C memory, or a Go slice, which it pins. C keeps no Go
// pointer. Work requests carry addresses as numbers; [MR.Addr] is the address of the region's first byte.
//
// # Concurrency
//
// Every method may be called from any goroutine at any time, like the C functions. Exceptions: one goroutine at a time posts a
// [Template], and one waits on a completion queue or channel. If two goroutines post to one queue pair, their batches go in whole,
// in either order. In builds with the race detector it sees these exceptions broken, and lists that one goroutine posts or polls
// into while another uses them.
//
// # Polling
//
// A loop that polls should yield (runtime.Gosched) every few milliseconds. The runtime takes the processor away from a goroutine that
// goes on for 10 ms, in the middle of a call, and its watching thread then wakes every 20 µs for some time (retake and sysmon in Go's
// runtime/proc.go). [CQ.PollSpin] polls more often per crossing than [CQ.Poll]. Where nothing is likely to come soon, [CQ.Wait]
// holds no thread.
//
// # Failures
//
// A queue pair fails with its first completion that has an error. The poll that finds it moves the queue pair to the error state:
// everything else that is posted completes as flushed, and later posts are refused with that first error ([QP.Err]). It also fails
// when its device moves it to the error state and says so by flushes or an asynchronous event alone. A datagram queue pair whose
// send failed keeps its receives and can be brought back. A completion queue that the device reports lost says so
// ([ErrCQFailed]). What happens outside of any queue, to a port for example, comes by [Context.Events].
//
// # Connecting
//
// The ends of a connection exchange an [Endpoint] by any means of their own. librdmacm is not bound: it would be a second way to
// make and to lose connections, with threads and events of its own.
//
// # The library
//
// libibverbs is needed as headers when building, and opened when it is first used. A program that is linked with this package
// starts on a machine without it; [Devices] and [Open] then say what is missing. With the build tag noverbs, and on any platform
// but Linux with cgo, every call gives an error that wraps [errors.ErrUnsupported].
//
// # Immediates
//
// Immediate data is in host order in Go and converted once, in C.
package verbs

//go:generate go run ../internal/apicoverage -headers /usr/include/infiniband/verbs.h -prefix ibv_ -absent api.absent -o api.txt
