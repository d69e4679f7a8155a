// Package fabricrail is a [rail.Rail] over libfabric: over tcp, which every machine has, or EFA ([Providers]). docs/fabric.md says
// what each can do, and docs/ports.md which ports to open.
//
// # Two transports
//
// Over tcp each peer has a connection of its own (FI_EP_MSG), with an endpoint and a completion queue, and everything between two rails
// goes over it. Over EFA, whose datagrams are reliable, one endpoint serves all peers (FI_EP_RDM). What a rail says, what it grants
// and how it takes leave are the same over both.
//
//	                                       tcp                             efa
//	an operation to a peer that is silent  is taken back: Caps.Recalls     stays out until the provider gives it back
//	after PeerDown nothing of it lands     yes: Caps.Fences                no
//	who sent an immediate                  its connection says             the tag that comes with it, or the provider
//	closed memory                          is fenced off (rail.Lingerer)   as the NIC does it
//	the end of a connection                is seen at both ends            is said, or missed
//	for each peer                          4 descriptors, 0.5 MiB          a place in the address vector
//
// # Connections
//
// A rail calls its peers and is called by them on one port. A call carries the random key of the address that is called and the address
// of the rail that calls. A call without the key is rejected before anything is made for it, and so is one of a rail that is neither
// called nor expected where Config.OnlyCalled is set. Two rails that call each other at once have one connection: the call of the one
// whose address is the greater is taken. A rail that only expects a peer never calls it. A rail may connect to itself.
//
// Strangers at the port cost little: a connection that no whole call has come on is ended after 2 s, and sooner where there are more
// than 64 of them, or 16 from one address. No part of a call keeps a turn waiting.
//
// On the connection, or between two endpoints, the rails then shake hands by messages. A rail repeats its hello until the peer answers.
// A hello must carry the key of the rail's address, and an answer the random number of the hello. Each end tells the other a secret of
// 128 random bits, and takes no message without it, nor from another connection. There is no other authentication, and nothing is
// encrypted. Over tcp, whoever knows the addresses of two rails can call the one in the other's name while these are not connected.
// The rail counts what was made up ([Rail.Ignored]) and does not answer it.
//
// # Immediates
//
// An immediate is the data that come with a write. Over connections its source is whose queue it came into; nobody can make up
// another's. Over datagrams, where the provider carries 8 bytes of data, the upper half names the connection: a peer that guesses
// some 20 bits can make up an immediate in another one's name. Where the provider carries 4 bytes, the source is what the provider
// says. A provider with neither is refused.
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
// A peer is lost when its connection ends; when the provider says so; when the kernel says that its process ended, on the same host; or
// when nothing came from it for Config.PeerTimeout and the kernel does not vouch for its process. Other peers that send without end delay
// that by DrainTimeout at most.
//
// The operations of a peer that was given up are awaited for Config.DrainTimeout. Then its connection is closed, which gives them back,
// flushed: the provider has no address of theirs any more. Datagrams cannot be taken back. Their peer is lost, but not down, for as long
// as the provider keeps them, and their memory stays in use until then or until the rail is closed.
//
// A peer that lives gets a farewell after its operations, and the rail awaits its answer for DrainTimeout. After the answer nothing
// lands any more, and once the connection is closed nothing can.
//
// # Closing memory
//
// tcp looks at a key as an operation begins, and not again. So a registration that was closed is in use (rail.Lingerer) until each
// peer has answered a message that the rail sends it: what the peer had begun before comes before the answer. A peer that does not answer
// within DrainTimeout loses its connection.
//
// # Slow machines
//
// The timeouts fit a machine that runs its goroutines within a second. Where a process may pause for longer (an emulated machine, a
// debugger, a host that is overcommitted), raise PeerTimeout and AcceptTimeout, at both ends alike, and
// transferengine.Config.CloseTimeout to twice DrainTimeout or more.
package fabricrail
