package wire

import (
	"bytes"

	"github.com/weftrdma/weft/internal/tlv"
)

// NonceSize is the size of a nonce in bytes.
const NonceSize = 32

// Hello is the sender's first message.
type Hello struct {
	Nonce [NonceSize]byte // random
	Keyed bool            // it has a key, and authenticates what follows
}

// Challenge answers a Hello.
type Challenge struct {
	Nonce [NonceSize]byte // random
	Keyed bool            // the receiver has a key, and serves nobody without it
}

// Request asks for a seat.
type Request struct {
	Engine  []byte // address of the sender's engine, in its own wire format
	Credits []byte // descriptor of the memory whose writes, without bytes, give slots back
}

// Wait tells the sender that all seats are taken.
type Wait struct {
	Place uint32 // in line: 1 is the next
}

// Welcome gives the sender a seat.
type Welcome struct {
	Engine   []byte // address of the receiver's engine
	Window   []byte // descriptor of the memory that takes the files' bytes: SlotSize · Slots bytes
	SlotSize uint32 // bytes
	Slots    uint32
}

const (
	fieldEngine   = tlv.Required | 1
	fieldMemory   = tlv.Required | 2
	fieldSlotSize = tlv.Required | 3
	fieldSlots    = tlv.Required | 4
	fieldNonce    = tlv.Required | 0x20
	fieldKeyed    = tlv.Required | 0x21
	fieldPlace    = tlv.Required | 0x22
)

var (
	helloFormat     = newFormat("hello", "WfHI", fieldNonce, fieldKeyed)
	challengeFormat = newFormat("challenge", "WfCH", fieldNonce, fieldKeyed)
	requestFormat   = newFormat("request", "WfRQ", fieldEngine, fieldMemory)
	waitFormat      = newFormat("wait", "WfWA", fieldPlace)
	welcomeFormat   = newFormat("welcome", "WfWE", fieldEngine, fieldMemory, fieldSlotSize, fieldSlots)
)

func (*Hello) format() *tlv.Format     { return helloFormat }
func (*Challenge) format() *tlv.Format { return challengeFormat }
func (*Request) format() *tlv.Format   { return requestFormat }
func (*Wait) format() *tlv.Format      { return waitFormat }
func (*Welcome) format() *tlv.Format   { return welcomeFormat }

func (m *Hello) appendFields(b []byte) []byte     { return appendNonce(b, &m.Nonce, m.Keyed) }
func (m *Challenge) appendFields(b []byte) []byte { return appendNonce(b, &m.Nonce, m.Keyed) }

func (m *Hello) field(typ uint16, value []byte) error {
	return nonceField(m, typ, value, &m.Nonce, &m.Keyed)
}

func (m *Challenge) field(typ uint16, value []byte) error {
	return nonceField(m, typ, value, &m.Nonce, &m.Keyed)
}

func (m *Hello) check() error     { return nil }
func (m *Challenge) check() error { return nil }

func appendNonce(b []byte, nonce *[NonceSize]byte, keyed bool) []byte {
	b = tlv.AppendField(b, fieldNonce, nonce[:])
	value := []byte{0}
	if keyed {
		value[0] = 1
	}
	return tlv.AppendField(b, fieldKeyed, value)
}

func nonceField(m Message, typ uint16, value []byte, nonce *[NonceSize]byte, keyed *bool) error {
	switch {
	case typ == fieldNonce && len(value) == NonceSize:
		*nonce = [NonceSize]byte(value)
	case typ == fieldKeyed && len(value) == 1 && value[0] <= 1:
		*keyed = value[0] == 1
	default:
		return refuse(m, "field %#x is %#x", typ, value[:min(len(value), NonceSize)])
	}
	return nil
}

func (m *Request) appendFields(b []byte) []byte {
	b = tlv.AppendField(b, fieldEngine, m.Engine)
	return tlv.AppendField(b, fieldMemory, m.Credits)
}

func (m *Request) field(typ uint16, value []byte) error {
	switch typ {
	case fieldEngine:
		m.Engine = bytes.Clone(value)
	case fieldMemory:
		m.Credits = bytes.Clone(value)
	}
	return nil
}

func (m *Request) check() error { return checkBlobs(m, m.Engine, m.Credits) }

func (m *Wait) appendFields(b []byte) []byte { return appendUint32(b, fieldPlace, m.Place) }

func (m *Wait) field(typ uint16, value []byte) (err error) {
	m.Place, err = uint32Field(m, typ, value)
	return err
}

func (m *Wait) check() error {
	if m.Place == 0 {
		return refuse(m, "place 0 in line, the first is 1")
	}
	return nil
}

func (m *Welcome) appendFields(b []byte) []byte {
	b = tlv.AppendField(b, fieldEngine, m.Engine)
	b = tlv.AppendField(b, fieldMemory, m.Window)
	b = appendUint32(b, fieldSlotSize, m.SlotSize)
	return appendUint32(b, fieldSlots, m.Slots)
}

func (m *Welcome) field(typ uint16, value []byte) (err error) {
	switch typ {
	case fieldEngine:
		m.Engine = bytes.Clone(value)
	case fieldMemory:
		m.Window = bytes.Clone(value)
	case fieldSlotSize:
		m.SlotSize, err = uint32Field(m, typ, value)
	case fieldSlots:
		m.Slots, err = uint32Field(m, typ, value)
	}
	return err
}

func (m *Welcome) check() error {
	if m.SlotSize == 0 || m.Slots == 0 {
		return refuse(m, "%d slots of %d bytes", m.Slots, m.SlotSize)
	}
	return checkBlobs(m, m.Engine, m.Window)
}

// checkBlobs bounds what is carried in the format of the engine, so that AppendField can take it.
func checkBlobs(m Message, blobs ...[]byte) error {
	for _, b := range blobs {
		if len(b) == 0 || len(b) > MaxMessage {
			return refuse(m, "an address or descriptor of %d bytes, not 1 to %d", len(b), MaxMessage)
		}
	}
	return nil
}
