// Package handshake makes the connections of rails whose messages may be lost, doubled, delayed and reordered. [Machine] is
// the state machine, [Wire] what its messages look like; a rail brings its own kind of address, and of what one end of a
// connection has to know of the other.
//
// Both ends send the same message, a hello, until they know that the other end holds their half:
//
//	calling   our half exists; nothing was heard of the other end's
//	holding   our half is connected to the other end's, which we hold; it may not hold ours yet
//	up        the other end holds ours too: it may be written to
//
// Each end names its half by a random nonce: whoever repeats it has read a message that was meant for him. Attempts grow with
// every half that an engine makes, so that of two halves that are meant for one peer the later one is known. A hello is sent
// again, at doubling intervals, until it is answered; both ends may call at once, and a rail may call itself.
//
// What keeps a late message from bringing back what is gone: a hello that holds a half which we do not have is refused as
// stale, and an end goes up only when it is answered by its own nonce. A stale refusal is true for ever once it is true, as a
// half is connected to one other half in its life, so it may arrive late or twice.
package handshake
