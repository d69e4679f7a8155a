package fabricrail

import (
	"bytes"
	"fmt"
	"syscall"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/transferengine/rail"
)

// Send implements [rail.Rail].
func (r *Rail) Send(peer rail.PeerID, message []byte) (sent bool, err error) {
	c, err := r.connected("send", peer)
	if err != nil {
		return false, err
	}
	if len(message) > c.longest {
		return false, fmt.Errorf("message of %d bytes: at most %d are possible: %w", len(message),
			c.longest, syscall.EMSGSIZE)
	}
	if c.messaged == c.mayMessage || !r.say(c, controlMessage, uint64(len(message)), message) {
		return false, nil
	}
	c.messaged++
	return true, nil
}

// say sends a control message if there is room for it, and tells the peer with it what it may send.
func (r *Rail) say(c *conn, kind controlKind, value uint64, data []byte) bool {
	i, b, ok := r.mailbox.buffer(c.remote)
	if !ok {
		return false
	}
	m := control{kind: kind, tag: c.theirs, immediates: c.offered, messages: c.messagesTaken + messageWindow, value: value,
		secret: c.theirSecret}
	m.put(b)
	n := controlSize + copy(b[controlSize:], data)
	var of *conn
	if kind == controlBye || kind == controlFence {
		of = c
	}
	sent, err := r.mailbox.post(i, n, c.remote, of, kind)
	if err != nil {
		r.fail(c, fmt.Errorf("%w: send a message: %w", rail.ErrPeerGone, err), 0)
		return false
	}
	if sent {
		c.told, c.messagesTold, c.signs.Spoke = m.immediates, m.messages, r.now
	}
	return sent
}

// grant tells the peer what it may send, once it has used up half of what it was told; in a later turn if there is no room for
// a message now.
func (r *Rail) grant(c *conn) {
	if !r.answerFence(c) {
		r.owe(c)
	}
	if c.state != connUp || c.told-c.taken > uint64(r.cfg.Immediates/2) && c.messagesTold-c.messagesTaken > messageWindow/2 {
		return
	}
	if !r.say(c, controlStatus, 0, nil) {
		r.owe(c)
	}
}

// owe notes that there was no room to say something.
func (r *Rail) owe(c *conn) {
	if !c.owed {
		c.owed = true
		r.owed = append(r.owed, c)
	}
}

// payGrants grants what there was no room to say before.
func (r *Rail) payGrants() {
	owed := r.owed
	r.owed = r.owed[:0]
	for _, c := range owed {
		c.owed = false
		r.grant(c)
	}
}

// messageSent takes the completion of a message.
func (r *Rail) messageSent(q *queue, id workID, x *fabric.Completion) {
	s, ok := r.mailbox.sent(id)
	if !ok {
		return
	}
	switch c := s.conn; {
	case c != nil && s.kind == controlBye:
		c.byesSent++
	case c != nil && !x.Failed():
		c.fenceTaken = true
	}
	if x.Failed() {
		cause := reasonOf(q.cq.Err(x))
		for _, c := range r.conns {
			if c != nil && c.remote == s.to && c.state != connConnecting {
				r.lost(c, fmt.Errorf("%w: a message was not taken: %w", rail.ErrPeerGone, cause))
			}
		}
	}
	r.part(s.to)
}

// message takes a message that arrived.
func (r *Rail) message(q *queue, id workID, x *fabric.Completion) {
	i := id.place()
	if i >= messageRecvs {
		return
	}
	if !x.Failed() && x.Length > 0 {
		if m := r.mailbox.received(i, x.Length); m[0] == wire.Hello[0] {
			r.handshake.Handle(r.now, m, q.genuine())
		} else {
			r.controlled(q, m)
		}
	}
	if err := r.mailbox.receive(i); err != nil {
		r.failAll(fmt.Errorf("%w: post a receive: %w", rail.ErrPeerGone, err))
	}
}

// genuine tells of what comes on a link whether it can be from an address. Refusals name none.
func (q *queue) genuine() func(from address) bool {
	if q.of == nil {
		return nil
	}
	return func(from address) bool { return from == (address{}) || from.link() == q.of.link.key }
}

// controlled takes a control message. One that is not from the other end of a connection is counted, changes nothing and gets no
// answer: it is of a connection that is gone, or made up.
func (r *Rail) controlled(q *queue, message []byte) {
	m, ok, err := parseControl(message)
	c := r.tagged(m.tag)
	if c == nil || !c.secret.is(&m.secret) || !q.isOf(c) {
		r.ignored.Add(1)
		return
	}
	r.heard(c)
	if err == nil && ok {
		err = r.obey(c, m, message[controlSize:])
	}
	if err != nil {
		r.fail(c, err, byeFailed)
	}
}

// obey does what a control message says. An error is for what a peer of this kind cannot have sent.
func (r *Rail) obey(c *conn, m control, data []byte) error {
	c.granted, c.mayMessage = max(c.granted, m.immediates), max(c.mayMessage, m.messages)
	if c.granted-c.used > c.window || c.mayMessage-c.messaged > c.messageWindow {
		return fmt.Errorf("the peer grants %d immediates, of which %d were used, and %d messages, of which %d were: more than "+
			"%d and %d are never open", c.granted, c.used, c.mayMessage, c.messaged, c.window, c.messageWindow)
	}
	switch m.kind {
	case controlMessage:
		if m.value > uint64(len(data)) {
			return fmt.Errorf("message says %d bytes and has %d", m.value, len(data))
		}
		c.messagesTaken++
		if c.wasUp {
			r.outbox.Emit(rail.Event{Kind: rail.Message, Peer: c.id, Data: bytes.Clone(data[:m.value])})
			r.grant(c)
		}
	case controlFence:
		c.fenceAsked = max(c.fenceAsked, m.value)
		r.grant(c)
	case controlFenced:
		c.fenceAnswer = max(c.fenceAnswer, m.value)
	case controlBye:
		r.bid(c, bye(m.value))
	}
	return nil
}

// bid takes a peer's farewell, which comes after all that it had posted.
func (r *Rail) bid(c *conn, b bye) {
	if b&byeAnswer != 0 {
		c.answered = true
	} else {
		c.asked = true
	}
	why, cause := b&byeReason, rail.ErrPeerClosed
	if why != byeClosed {
		cause = fmt.Errorf("%w: its end of the connection was given up", rail.ErrPeerGone)
	}
	if why == byeCut {
		r.lost(c, cause)
		return
	}
	r.fail(c, cause, byeClosed)
}
