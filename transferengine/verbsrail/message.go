package verbsrail

import (
	"bytes"
	"fmt"
	"syscall"

	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/verbs"
)

const (
	// messageSize is what a receive of a control message has room for. Peers whose hello does not say what theirs have
	// room for have olderMessage.
	messageSize  = 512
	olderMessage = 64
	// Of the messages that can be in flight, Send leaves the last ones to the rail's own.
	reserveForOwn      = 4
	reserveForFarewell = 1
)

// receive posts the receive of a control message.
func (c *conn) receive(i uint16) error {
	_, err := c.messages.PostRecv(
		[]verbs.RecvWR{{ID: c.tag.with(workMessageRecv, i), NumSGE: 1}},
		[]verbs.SGE{{Addr: c.mr.Addr() + uint64(i)*messageSize, Length: messageSize, LKey: c.mr.LKey()}})
	return err
}

// send posts a control message with what follows it. It returns false, and has done nothing, if reserve sends would not be
// left afterwards.
func (c *conn) send(m control, data []byte, reserve uint32) (bool, error) {
	if c.msgTail-c.msgHead+reserve >= messageSends {
		return false, nil
	}
	offset := (messageRecvs + c.msgTail%messageSends) * messageSize
	b := c.memory.Bytes()[offset:][:messageSize]
	m.put(b)
	n := controlSize + copy(b[controlSize:], data)
	if _, err := c.messages.PostSend(
		[]verbs.SendWR{{
			ID: c.tag.with(workMessageSend, uint16(c.msgTail)), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, NumSGE: 1,
		}},
		[]verbs.SGE{{Addr: c.mr.Addr() + uint64(offset), Length: uint32(n), LKey: c.mr.LKey()}}); err != nil {
		return false, err
	}
	c.msgTail++
	return true, nil
}

// Send implements [rail.Rail].
func (r *Rail) Send(peer rail.PeerID, message []byte) (sent bool, err error) {
	c, err := r.connected("send", peer)
	if err != nil {
		return false, err
	}
	if limit := min(c.msgLimit-controlSize, r.caps.MaxSend); len(message) > limit {
		return false, fmt.Errorf("message of %d bytes: at most %d are possible: %w", len(message),
			limit, syscall.EMSGSIZE)
	}
	return r.say(c, control{controlMessage, uint64(len(message))}, message, reserveForOwn), nil
}

// grant tells the peer how many immediates it may have sent, if it was not told and there is room for the message.
func (r *Rail) grant(c *conn) {
	if c.told < c.offered && r.say(c, control{controlCredit, c.offered}, nil, reserveForFarewell) {
		c.told = c.offered
	}
}

// say sends a control message if there is room for it.
func (r *Rail) say(c *conn, m control, data []byte, reserve uint32) bool {
	sent, err := c.send(m, data, reserve)
	if err != nil {
		r.fail(c, err, 0)
		return false
	}
	if sent {
		c.signs.Spoke = r.now
	}
	return sent
}

// messageSent takes the completion of a control message.
func (r *Rail) messageSent(c *conn, index uint16, wc *verbs.WC) {
	c.msgHead++
	switch {
	case wc.Status != verbs.WCSuccess:
		r.silenced(c, broken(wc))
	case c.state == connUp:
		r.grant(c)
	case c.state == connLeaving && uint16(c.msgTail) == index+1: // the farewell is the last
		c.parted = true
	}
}

// silenced takes in that the queue pair for messages has failed.
func (r *Rail) silenced(c *conn, cause error) {
	r.fail(c, cause, 0)
	c.farewell = 0
	if c.state == connLeaving {
		c.state = connGone
	}
}

// message takes a control message.
func (r *Rail) message(c *conn, i uint16, wc *verbs.WC) {
	if wc.Status != verbs.WCSuccess {
		r.silenced(c, broken(wc))
		return
	}
	r.heard(c)
	err := r.obey(c, c.memory.Bytes()[int(i)*messageSize:][:min(wc.ByteLen, messageSize)])
	if err == nil && c.state == connUp {
		err = c.receive(i)
	}
	if err != nil {
		r.fail(c, err, byeFailed)
	}
}

// obey does what a control message says. An error is for what a peer of this kind cannot have sent.
func (r *Rail) obey(c *conn, message []byte) error {
	m, ok, err := parseControl(message)
	if err != nil || !ok {
		return err
	}
	switch m.kind {
	case controlCredit:
		if m.value < c.granted || m.value-c.used > c.window {
			return fmt.Errorf("the peer grants %d immediates after %d, of which %d were used: more than %d are never open",
				m.value, c.granted, c.used, c.window)
		}
		c.granted = m.value
	case controlMessage:
		if data := message[controlSize:]; m.value > uint64(len(data)) {
			return fmt.Errorf("message says %d bytes and has %d", m.value, len(data))
		} else if c.state == connUp {
			r.outbox.Emit(rail.Event{Kind: rail.Message, Peer: c.id, Data: bytes.Clone(data[:m.value])})
		}
	case controlBye:
		c.ended = true
		cause, answer := rail.ErrPeerClosed, bye(0)
		if bye(m.value)&byeReason != byeClosed {
			cause = fmt.Errorf("%w: its end of the connection broke", rail.ErrPeerGone)
		}
		if bye(m.value)&byeAnswer != 0 {
			answer = byeClosed
		}
		r.fail(c, cause, answer)
	}
	return nil
}
