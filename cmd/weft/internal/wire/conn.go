package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// prefix is how much of a message has to be there to know its length: see package tlv.
const prefix = 12

// Conn sends and receives messages over a connection. Any goroutine may send, and one at a time receive.
type Conn struct {
	conn    net.Conn
	timeout time.Duration
	bytes   atomic.Int64
	buffer  [MaxMessage]byte // of what is being received

	mu     sync.Mutex // messages leave in the order in which they were encoded
	queued []byte     // encoded, and not yet sent
}

// NewConn returns a Conn over an open connection. Sending a message, and receiving the rest of one that has begun, takes
// at most the timeout.
func NewConn(conn net.Conn, timeout time.Duration) *Conn { return &Conn{conn: conn, timeout: timeout} }

// Bytes is how many bytes were sent and received.
func (c *Conn) Bytes() int64 { return c.bytes.Load() }

// RemoteAddr is the other end's.
func (c *Conn) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// Close closes the connection; a Receive then returns.
func (c *Conn) Close() error { return c.conn.Close() }

// Receive waits for a message: until the connection is closed, if none begins. The error is io.EOF if the other end closed
// the connection between two messages.
func (c *Conn) Receive() (Message, error) {
	if err := c.conn.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if err := c.read(c.buffer[:1]); err != nil {
		return nil, err
	}
	if err := c.conn.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return nil, err
	}
	if err := c.read(c.buffer[1:prefix]); err != nil {
		return nil, inside(err)
	}
	if ofMagic(c.buffer[:prefix]) == nil {
		return Parse(c.buffer[:prefix]) // says so
	}
	size := binary.BigEndian.Uint32(c.buffer[8:])
	if size < prefix || size > MaxMessage {
		return nil, fmt.Errorf("message: says %d bytes, not %d to %d", size, prefix, MaxMessage)
	}
	if err := c.read(c.buffer[prefix:size]); err != nil {
		return nil, inside(err)
	}
	return Parse(c.buffer[:size])
}

func (c *Conn) read(b []byte) error {
	n, err := io.ReadFull(c.conn, b)
	c.bytes.Add(int64(n))
	return err
}

// inside is an error in the middle of a message, where an end is not orderly.
func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Lost tells whether an error of Receive is one of the connection, rather than of what came over it.
func Lost(err error) bool {
	var operation *net.OpError
	return errors.As(err, &operation) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
