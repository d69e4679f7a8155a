package transferengine

import (
	"github.com/weftrdma/weft/internal/tlv"
)

// Engines tell one another of failed immediates by messages of their rails; docs/wire.md has the format.

// messageKind says what a message is for. See failure.
type messageKind uint8

const (
	messageFailed  messageKind = iota + 1 // immediates of the sender's will not come
	messageForget                         // the sender wants to forget those that came
	messageSettled                        // nothing of them comes any more
	messageCleared                        // the sender has forgotten them
	messageLifted                         // the sender may send the value again
)

// message is what one engine tells another of an immediate.
type message struct {
	kind     messageKind
	sequence uint64 // of the messages to this peer, from 0: they take effect in this order
	imm      uint32
	attempt  uint64    // which the sender of the immediates numbers
	failed   [3]uint64 // of messageFailed: see countAcknowledged
}

// Fields of a message, of which the last is not in all.
const (
	messageKindField = iota + 1 | tlv.Required
	messageImmField
	messageAttemptField
	messageSequenceField

	messageCountsField = 5
)

var messageFormat = tlv.Format{Name: "engine message", Magic: [4]byte{'W', 't', 'M', 'S'}, Version: 1, MinVersion: 1,
	Known: []uint16{messageKindField, messageImmField, messageAttemptField, messageSequenceField, messageCountsField}}

// append appends the message in the wire format.
func (m *message) append(b []byte) []byte {
	b = messageFormat.Begin(b)
	b = tlv.AppendField(b, messageKindField, []byte{byte(m.kind)})
	b = tlv.AppendUint32(b, messageImmField, m.imm)
	b = tlv.AppendUint64(b, messageAttemptField, m.attempt)
	b = tlv.AppendUint64(b, messageSequenceField, m.sequence)
	if m.kind == messageFailed {
		b = tlv.AppendField(b, messageCountsField, numbers(m.failed[:]...))
	}
	return tlv.Finish(b)
}

// parseMessage reads what append wrote. A kind that is not known is for the caller to pass over.
func parseMessage(data []byte) (m message, err error) {
	f := tlv.Fields{Format: &messageFormat}
	counted := false
	err = f.Parse(data, func(typ uint16, value []byte) {
		switch typ {
		case messageKindField:
			m.kind = messageKind(f.Uint8(typ, value))
		case messageImmField:
			m.imm = f.Uint32(typ, value)
		case messageAttemptField:
			m.attempt = f.Uint64(typ, value)
		case messageSequenceField:
			m.sequence = f.Uint64(typ, value)
		case messageCountsField:
			counted = true
			var b [24]byte
			f.Copy(typ, b[:], value)
			_ = parseNumbers(m.failed[:], b[:], "counts")
		}
	})
	if err == nil && m.kind == messageFailed && !counted {
		err = messageFormat.Refuse("the counts of a failure are missing")
	}
	return m, err
}
