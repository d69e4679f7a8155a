// Package fabricrail is a [rail.Rail] over libfabric: over tcp, which every machine has, or EFA ([Providers]). docs/fabric.md says
// how far each goes.
//
// # Connections
//
// A rail is one endpoint, which serves all peers. Two rails make a connection by messages between their endpoints: a
// hello is sent again until it is answered, both ends may call at once, and a rail may connect to itself. A hello must
// have the random key of the rail's address, and an answer the random number of the hello, so what was not given these
// can neither make nor break a connection; there is no other authentication yet. Both ends are in each other's address
// vector before the first write.
//
// # Immediates
//
// An immediate is the data that come with a write. Where the provider carries 8 bytes of these, the upper half names the
// connection, so that the source is known also with providers that do not tell it, and what is late is known as such; where it
// carries 4, the source is who the provider says it is. A provider with neither is refused.
//
// A write without bytes is posted without FI_DELIVERY_COMPLETE, because nothing has to be in place. All others ask for it where the
// provider has it.
//
// # Flow
//
// A receiver grants immediates and messages when it is connected and again in bulk; a sender that has used them up sees
// back-pressure from Post and Send. One peer is sent 32 operations in a turn at most.
//
// # Failure
//
// A peer is lost when the provider says so, when the kernel says that its process ended, if it is on the same host, or when
// nothing came from it for Config.PeerTimeout and the kernel does not vouch for its process. Its operations are awaited for
// Config.DrainTimeout and reported as flushed then. A peer that lives is told, by a farewell that follows its operations, and
// its answer is awaited for as long: nothing lands any more then. As an endpoint serves all peers there is nothing of one
// peer's that could be destroyed: of one that lives, and takes no turns within that time, what it had posted may still land.
package fabricrail
