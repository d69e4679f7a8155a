// Package transferengine moves memory between processes by RDMA: one-sided writes whose arrival the target counts, and reads.
//
// An [Engine] opens the NICs that its [Config] names, registers memory as [Region], connects to other engines, each a
// [Peer], and writes from its own regions to places that a peer described with a [Descriptor]. A write may carry an
// immediate, a number of 32 bits; the target's [Counter] of that number says how often it came, and from whom. The engine
// knows NICs only through package rail; an application chooses them by what it puts into Config.Rails.
//
// # Guarantees
//
// An immediate counts exactly once, after all bytes that it stands for are in the target's memory. A request makes exactly
// Shards of them, whatever its length: a receiver knows what to wait for without knowing how much is sent. Nothing is
// promised about the order of two requests, nor of the bytes within one.
//
// Early immediates are kept: they count although nobody has asked for their counter yet.
//
// [Transfer.Wait] returns nil when the target's NIC has taken responsibility for the bytes. That the target's processor
// sees them is promised only to whoever waits for the immediate there.
//
// Bounds and rights are checked against the descriptor before anything is sent. A request that fails says in a
// [*TransferError] whether its bytes may have arrived.
//
// A scatter is one request to many peers: it is done when all of them are, and a peer that fails takes nothing from the
// others.
//
// # Limits
//
// A request that finds the queue full, or too many requests to its peer in flight, is refused with [ErrQueueFull] at once;
// Config.QueueDepth, MaxTransfers and MaxPeerTransfers say when. What is accepted goes to the NIC as its queues, the peer's
// grants, and Config.MaxOperations and MaxPeerOperations allow; a peer that answers nothing therefore costs the others
// neither queue nor NIC.
//
// Every request has a deadline: its Timeout, or Config.TransferTimeout. One that missed it before anything was posted, or
// after all that was posted completed, ends by itself. Operations that the NIC still has, and with them the memory, can
// only be had back by giving up the peer; its [Peer.Err] then says why.
//
// # Ownership
//
// A Region's memory must stay in place until the Region is closed. From a request until its Transfer is done, the source
// range must not change, a page list must not either, and the destination of a read must not be used. A Transfer belongs to its caller, who may use it again for
// another request once it is done; so requests allocate nothing. The other fields of a request, the Descriptor among
// them, are read before Write returns. A region cannot be closed while a transfer uses it, nor an engine while it
// has regions.
//
// A Wait that ends with its context takes nothing back: the transfer goes on, and the memory stays the NIC's.
//
// # Concurrency
//
// All methods may be called by any number of goroutines. A Transfer serves one request at a time. Several goroutines may
// wait for one Transfer or one Counter; immediates that a Counter's Wait has taken are gone for the others.
//
// # Progress
//
// All work of an engine is done in turns by a worker, which one goroutine at a time drives; requests reach it by a bounded
// queue without locks. With [Inline] the goroutines that wait drive it, so that a short wait costs no switch of goroutines,
// and a back-up goroutine takes over when nobody waits, within a millisecond, or four after a time in which somebody waited
// nearly always: a target that computes does not stall its peers. A request that finds nobody driving and nothing in flight
// is posted by its own goroutine; later ones are posted together, by whoever waits, by [Engine.Poll] or by the back-up
// goroutine. With [Dedicated] a goroutine locked to a thread drives it. With [Manual] a test does, by [Engine.Turn] and a
// virtual clock. In the first two an engine that has nothing to do sleeps until its NIC wakes it.
//
// Every wait ends with its context. After [Engine.Close] everything gives an error that wraps net.ErrClosed.
package transferengine
