// Package verbsrail is a [rail.Rail] over libibverbs: any RoCE, InfiniBand or soft-RoCE device.
//
// # Connections
//
// A rail's address is that of one UD queue pair. Two rails make a connection by datagrams between these queue pairs. A rail repeats
// its hello until the peer answers; lost, doubled and late datagrams change nothing, both ends may call at once, and a rail may
// connect to itself. An answer must repeat a random number, so nobody who cannot read the peer's datagrams can make or break a
// connection. There is no other authentication.
//
// A connection is two RC queue pairs at each end: one for writes, whose receives have no memory and take immediates, and
// one for control messages (see control.go), because a queue pair's receives serve whatever arrives next.
//
// The first datagram to an address, and connecting the queue pairs, make the kernel resolve the address to a MAC address. That
// blocks for about a second if there is no such host.
//
// # Flow
//
// A receiver grants immediates when it is connected, and again in bulk. A sender that has used them up sees back-pressure
// from Post. A missing receive is therefore no error but a delay in the control messages, retried without end.
// The completion queue has room for everything that can be posted; a peer that it has no room for is refused.
//
// # Failure
//
// A peer is lost when the transport gives up (retry_cnt 6 at 67 ms: about half a second on soft-RoCE and up to four
// times that elsewhere); when the kernel says that its process ended, on the same host; or, elsewhere, when nothing came from it for
// Config.PeerTimeout. Heartbeats make something come, also when both ends only wait.
//
// The rail then moves the queue pair for writes to the error state and waits until everything that was posted to it has completed, the
// receives too: every immediate that the NIC has acknowledged is reported before the peer is down. PeerLost comes as soon as the
// operations are back, or after Config.DrainTimeout. Then the queue pair is destroyed, and operations that have not completed come back
// as flushed. After that the rail tells the peer, if it can, that nothing lands here any more. Where operations of this end may still
// land at the peer, the rail awaits the peer's own word, for DrainTimeout again. If the device refuses to destroy the queue pair, its
// operations stay out, and the rail tries again after DrainTimeout.
//
// After a write that the peer's NIC refused, the error wraps [rail.ErrAccess]. The kernel takes a dying process's memory away before
// its queue pairs, so a peer's death may also look like that.
//
// # Slow machines
//
// Where a process may pause for seconds (an emulated machine, a debugger), raise PeerTimeout and AcceptTimeout, at both ends alike,
// and transferengine.Config.CloseTimeout to twice DrainTimeout or more.
package verbsrail
