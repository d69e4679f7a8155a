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
func (r *Rail) Adopt(now time.Time) (rail.PeerID, error) {
	r.touch(now)
	peer, _ := parseAddress(r.address) // the null provider's first queue pair has number 1, which is refused
	peer.qpn++
	r.handshake.Handle(now, wire.AppendHello(nil, &hello{From: peer, Incarnation: rail.Incarnation{15: 1}, Nonce: 1, Attempt: 1,
		Half: half{messages: queuePair{qpn: 1000}, writes: queuePair{qpn: 1001}, mtu: 1024, rdAtomic: 1,
			immediates: maxImmediates, message: messageSize}}), func(address) bool { return true })
	for id, c := range r.peers {
		if c.peer == peer {
			r.handshake.Proven(id)
			return id, nil
		}
	}
	return 0, rail.ErrRefused
}
