package wire

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
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
	reader  *bufio.Reader // has room for one message

	mu     sync.Mutex // messages leave in the order in which they were encoded
	queued []byte     // encoded, and not yet sent

	transcript hash.Hash // of the messages before Authenticate
	out, in    *seal     // nil without a key
	content    []byte    // the key for the content of files, likewise
}

// NewConn returns a Conn over an open connection. Sending a message, and receiving the rest of one that has begun, takes
// at most the timeout.
func NewConn(conn net.Conn, timeout time.Duration) *Conn {
	return &Conn{conn: conn, timeout: timeout, reader: bufio.NewReaderSize(conn, MaxMessage), transcript: sha256.New()}
}

// Bytes is how many bytes were sent and received.
func (c *Conn) Bytes() int64 { return c.bytes.Load() }

// RemoteAddr is the other end's.
func (c *Conn) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// Close closes the connection; a Receive then returns.
func (c *Conn) Close() error { return c.conn.Close() }

// encode returns the bytes of the next message. They must leave in the order in which they were encoded. Under mu.
func (c *Conn) encode(m Message) ([]byte, error) {
	b, err := Encode(m)
	if err != nil {
		return nil, err
	}
	if c.out != nil {
		return c.out.seal(b), nil
	}
	c.transcribe(b)
	return b, nil
}

// transcribe takes a message into the transcript, until that is used.
func (c *Conn) transcribe(b []byte) {
	if c.transcript != nil {
		c.transcript.Write(b)
	}
}

// Receive waits for a message: until the connection is closed, if none begins. The error is io.EOF if the other end closed
// the connection between two messages.
func (c *Conn) Receive() (Message, error) {
	if c.reader.Buffered() == 0 {
		if err := c.conn.SetReadDeadline(time.Time{}); err != nil {
			return nil, err
		}
		if _, err := c.reader.Peek(1); err != nil {
			return nil, err
		}
	}
	return c.receive(time.Now().Add(c.timeout))
}

// ReceiveBy waits for a whole message until the deadline.
func (c *Conn) ReceiveBy(deadline time.Time) (Message, error) {
	if _, err := c.peek(1, deadline); err != nil {
		return nil, err
	}
	return c.receive(deadline)
}

// receive reads a message of which one byte is there.
func (c *Conn) receive(deadline time.Time) (Message, error) {
	b, err := c.peek(prefix, deadline)
	if err != nil {
		return nil, inside(err)
	}
	m := ofMagic(b)
	if m == nil {
		return Parse(b) // says so
	}
	size := binary.BigEndian.Uint32(b[8:])
	if size < prefix || size > MaxMessage {
		return nil, fmt.Errorf("message: says %d bytes, not %d to %d", size, prefix, MaxMessage)
	}
	if b, err = c.peek(int(size), deadline); err != nil {
		return nil, inside(err)
	}
	defer func() { _, _ = c.reader.Discard(len(b)) }() // which are there
	c.bytes.Add(int64(size))
	if err := c.checkAuth(m, b); err != nil {
		return nil, err
	}
	c.transcribe(b)
	return Parse(b)
}

// peek waits until the next n bytes are there.
func (c *Conn) peek(n int, deadline time.Time) ([]byte, error) {
	if c.reader.Buffered() < n {
		if err := c.conn.SetReadDeadline(deadline); err != nil {
			return nil, err
		}
	}
	return c.reader.Peek(n)
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
