package wire

import (
	"fmt"
	"time"
)

// maxQueued is how many bytes of messages wait for a Flush before Queue sends them itself.
const maxQueued = 32 << 10

// Send sends a message, and those that were queued before it.
func (c *Conn) Send(m Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.queue(m); err != nil {
		return err
	}
	return c.flush()
}

// Queue keeps a message for the next Flush or Send, so that many small ones cost one system call. It sends what has been
// queued when that has become long.
func (c *Conn) Queue(m Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.queue(m); err != nil || len(c.queued) < maxQueued {
		return err
	}
	return c.flush()
}

// Flush sends the messages that were queued.
func (c *Conn) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flush()
}

// queue encodes a message behind the others. Under mu.
func (c *Conn) queue(m Message) error {
	b, err := c.encode(m)
	if err != nil {
		return err
	}
	c.queued = append(c.queued, b...)
	return nil
}

// flush sends what is queued, within the timeout. What could not be sent is dropped: the connection is broken. Under mu.
func (c *Conn) flush() error {
	if len(c.queued) == 0 {
		return nil
	}
	b := c.queued
	c.queued = c.queued[:0]
	err := c.conn.SetWriteDeadline(time.Now().Add(c.timeout))
	if err == nil {
		var n int
		n, err = c.conn.Write(b)
		c.bytes.Add(int64(n))
	}
	if err != nil {
		return fmt.Errorf("send to %v: %w", c.RemoteAddr(), err)
	}
	return nil
}
