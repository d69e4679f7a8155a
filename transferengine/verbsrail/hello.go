package verbsrail

import (
	"github.com/weftrdma/weft/internal/process"
	"github.com/weftrdma/weft/internal/tlv"
	"github.com/weftrdma/weft/transferengine/rail"
)

// maxDatagram is the largest datagram of the handshake that this version writes, in bytes: it fits every path MTU.
const maxDatagram = 256

// hello is the one datagram that makes a connection; both ends send the same. It says who sends, which of its connections
// this is, what the other end needs to reach it, and which connection of the other end it belongs to.
//
// A connection is a pair of queue pairs at each end. Each end names its half by a random nonce: whoever repeats the nonce
// has read a datagram that was meant for him. Attempts grow with every half that an engine makes, so that of two halves
// that are meant for one peer the later one is known.
type hello struct {
	from        address
	incarnation rail.Incarnation
	nonce       uint64 // of the sender's half; not zero
	attempt     uint64 // of the sender's half
	holds       uint64 // the nonce of the receiver's half that the sender's is connected to, 0 while it is to none
	ackWanted   bool   // the sender does not know yet that the receiver holds its half
	half        half
}

// half is what one end of a connection needs to know of the other, besides its address.
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

// Fields of a hello.
const (
	fieldFrom = iota + 1 | tlv.Required
	fieldNonce
	fieldIncarnation
	fieldAttempt
	fieldHolds
	fieldFlags
	fieldMessages
	fieldWrites
	fieldMTU
	fieldRDAtomic
	fieldImmediates
)

// Optional fields of a hello.
const (
	fieldMessageSize = 0x40 + iota
	fieldProcess
)

const flagAckWanted = 1 << 0

var helloFormat = tlv.Format{
	Name: "hello", Magic: [4]byte{'W', 'v', 'H', 'I'}, Version: 1, MinVersion: 1,
	Known: []uint16{fieldFrom, fieldNonce, fieldIncarnation, fieldAttempt, fieldHolds, fieldFlags, fieldMessages, fieldWrites,
		fieldMTU, fieldRDAtomic, fieldImmediates, fieldMessageSize,
		fieldProcess},
}

// append appends the hello in its wire format to b, which must be empty. The fields that a refusal needs come first, so
// that a version that does not understand the rest can refuse it.
func (m *hello) append(b []byte) []byte {
	var flags byte
	if m.ackWanted {
		flags |= flagAckWanted
	}
	b = helloFormat.Begin(b)
	b = tlv.AppendField(b, fieldFrom, m.from.append(nil))
	b = appendUint64(b, fieldNonce, m.nonce)
	b = tlv.AppendField(b, fieldIncarnation, m.incarnation[:])
	b = appendUint64(b, fieldAttempt, m.attempt)
	b = appendUint64(b, fieldHolds, m.holds)
	b = tlv.AppendField(b, fieldFlags, []byte{flags})
	b = appendUint64(b, fieldMessages, m.half.messages.pack())
	b = appendUint64(b, fieldWrites, m.half.writes.pack())
	b = appendUint32(b, fieldMTU, m.half.mtu)
	b = tlv.AppendField(b, fieldRDAtomic, []byte{m.half.rdAtomic})
	b = appendUint32(b, fieldImmediates, m.half.immediates)
	if m.half.message != olderMessage {
		b = appendUint32(b, fieldMessageSize, m.half.message)
	}
	if m.half.process != (process.ID{}) {
		b = tlv.AppendField(b, fieldProcess, m.half.process.Pack())
	}
	return tlv.Finish(b)
}

// parseHello reads what append wrote.
func parseHello(b []byte) (*hello, error) {
	m := &hello{half: half{message: olderMessage}}
	f := fields{format: &helloFormat}
	if err := f.parse(b, func(typ uint16, v []byte) {
		switch typ {
		case fieldFrom:
			m.from, f.err = parseAddress(v)
		case fieldNonce:
			m.nonce = f.uint64(typ, v)
		case fieldIncarnation:
			f.copy(typ, m.incarnation[:], v)
		case fieldAttempt:
			m.attempt = f.uint64(typ, v)
		case fieldHolds:
			m.holds = f.uint64(typ, v)
		case fieldFlags:
			m.ackWanted = f.uint8(typ, v)&flagAckWanted != 0
		case fieldMessages:
			m.half.messages = unpackQueuePair(f.uint64(typ, v))
		case fieldWrites:
			m.half.writes = unpackQueuePair(f.uint64(typ, v))
		case fieldMTU:
			m.half.mtu = f.uint32(typ, v)
		case fieldRDAtomic:
			m.half.rdAtomic = f.uint8(typ, v)
		case fieldImmediates:
			m.half.immediates = f.uint32(typ, v)
		case fieldMessageSize:
			m.half.message = f.uint32(typ, v)
		case fieldProcess:
			if f.size(typ, v, process.Size) {
				m.half.process = process.Unpack(v)
			}
		}
	}); err != nil {
		return nil, err
	}
	return m, m.check()
}

