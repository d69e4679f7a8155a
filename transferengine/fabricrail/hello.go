package fabricrail

import (
	"github.com/weftrdma/weft/internal/process"
	"github.com/weftrdma/weft/internal/tlv"
	"github.com/weftrdma/weft/transferengine/rail"
)

// hello is the one message that makes a connection; both ends send the same. It says who sends, which of its connections
// this is, what the other end needs to use it, and which connection of the other end it belongs to.
//
// Each end names its half of a connection by a random nonce: whoever repeats the nonce has read a message that was meant
// for him. Attempts grow with every half that an engine makes, so that of two halves that are meant for one peer the later
// one is known.
type hello struct {
	from        address
	to          uint64 // the key of the receiver's address
	incarnation rail.Incarnation
	nonce       uint64 // of the sender's half; not zero
	attempt     uint64 // of the sender's half
	holds       uint64 // the nonce of the receiver's half that the sender's is connected to, 0 while it is to none
	ackWanted   bool   // the sender does not know yet that the receiver holds its half
	half        half
}

// half is what one end of a connection needs to know of the other, besides its address.
type half struct {
	tag        tag    // goes into everything that is sent to this half
	immediates uint32 // that the receiver may send before it is granted more
	messages   uint32 // of the engine's, likewise
	message    uint32 // bytes of the longest of these
	virtual    bool   // memory of the sender is named by its addresses; without, by what is behind the start of its region
	process    process.ID
}

// Bounds of what a peer can grant.
const (
	maxImmediates = 1 << 16
	maxMessages   = 1 << 16
)

// Fields of a hello.
const (
	fieldFrom = iota + 1 | tlv.Required
	fieldTo
	fieldNonce
	fieldIncarnation
	fieldAttempt
	fieldHolds
	fieldFlags
	fieldTag
	fieldImmediates
	fieldMessages
	fieldMessage
	fieldProcess = 0x41 // optional
)

const (
	flagAckWanted = 1 << iota
	flagVirtual
)

var helloFormat = tlv.Format{
	Name: "hello", Magic: [4]byte{'W', 'f', 'R', 'H'}, Version: 1, MinVersion: 1,
	Known: []uint16{fieldFrom, fieldTo, fieldNonce, fieldIncarnation, fieldAttempt, fieldHolds, fieldFlags, fieldTag,
		fieldImmediates, fieldMessages, fieldMessage, fieldProcess},
}

// append appends the hello in its wire format to b, which must be empty. The fields that a refusal needs come first, so
// that a version that does not understand the rest can refuse it.
func (m *hello) append(b []byte) []byte {
	var flags byte
	if m.ackWanted {
		flags |= flagAckWanted
	}
	if m.half.virtual {
		flags |= flagVirtual
	}
	b = helloFormat.Begin(b)
	b = tlv.AppendField(b, fieldFrom, m.from.append(nil))
	b = appendUint64(b, fieldTo, m.to)
	b = appendUint64(b, fieldNonce, m.nonce)
	b = tlv.AppendField(b, fieldIncarnation, m.incarnation[:])
	b = appendUint64(b, fieldAttempt, m.attempt)
	b = appendUint64(b, fieldHolds, m.holds)
	b = tlv.AppendField(b, fieldFlags, []byte{flags})
	b = appendUint32(b, fieldTag, uint32(m.half.tag))
	b = appendUint32(b, fieldImmediates, m.half.immediates)
	b = appendUint32(b, fieldMessages, m.half.messages)
	b = appendUint32(b, fieldMessage, m.half.message)
	if m.half.process != (process.ID{}) {
		b = tlv.AppendField(b, fieldProcess, m.half.process.Pack())
	}
	return tlv.Finish(b)
}

