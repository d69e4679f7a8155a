// Package fabricrail is a [rail.Rail] over libfabric: over tcp, which every machine has, or EFA ([Providers]). docs/fabric.md says
// what each can do, and docs/ports.md which ports to open.
//
// # Connections
//
// A rail is one endpoint, which serves all peers. Two rails make a connection by messages between their endpoints. A rail repeats
// its hello until the peer answers; both ends may call at once, and a rail may connect to itself. Both ends insert each other into
// their address vectors before the first write.
//
// A hello must carry the random key of the rail's address, and an answer the random number of the hello. Each end tells the other a
// secret of 128 random bits in its hello, and takes no message without it. So only the two ends can end a connection, grant anything
// on it or send a message on it. An immediate has no room for a secret: a peer of the rail that guesses some 20 bits can make one up
// in another one's name. A hello that would replace a connection makes the rail ask the other end first. The rail counts what was made
// up ([Rail.Ignored]) and does not answer it. There is no other authentication, and nothing is encrypted.
//
// # Immediates
//
// An immediate is the data that come with a write. Where the provider carries 8 bytes of data, the upper half names the
// connection: the rail then knows the source also where the provider does not tell it, and knows a late write as late. Where the
// provider carries 4 bytes, the source is what the provider says. A provider with neither is refused.
//
// A write without bytes is posted without FI_DELIVERY_COMPLETE, because nothing has to be in place. All others ask for it where the
// provider has it.
//
// # Flow
//
// A receiver grants immediates and messages when it is connected, and again in bulk. A sender that has used them up sees
// back-pressure from Post and Send. A rail posts at most 32 operations to one peer in a turn.
//
// # Failure
//
// A peer is lost when the provider says so; when the kernel says that its process ended, on the same host; or when nothing came
// from it for Config.PeerTimeout and the kernel does not vouch for its process. The rail awaits the peer's operations for
// Config.DrainTimeout and then reports them as flushed.
//
// A peer that is given up and lives gets a farewell after its operations, and the rail awaits its answer for DrainTimeout. After the
// answer nothing lands any more. An endpoint serves all peers, so nothing of one peer's can be destroyed: what a peer had posted may
// still land if it takes no turns within that time.
//
// # Slow machines
//
// The timeouts fit a machine that runs its goroutines within a second. Where a process may pause for longer (an emulated machine, a
// debugger, a host that is overcommitted), raise PeerTimeout and AcceptTimeout, at both ends alike, and
// transferengine.Config.CloseTimeout to twice DrainTimeout or more.
package fabricrail
