// Package transferengine moves memory between processes by RDMA. A sender writes into memory that a receiver lent it, or reads
// from it. The receiver's program takes no part in the copy; it counts what has arrived.
//
// # Begin
//
// Both sides open an [Engine] on a NIC of the machine; package fabricrail has one for any machine, package verbsrail one for
// RDMA devices. Then:
//
//   - The receiver calls [Engine.Register] with memory that peers may write, and waits at [Engine.Counter].
//   - The receiver's [Engine.Address] and the region's [Region.Descriptor] reach the sender as bytes or text. Carry them
//     yourself: by HTTP, gRPC, a file, a command line.
//   - The sender calls [Engine.Connect] with the address, registers what it sends, and calls [Engine.Write] with the descriptor
//     and an immediate, a number of 32 bits.
//   - The receiver's wait ends when the immediate has arrived. The bytes are in place then.
//
// The receiver need not connect. [Engine.Accept] tells it of a peer that has connected, [Engine.Expect] waits for a certain one, and
// [Engine.Peers] has them all. It may write to them as well.
// Both sides need rails of the same kind. The Examples are whole programs.
//
// # Memory
//
// [Engine.Register] takes any memory of the process: a Go slice, which is pinned; a mapping; memory that C allocated. It must not
// be empty, nor unmapped before [Region.Close]. Register once and use the region for many requests: registering asks the kernel
// to pin pages, a request does not.
//
// The second argument says what peers may do: [RemoteWrite], [RemoteRead], both, or [LocalOnly] for memory that this side sends
// from or reads into. This side may always use its own regions.
//
// One write or read may be as long as its two regions. The engine cuts what is longer than the NIC's largest message. One region
// may be as long as the NIC allows; on verbs the device says (max_mr_size), and a longer one is refused.
//
// From a request until its [Transfer] is done, do not change the bytes that it sends, the lists of pages that it names, or use
// the memory that it reads into. The other fields of a request, the [Descriptor] among them, are read before the call returns. A
// Transfer belongs to its caller, who may use it for another request once it is done; a request allocates nothing.
//
// # What is promised
//
// An immediate counts exactly once, after all bytes that it stands for are in the target's memory. A request makes exactly
// Shards of them, whatever its length, so a receiver knows what to wait for without knowing how much is sent. Immediates that
// come before anybody asked for their counter are kept.
//
// Nothing is promised about the order of two requests, nor of the bytes within one.
//
// [Transfer.Wait] returns nil when the target's NIC has acknowledged the bytes. That the target's processor sees them is promised
// only to a wait for the immediate there.
//
// Bounds and rights are checked against the descriptor before anything is sent. A request that fails says in a
// [*TransferError] whether its bytes may have arrived, and whether its memory may be used again.
//
// A scatter is one request to many peers. It is done when all of them are, and a peer that fails takes nothing from the others.
//
// # Timeouts
//
// Every wait ends with its context. A Wait that ends so takes nothing back: the transfer goes on, and the memory stays the NIC's.
//
// Every request has a deadline: its Timeout, or Config.TransferTimeout (30 s). A request that misses it after the NIC took some of
// it can be ended only with its peer: the engine gives up the peer, and [Peer.Err] says why. So on a slow rail set the deadline
// from the length: at 50 MB/s a write of 4 GiB takes 86 s and needs a Timeout of several minutes, and requests that
// wait behind it need as much.
//
// Config.ConnectTimeout (10 s) bounds [Engine.Connect], Config.CloseTimeout (5 s) [Engine.Close]. A rail's Config says after how much
// silence a peer is lost (PeerTimeout, 10 s; three times the Heartbeat at least; the same at both ends), and how long its
// operations are awaited then (DrainTimeout, 1 s). On a machine that pauses for seconds raise PeerTimeout, at both ends. Keep
// CloseTimeout at twice DrainTimeout or more.
//
// # Closing
//
//  1. [Engine.Shutdown] refuses new requests, waits for those in flight, and tells the peers.
//  2. [Region.Close] for every region. It refuses while a transfer uses the region.
//  3. [Engine.Close]. It refuses while regions are open.
//
// Without Shutdown, Close cuts off what is in flight. After Close everything gives an error that wraps net.ErrClosed.
//
// A peer that is lost while the NIC has operations to it may keep a region: its Close is refused until [Peer.Down]. Where the NIC
// cannot take operations back (rail.Caps.Recalls) and the peer never goes on, [Engine.Close] ends them, and closes the regions whose
// Close was refused for that.
//
// # Limits
//
// A request that finds the queue full, or too many requests to its peer in flight, is refused at once with [ErrQueueFull]: wait
// for a transfer, then repeat it. Config.QueueDepth and MaxTransfers set these limits. Accepted requests go to the NIC as far as
// its queues and the peer's grants allow; those that wait for that hold up nobody else's.
//
// # Concurrency
//
// All methods may be called by any number of goroutines. A Transfer serves one request at a time. Several goroutines may
// wait for one Transfer or one Counter; immediates that one Wait has taken are gone for the others.
//
// # Progress
//
// A worker does the engine's work in turns, and one goroutine at a time drives it. Config.Progress chooses which:
//
//   - [Inline], the default: the goroutines that wait drive, so a short wait costs no switch of goroutines. While nobody waits a
//     back-up goroutine takes over within a millisecond, so a target that computes does not stall its peers. A request is posted
//     by the call that makes it, also if nobody ever waits. Use it on two cores or fewer.
//   - [Dedicated]: a goroutine that is locked to a thread drives. It needs a core that nobody else wants.
//   - [Manual]: a test drives, by [Engine.Turn] with a virtual clock.
//
// An engine that has nothing to do sleeps until its NIC wakes it.
//
// The engine reaches NICs only through package rail; an application chooses them by what it puts into Config.Rails.
package transferengine
