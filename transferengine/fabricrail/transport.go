package fabricrail

import (
	"time"

	"github.com/weftrdma/weft/fabric"
)

// transport is how messages and operations get from one rail to another: over a connection of their own for each peer ([connected]), or
// over one endpoint that serves all peers ([datagram]). Everything else, from the handshake to the farewell, is the same over both.
type transport interface {
	// open makes what serves all peers, and returns the name by which they reach it, in the provider's own form.
	open(info *fabric.Info) (name []byte, err error)
	// receiver is where receives of messages are posted to.
	receiver() *fabric.Endpoint
	// meet returns the remote at an address. It is nil without an error while there is none: it is being made, or will not be.
	meet(to address) (*remote, error)
	// hold gives a connection its remote as its half is made, and bind as the half is connected to another one.
	hold(c *conn) error
	bind(c *conn) error
	// part gives back a remote that nobody uses any more.
	part(to *remote)
	// calls says whether the transport may call a rail at an address, which else has to call this one.
	calls(to address, may bool)
	// later keeps a message until the remote at the address that meet is making is there. False if none is being made.
	later(to address, message []byte) bool
	// recall takes back the operations of a connection, each of which completes. It returns false where that is not possible: they stay
	// out, for as long as it takes.
	recall(c *conn) bool
	// turn looks after the remotes themselves, and returns when it must be called again, the zero time if never.
	turn() (next time.Time)
	// ready tells whether turn has something to do; it costs a system call.
	ready() bool
	// connections tells whether anybody is connected, so that what peers have begun in memory that is closed has to be ended. It may be
	// called by any goroutine, and so may wake, which has a turn be taken.
	connections() bool
	wake()
	// sleep is how to wait for something to happen, nil if there is nothing to wait for.
	sleep() awaiter
	// cutOff ends what is in flight, and close gives everything back.
	cutOff() error
	close() error
}

// remote is the other end of messages and operations.
type remote struct {
	ep    *fabric.Endpoint // what is posted to it
	cq    *fabric.CQ       // what has become of that, and what comes from it
	addr  fabric.Addr      // in the address vector, of datagrams
	users int              // connections
	sends int              // messages on their way
	link  *link            // of a connection of its own; nil otherwise
}

// queue is a completion queue and the remote that it is of, nil for all.
type queue struct {
	cq      *fabric.CQ
	of      *remote
	drained bool // it was empty at the last look
}
