// Package verbsrail is a [rail.Rail] over libibverbs: any RoCE, InfiniBand or soft-RoCE device.
//
// # Connections
//
// A rail's address is that of one UD queue pair. Two rails make a connection by datagrams between these: a hello
// is sent again until it is answered, lost, doubled and late ones change nothing, both ends may call at once, and a rail may
// connect to itself. An answer must repeat a random number, so what
// cannot read the peer's datagrams can neither make nor break a connection; there is no other authentication yet.
//
// A connection is two RC queue pairs at each end: one for writes, whose receives have no memory and take immediates, and
// one for control messages (see control.go), since a queue pair's receives serve whatever arrives next.
//
// The first datagram to an address, and connecting the queue pairs, make the kernel resolve it to a MAC address, which
// blocks for about a second if there is no such host.
//
// # Flow
//
// A receiver grants immediates when it is connected and again in bulk; a sender that has used them up sees back-pressure
// from Post. That a receive is missing is therefore not an error but a delay in the control messages, retried without end.
// The completion queue has room for everything that can be posted: a peer for whom it would not suffice is refused.
//
// # Failure
//
// A peer is lost when the transport gives up (retry_cnt 6 at 67 ms: about half a second on soft-RoCE and up to four
// times that elsewhere), when the kernel says that its process ended, if it is on the same host, or, elsewhere, when
// nothing came from it for Config.PeerTimeout; heartbeats see to it that something comes, also when both ends only
// wait. Its queue pair for writes is moved to the error state, drained and destroyed; what does not come back within
// Config.DrainTimeout is reported as flushed then. After that the peer is told, if it can be, that nothing lands here
// any more; where operations of this end may still land there its own word is awaited, for as long again.
//
// After a write that the peer's NIC refused, its error wraps [rail.ErrAccess]. The kernel takes a dying process's memory
// away before its queue pairs, so that may also be how a peer's death looks.
package verbsrail
