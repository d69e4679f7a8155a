package rail

import "errors"

// Causes that a PeerLost or Completed event's error wraps, so that callers can act on them.
var (
	// ErrPeerGone: the peer died, was restarted, or stopped answering.
	ErrPeerGone = errors.New("peer is gone")
	// ErrPeerClosed: the peer said that it gives up this connection.
	ErrPeerClosed = errors.New("peer closed the connection")
	// ErrUnreachable: no answer to the handshake within the limit.
	ErrUnreachable = errors.New("peer does not answer")
	// ErrRefused: the peer answered the handshake with a refusal, whose text is in the error.
	ErrRefused = errors.New("peer refused the handshake")
	// ErrFlushed: the write was in a queue when another one failed, or when the peer was lost; whether its bytes arrived
	// is not known.
	ErrFlushed = errors.New("flushed: whether the bytes arrived is not known")
	// ErrNotUp: Post or Send took nothing, since the peer is not up; its PeerLost says why.
	ErrNotUp = errors.New("peer is not up")
	// ErrAccess: the peer's NIC refused the address or the key.
	ErrAccess = errors.New("peer's memory refused the access")
)
