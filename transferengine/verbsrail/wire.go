package verbsrail

import (
	"github.com/weftrdma/weft/internal/process"
	"github.com/weftrdma/weft/internal/tlv"
	"github.com/weftrdma/weft/transferengine/internal/handshake"
)

// hello is the handshake's message of this rail. Like a refusal it is one datagram.
type hello = handshake.Hello[address, half]

// maxDatagram is the largest datagram of the handshake that this version writes, in bytes: it fits every path MTU.
const maxDatagram = 256

// half is what one end of a connection needs to know of the other, besides its address: a pair of queue pairs at each end.
type half struct {
	messages, writes queuePair
	mtu              uint32 // of the sender's port, in bytes
	rdAtomic         uint8  // RDMA reads and atomics that the sender takes at a time
	immediates       uint32 // that the receiver may send before it is granted more
	message          uint32 // bytes of the largest control message that the sender takes
	process          process.ID
}

// queuePair is one end of a reliable connection.
type queuePair struct {
	qpn, psn uint32 // 24 bits each
}

// Bounds of what a peer can grant.
const (
	maxImmediates = 1 << 16
	maxMessage    = 1 << 16
)

// Fields of a half, of which the last two are optional.
const (
	fieldMessages = iota + 7 | tlv.Required
	fieldWrites
	fieldMTU
	fieldRDAtomic
	fieldImmediates

	fieldMessageSize = 0x40
	fieldProcess     = 0x41
)

// wire has no keys, since datagrams have Q_Keys.
var wire = handshake.Wire[address, half]{
	Hello: [4]byte{'W', 'v', 'H', 'I'}, Refusal: [4]byte{'W', 'v', 'N', 'O'},
	AppendAddress: func(b []byte, a address) []byte { return a.append(b) }, ParseAddress: parseAddress,
	Fields: []uint16{fieldMessages, fieldWrites, fieldMTU, fieldRDAtomic, fieldImmediates, fieldMessageSize, fieldProcess},
	// A hello without the field is of a peer that takes no longer messages.
	DefaultHalf: half{message: olderMessage},
	AppendHalf:  appendHalf, ParseHalf: parseHalf, CheckHalf: checkHalf,
	MaxText: 120,
}

func appendHalf(b []byte, h *half) []byte {
	b = tlv.AppendUint64(b, fieldMessages, h.messages.pack())
	b = tlv.AppendUint64(b, fieldWrites, h.writes.pack())
	b = tlv.AppendUint32(b, fieldMTU, h.mtu)
	b = tlv.AppendField(b, fieldRDAtomic, []byte{h.rdAtomic})
	b = tlv.AppendUint32(b, fieldImmediates, h.immediates)
	if h.message != olderMessage {
		b = tlv.AppendUint32(b, fieldMessageSize, h.message)
	}
	if h.process != (process.ID{}) {
		b = tlv.AppendField(b, fieldProcess, h.process.Pack())
	}
	return b
}

func parseHalf(f *tlv.Fields, h *half, typ uint16, v []byte) {
	switch typ {
	case fieldMessages:
		h.messages = unpackQueuePair(f.Uint64(typ, v))
	case fieldWrites:
		h.writes = unpackQueuePair(f.Uint64(typ, v))
	case fieldMTU:
		h.mtu = f.Uint32(typ, v)
	case fieldRDAtomic:
		h.rdAtomic = f.Uint8(typ, v)
	case fieldImmediates:
		h.immediates = f.Uint32(typ, v)
	case fieldMessageSize:
		h.message = f.Uint32(typ, v)
	case fieldProcess:
		h.process = handshake.ParseProcess(f, typ, v)
	}
}

func checkHalf(f *tlv.Format, h *half) error {
	switch {
	case !h.messages.valid() || !h.writes.valid():
		return f.Refuse("queue pairs %+v and %+v: numbers have 24 bits, and 0 and 1 are taken", h.messages, h.writes)
	case h.messages.qpn == h.writes.qpn:
		return f.Refuse("queue pair %d is there twice", h.writes.qpn)
	case h.mtu < 256 || h.mtu > 4096 || h.mtu&(h.mtu-1) != 0:
		return f.Refuse("%d bytes are no path MTU", h.mtu)
	case h.immediates < 1 || h.immediates > maxImmediates:
		return f.Refuse("%d immediates are outside 1 to %d", h.immediates, maxImmediates)
	case h.message < olderMessage || h.message > maxMessage:
		return f.Refuse("messages of %d bytes are outside %d to %d", h.message, olderMessage, maxMessage)
	}
	return nil
}

func (q queuePair) valid() bool { return q.qpn >= 2 && q.qpn <= maxQPN && q.psn <= maxPSN }

// pack puts the number into the upper and the PSN into the lower 32 bits.
func (q queuePair) pack() uint64 { return uint64(q.qpn)<<32 | uint64(q.psn) }

func unpackQueuePair(v uint64) queuePair { return queuePair{qpn: uint32(v >> 32), psn: uint32(v)} }
