package verbsrail

import (
	"time"

	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/verbs"
)

// SetFault says how many copies of the rail's n-th handshake datagram go out: 0 loses it.
func (cfg *Config) SetFault(fault func(n int) (copies int)) { cfg.fault = fault }

// Connections is how many connections a rail has, those that are being given up included.
func (r *Rail) Connections() (n int) {
	for _, c := range r.conns {
		if c != nil {
			n++
		}
	}
	return n
}

// BreakDatagrams moves the handshake's queue pair to the error state, as a datagram without a route does on rxe.
func (r *Rail) BreakDatagrams() error { return r.datagrams.qp.SetError() }

// Violate lets a rail send a peer what no rail sends.
func (r *Rail) Violate(id rail.PeerID, how string) error {
	c := r.peers[id]
	wr := verbs.SendWR{ID: c.tag.with(workMessageSend, 0), Opcode: verbs.OpSend, Flags: verbs.SendSignaled}
	qp := c.messages
	switch how {
	case "a message where only writes may arrive":
		qp = c.writes
	case "a write where only messages may arrive":
		wr.Opcode = verbs.OpWriteImm
	case "control message of 0 bytes":
	default: // control message 0x80, or a grant
		m := control{kind: 0x80}
		if how != "control message 0x80" {
			m = control{kind: controlCredit, value: 1 << 40}
		}
		_, err := c.send(m, nil, 0)
		return err
	}
	_, err := qp.PostSend([]verbs.SendWR{wr}, nil)
	return err
}

// Destination is what a datagram to a rail needs.
func (r *Rail) Destination() (gid verbs.GIDEntry, qpn, qkey uint32) {
	return r.gid, r.datagrams.qp.Num(), r.datagrams.qkey
}

// Adopt makes a peer that does not exist, for a device that carries no data: its hello is made up.
func (r *Rail) Adopt(now time.Time) (rail.PeerID, error) { return r.AdoptOne(now, 0) }

// AdoptOne is Adopt for the i-th of several.
func (r *Rail) AdoptOne(now time.Time, i uint32) (rail.PeerID, error) {
	r.touch(now)
	peer, _ := parseAddress(r.address) // the null provider's first queue pair has number 1, which is refused
	peer.qpn += 1 + i
	r.handshake.Handle(now, wire.AppendHello(nil, &hello{From: peer, Incarnation: rail.Incarnation{14: byte(i), 15: 1}, Nonce: 1, Attempt: 1,
		Half: half{messages: queuePair{qpn: 1000 + 2*i}, writes: queuePair{qpn: 1001 + 2*i}, mtu: 1024, rdAtomic: 1,
			immediates: maxImmediates, message: messageSize}}), func(address) bool { return true })
	for id, c := range r.peers {
		if c.peer == peer {
			r.handshake.Proven(id)
			return id, nil
		}
	}
	return 0, rail.ErrRefused
}

// SetPosition makes it so many operations, and so many control messages, that a connection has had. Its queues are empty.
func (r *Rail) SetPosition(id rail.PeerID, position uint32) {
	c := r.peers[id]
	c.head, c.tail, c.msgHead, c.msgTail = position, position, position, position
}

// SetGeneration makes it so many connections that a rail has had, and so often that its datagram queue pair was reset.
func (r *Rail) SetGeneration(generation uint32) {
	r.generation, r.datagrams.generation = generation, generation
}

// ResetDatagrams takes the datagram queue pair back into use, as after a failure.
func (r *Rail) ResetDatagrams() error { r.datagrams.reset(); return r.datagrams.err }

// Datagrams has the queue pair of the handshake.
func (r *Rail) Datagrams() *verbs.QP { return r.datagrams.qp }

// Queue has the completion queue of all queue pairs.
func (r *Rail) Queue() *verbs.CQ { return r.cq }

// Queues has the queue pairs of a connection.
func (r *Rail) Queues(id rail.PeerID) (messages, writes *verbs.QP) {
	return r.peers[id].messages, r.peers[id].writes
}