// parseHello reads what append wrote.
func parseHello(b []byte) (*hello, error) {
	m := &hello{}
	f := fields{format: &helloFormat}
	if err := f.parse(b, func(typ uint16, v []byte) {
		switch typ {
		case fieldFrom:
			m.from, f.err = parseAddress(v)
		case fieldTo:
			m.to = f.uint64(typ, v)
		case fieldNonce:
			m.nonce = f.uint64(typ, v)
		case fieldIncarnation:
			f.copy(typ, m.incarnation[:], v)
		case fieldAttempt:
			m.attempt = f.uint64(typ, v)
		case fieldHolds:
			m.holds = f.uint64(typ, v)
		case fieldFlags:
			flags := f.uint8(typ, v)
			m.ackWanted, m.half.virtual = flags&flagAckWanted != 0, flags&flagVirtual != 0
		case fieldTag:
			m.half.tag = tag(f.uint32(typ, v))
		case fieldImmediates:
			m.half.immediates = f.uint32(typ, v)
		case fieldMessages:
			m.half.messages = f.uint32(typ, v)
		case fieldMessage:
			m.half.message = f.uint32(typ, v)
		case fieldProcess:
			if f.bytes(typ, v, process.Size, process.Size); f.err == nil {
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
	case m.nonce == 0 || h.tag == 0:
		return refuse(&helloFormat, "the nonce or the tag is zero")
	case h.immediates < 1 || h.immediates > maxImmediates:
		return refuse(&helloFormat, "%d immediates are outside 1 to %d", h.immediates, maxImmediates)
	case h.messages < 1 || h.messages > maxMessages:
		return refuse(&helloFormat, "%d messages are outside 1 to %d", h.messages, maxMessages)
	case h.message < rail.MinSend:
		return refuse(&helloFormat, "messages of %d bytes are less than %d", h.message, rail.MinSend)
	}
	return nil
}

// refusal answers a hello that leads to no connection. It is written so that every version reads it.
type refusal struct {
	to      uint64 // the key of the receiver's address
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

// maxReason is the longest text of a refusal in bytes; the rest is cut off.
const maxReason = 200

// Fields of a refusal, after fieldTo.
const (
	fieldAnswers = iota + 3 | tlv.Required
	fieldReason
	fieldWhy
)

var refusalFormat = tlv.Format{
	Name: "refusal", Magic: [4]byte{'W', 'f', 'R', 'N'}, Version: 1, MinVersion: 1,
	Known: []uint16{fieldTo, fieldAnswers, fieldReason, fieldWhy},
}

// append appends the refusal in its wire format to b, which must be empty.
func (m *refusal) append(b []byte) []byte {
	b = refusalFormat.Begin(b)
	b = appendUint64(b, fieldTo, m.to)
	b = appendUint64(b, fieldAnswers, m.answers)
	b = tlv.AppendField(b, fieldReason, []byte{byte(m.reason)})
	b = tlv.AppendField(b, fieldWhy, []byte(m.text[:min(len(m.text), maxReason)]))
	return tlv.Finish(b)
}

// parseRefusal reads what append wrote.
func parseRefusal(b []byte) (*refusal, error) {
	m := &refusal{}
	f := fields{format: &refusalFormat}
	if err := f.parse(b, func(typ uint16, v []byte) {
		switch typ {
		case fieldTo:
			m.to = f.uint64(typ, v)
		case fieldAnswers:
			m.answers = f.uint64(typ, v)
		case fieldReason:
			m.reason = reason(f.uint8(typ, v))
		case fieldWhy:
			m.text = string(v[:min(len(v), maxReason)])
		}
	}); err != nil {
		return nil, err
	}
	return m, nil
}

// peekHello reads who sent a hello that parseHello refused, and its nonce. ok is false unless it is another version's, and
// for this rail.
func (h *handshake) peekHello(b []byte) (from address, nonce uint64, ok bool) {
	lenient := helloFormat
	lenient.Version, lenient.Known = 255, []uint16{fieldFrom, fieldTo, fieldNonce}
	f := fields{format: &lenient}
	var to uint64
	_ = lenient.Parse(b, func(typ uint16, v []byte) error { // what follows the three fields is refused, as it must be
		switch typ {
		case fieldFrom:
			from, f.err = parseAddress(v)
		case fieldTo:
			to = f.uint64(typ, v)
		default:
			nonce = f.uint64(typ, v)
		}
		return f.err
	})
	newer := len(b) > 5 && b[5] > helloFormat.Version
	return from, nonce, newer && f.err == nil && to == h.self.key && from.key != 0 && nonce != 0
}