func (m *hello) check() error {
	h := &m.half
	switch {
	case m.nonce == 0:
		return refuse(&helloFormat, "the nonce is zero")
	case !h.messages.valid() || !h.writes.valid():
		return refuse(&helloFormat, "queue pairs %+v and %+v: numbers have 24 bits, and 0 and 1 are taken", h.messages, h.writes)
	case h.messages.qpn == h.writes.qpn:
		return refuse(&helloFormat, "queue pair %d is there twice", h.writes.qpn)
	case h.mtu < 256 || h.mtu > 4096 || h.mtu&(h.mtu-1) != 0:
		return refuse(&helloFormat, "%d bytes are no path MTU", h.mtu)
	case h.immediates < 1 || h.immediates > maxImmediates:
		return refuse(&helloFormat, "%d immediates are outside 1 to %d", h.immediates, maxImmediates)
	case h.message < olderMessage || h.message > maxMessage:
		return refuse(&helloFormat, "messages of %d bytes are outside %d to %d", h.message, olderMessage, maxMessage)
	}
	return nil
}

func (q queuePair) valid() bool { return q.qpn >= 2 && q.qpn <= maxQPN && q.psn <= maxPSN }

// pack puts the number into the upper and the PSN into the lower 32 bits.
func (q queuePair) pack() uint64 { return uint64(q.qpn)<<32 | uint64(q.psn) }

func unpackQueuePair(v uint64) queuePair { return queuePair{qpn: uint32(v >> 32), psn: uint32(v)} }

// refusal answers a hello that leads to no connection. It is written so that every version reads it.
type refusal struct {
	from    address
	answers uint64 // the nonce of the hello
	reason  reason
	text    string // for people
}

// reason says why a hello was refused.
type reason uint8

const (
	reasonVersion reason = iota + 1 // the hello needs a version that the refuser does not have
	reasonNoRoom                    // no queues are left for another peer
	reasonStale                     // the hello holds a half that the refuser has given up, or never had
	reasonClosing                   // the refuser gave up this connection
	reasonFailed                    // the refuser could not make the connection
)

func (r reason) String() string {
	names := [...]string{"", "version", "no room", "stale", "closing", "failed"}
	if int(r) < len(names) {
		return names[r]
	}
	return "unknown reason"
}

// maxText is the longest text of a refusal in bytes; the rest is cut off.
const maxText = 120

// Fields of a refusal.
const (
	fieldAnswers = iota + 2 | tlv.Required // after fieldFrom
	fieldReason
	fieldText
)

var refusalFormat = tlv.Format{
	Name: "refusal", Magic: [4]byte{'W', 'v', 'N', 'O'}, Version: 1, MinVersion: 1,
	Known: []uint16{fieldFrom, fieldAnswers, fieldReason, fieldText},
}

// append appends the refusal in its wire format to b, which must be empty.
func (m *refusal) append(b []byte) []byte {
	b = refusalFormat.Begin(b)
	b = tlv.AppendField(b, fieldFrom, m.from.append(nil))
	b = appendUint64(b, fieldAnswers, m.answers)
	b = tlv.AppendField(b, fieldReason, []byte{byte(m.reason)})
	b = tlv.AppendField(b, fieldText, []byte(m.text[:min(len(m.text), maxText)]))
	return tlv.Finish(b)
}

// parseRefusal reads what append wrote.
func parseRefusal(b []byte) (*refusal, error) {
	m := &refusal{}
	f := fields{format: &refusalFormat}
	if err := f.parse(b, func(typ uint16, v []byte) {
		switch typ {
		case fieldFrom:
			m.from, f.err = parseAddress(v)
		case fieldAnswers:
			m.answers = f.uint64(typ, v)
		case fieldReason:
			m.reason = reason(f.uint8(typ, v))
		case fieldText:
			m.text = string(v[:min(len(v), maxText)])
		}
	}); err != nil {
		return nil, err
	}
	return m, nil
}

// peekHello reads who sent a hello that parseHello refused, and its nonce. ok is false unless it is another version's.
func peekHello(b []byte) (from address, nonce uint64, ok bool) {
	lenient := helloFormat
	lenient.Version, lenient.Known = 255, []uint16{fieldFrom, fieldNonce}
	f := fields{format: &lenient}
	_ = lenient.Parse(b, func(typ uint16, v []byte) error { // what follows the two fields is refused, as it must be
		if typ == fieldFrom {
			from, f.err = parseAddress(v)
		} else {
			nonce = f.uint64(typ, v)
		}
		return f.err
	})
	newer := len(b) > 5 && b[5] > helloFormat.Version
	return from, nonce, newer && f.err == nil && from != address{} && nonce != 0
}
