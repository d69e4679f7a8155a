// Package verbs is a thin binding of libibverbs: reliable connections (RC) and unreliable datagrams (UD) over InfiniBand,
// RoCE and soft-RoCE.
//
// It keeps the library's objects, names and rules. What it adds: work requests are posted and completions polled in
// batches, one crossing into C for each; a queue pair is brought up in one call; everything that can be checked is checked
// before anything is posted; and an object cannot be used after, or closed before, it may be.
//
// # Objects
//
//	Context ─┬─ CQ
//	         └─ PD ─┬─ MR
//	                ├─ AH
//	                └─ QP (on its CQs)
//
// Each has Close. Closing what others stand on is refused with EBUSY and changes nothing; closing twice does nothing; a
// call on a closed object gives an error that wraps [net.ErrClosed]. Nothing is freed by the garbage collector, since a
// NIC goes on writing to memory that Go no longer knows.
//
// # Memory
//
// [PD.RegMR] takes any memory that stays where it is: a mapping, C memory, or a Go slice, which it pins. No Go pointer is
// kept in C. Work requests carry addresses as numbers; [MR.Addr] is where they start.
//
// # Concurrency
//
// As of the C objects: every method may be called from any goroutine at any time. Two goroutines that post to one queue
// pair get their work requests in as two whole batches, in either order.
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
