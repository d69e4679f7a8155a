package fabricrail

import (
	"errors"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/mem"
)

// messageSize is the longest message, of whatever kind, in bytes.
const messageSize = 640

// How many buffers there are. Peers can have sent more than there are receives: a provider of reliable datagrams keeps those.
const (
	messageRecvs = 256
	messageSends = 512
	// sendsPerPeer is how many of the sends one endpoint can take. One that does not listen completes none, and hellos in its name are
	// answered: it would take them all, and nobody else would be told anything.
	sendsPerPeer = ownPerPeer / 2
)

// mailbox is the buffers of messages: receives, then sends.
type mailbox struct {
	ep     *fabric.Endpoint // that receives
	memory *mem.Buffer
	mr     *fabric.MR
	free   []uint32 // sends
	sends  [messageSends]send
}

// send is what is known of a message that is being sent.
type send struct {
	generation uint32
	to         *remote
	conn       *conn // whose farewell or fence it is
	kind       controlKind
}

func (m *mailbox) open(r *Rail) (err error) {
	m.ep = r.transport.receiver()
	if m.memory, err = mem.Map((messageRecvs + messageSends) * messageSize); err != nil {
		return err
	}
	if m.mr, err = r.domain.RegMR(m.memory.Bytes(), fabric.MRConfig{}); err != nil {
		return err
	}
	for i := range uint32(messageSends) {
		m.free = append(m.free, i)
	}
	for i := range uint32(messageRecvs) {
		if err := m.receive(i); err != nil {
			return err
		}
	}
	return nil
}

// receive posts the receive of a buffer, from anyone.
func (m *mailbox) receive(i uint32) error {
	_, err := m.ep.Recv([]fabric.Op{{ID: newWorkID(workRecv, 0, i), Peer: fabric.AddrUnspec, NumSeg: 1}},
		[]fabric.Seg{m.mr.Seg(uint64(i)*messageSize, messageSize)})
	return err
}

// received is the message in the buffer of a receive.
func (m *mailbox) received(i uint32, length uint64) []byte {
	return m.memory.Bytes()[i*messageSize:][:min(length, messageSize)]
}

// buffer returns a free buffer for a message to an endpoint, or false.
func (m *mailbox) buffer(to *remote) (i uint32, b []byte, ok bool) {
	if len(m.free) == 0 || to.sends >= sendsPerPeer {
		return 0, nil, false
	}
	i = m.free[len(m.free)-1]
	return i, m.memory.Bytes()[(messageRecvs+i)*messageSize:][:messageSize], true
}

// post sends n bytes of the buffer that was just returned. False is back-pressure.
func (m *mailbox) post(i uint32, n int, to *remote, c *conn, kind controlKind) (sent bool, err error) {
	s := &m.sends[i]
	op := fabric.Op{ID: newWorkID(workSend, s.generation, i), Peer: to.addr, NumSeg: 1}
	if c != nil && to.link != nil {
		op.Flags = fabric.FlagDeliveryComplete // for the link may be closed once a farewell was heard
	}
	_, err = to.ep.Send([]fabric.Op{op},
		[]fabric.Seg{m.mr.Seg(uint64(messageRecvs+i)*messageSize, uint64(n))})
	if errors.Is(err, fabric.ErrQueueFull) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	m.free = m.free[:len(m.free)-1]
	s.to, s.conn, s.kind = to, c, kind
	to.sends++
	return true, nil
}

// sent takes the completion of a send.
func (m *mailbox) sent(id workID) (s send, ok bool) {
	i := id.place()
	if i >= messageSends || m.sends[i].to == nil || m.sends[i].generation%maxGenerations != id.generation() {
		return send{}, false
	}
	s = m.sends[i]
	m.sends[i] = send{generation: s.generation + 1}
	m.free = append(m.free, i)
	s.to.sends--
	return s, true
}

func (m *mailbox) close() error {
	if m.mr != nil {
		if err := m.mr.Close(); err != nil {
			return err // what the provider may still use stays mapped
		}
	}
	if m.memory != nil {
		return m.memory.Close()
	}
	return nil
}

// forget frees the buffers of what was on its way to a remote, which is closed.
func (m *mailbox) forget(to *remote) {
	for i := range m.sends {
		s := m.sends[i]
		if s.to != to {
			continue
		}
		if s.conn != nil && s.kind == controlBye {
			s.conn.byesSent++
		}
		m.sends[i] = send{generation: s.generation + 1}
		m.free = append(m.free, uint32(i))
		to.sends--
	}
}

// part gives back a remote that nobody uses any more.
func (r *Rail) part(to *remote) {
	if to != nil && to.link == nil && to.users == 0 && to.sends == 0 {
		r.transport.part(to)
	}
}
