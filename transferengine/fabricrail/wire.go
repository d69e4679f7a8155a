package fabricrail

import (
	"crypto/subtle"

	"github.com/weftrdma/weft/internal/process"
	"github.com/weftrdma/weft/internal/tlv"
	"github.com/weftrdma/weft/transferengine/internal/handshake"
	"github.com/weftrdma/weft/transferengine/rail"
)

// hello is the handshake's message of this rail.
type hello = handshake.Hello[address, half]

// half is what one end of a connection needs to know of the other, besides its address.
type half struct {
	tag        tag    // goes into everything that is sent to this half
	secret     secret // goes into every message that is sent to this half
	immediates uint32 // that the receiver may send before it is granted more
	messages   uint32 // of the engine's, likewise
	message    uint32 // bytes of the longest of these
	process    process.ID
}

// secret is random, and known to the two ends of a connection alone: a message without it is nobody's, so that farewells, grants and
// messages cannot be made up by others.
type secret [16]byte

// is tells whether they are the same, in a time that does not depend on where they differ.
func (s *secret) is(other *secret) bool { return subtle.ConstantTimeCompare(s[:], other[:]) == 1 }

// Bounds of what a peer can grant.
const (
	maxImmediates = 1 << 16
	maxMessages   = 1 << 16
)

// Fields of a half, of which the last is optional.
const (
	fieldTag = iota + 8 | tlv.Required
	fieldImmediates
	fieldMessages
	fieldMessage
	fieldSecret

	fieldProcess = 0x41
)

// wire has the keys of addresses in it: an endpoint takes messages from everybody.
var wire = handshake.Wire[address, half]{
	Hello: [4]byte{'W', 'f', 'R', 'H'}, Refusal: [4]byte{'W', 'f', 'R', 'N'},
	Version: 2, Oldest: 2, // 1 had no secret
	AppendAddress: func(b []byte, a address) []byte { return a.append(b) }, ParseAddress: parseAddress,
	Key:        func(a address) uint64 { return a.key },
	Fields:     []uint16{fieldTag, fieldImmediates, fieldMessages, fieldMessage, fieldSecret, fieldProcess},
	AppendHalf: appendHalf, ParseHalf: parseHalf, CheckHalf: checkHalf,
	MaxText: 200,
}

func appendHalf(b []byte, h *half) []byte {
	b = tlv.AppendUint32(b, fieldTag, uint32(h.tag))
	b = tlv.AppendUint32(b, fieldImmediates, h.immediates)
	b = tlv.AppendUint32(b, fieldMessages, h.messages)
	b = tlv.AppendUint32(b, fieldMessage, h.message)
	b = tlv.AppendField(b, fieldSecret, h.secret[:])
	if h.process != (process.ID{}) {
		b = tlv.AppendField(b, fieldProcess, h.process.Pack())
	}
	return b
}

func parseHalf(f *tlv.Fields, h *half, typ uint16, v []byte) {
	switch typ {
	case fieldTag:
		h.tag = tag(f.Uint32(typ, v))
	case fieldImmediates:
		h.immediates = f.Uint32(typ, v)
	case fieldMessages:
		h.messages = f.Uint32(typ, v)
	case fieldMessage:
		h.message = f.Uint32(typ, v)
	case fieldSecret:
		f.Copy(typ, h.secret[:], v)
	case fieldProcess:
		h.process = handshake.ParseProcess(f, typ, v)
	}
}

func checkHalf(f *tlv.Format, h *half) error {
	switch {
	case h.tag == 0:
		return f.Refuse("the tag is zero")
	case h.secret == secret{}:
		return f.Refuse("the secret is zero")
	case h.immediates < 1 || h.immediates > maxImmediates:
		return f.Refuse("%d immediates are outside 1 to %d", h.immediates, maxImmediates)
	case h.messages < 1 || h.messages > maxMessages:
		return f.Refuse("%d messages are outside 1 to %d", h.messages, maxMessages)
	case h.message < rail.MinSend:
		return f.Refuse("messages of %d bytes are less than %d", h.message, rail.MinSend)
	}
	return nil
}
