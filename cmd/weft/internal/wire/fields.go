package wire

import (
	"bytes"
	"encoding/binary"

	"github.com/weftrdma/weft/internal/tlv"
)

func (*Hello) format() *tlv.Format   { return helloFormat }
func (*Welcome) format() *tlv.Format { return welcomeFormat }
func (*File) format() *tlv.Format    { return fileFormat }
func (*Digest) format() *tlv.Format  { return digestFormat }
func (*Answer) format() *tlv.Format  { return answerFormat }
func (*End) format() *tlv.Format     { return endFormat }
func (*Abort) format() *tlv.Format   { return abortFormat }

func (m *Hello) appendFields(b []byte) []byte {
	b = tlv.AppendField(b, fieldEngine, m.Engine)
	return tlv.AppendField(b, fieldMemory, m.Credits)
}

func (m *Hello) field(typ uint16, value []byte) error {
	switch typ {
	case fieldEngine:
		m.Engine = bytes.Clone(value)
	case fieldMemory:
		m.Credits = bytes.Clone(value)
	}
	return nil
}

func (m *Hello) check() error { return checkBlobs(m, m.Engine, m.Credits) }

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

func (m *File) appendFields(b []byte) []byte {
	b = tlv.AppendField(b, fieldName, []byte(m.Name))
	b = tlv.AppendField(b, fieldSize, binary.BigEndian.AppendUint64(nil, m.Size))
	return appendUint32(b, fieldMode, m.Mode)
}

func (m *File) field(typ uint16, value []byte) (err error) {
	switch typ {
	case fieldName:
		m.Name = string(value)
	case fieldSize:
		if len(value) != 8 {
			return refuse(m, "field %#x has %d bytes, not 8", typ, len(value))
		}
		m.Size = binary.BigEndian.Uint64(value)
	case fieldMode:
		m.Mode, err = uint32Field(m, typ, value)
	}
	return err
}

func (m *File) check() error {
	switch {
	case len(m.Name) == 0 || len(m.Name) > MaxName:
		return refuse(m, "a name of %d bytes, not 1 to %d", len(m.Name), MaxName)
	case m.Size > MaxSize:
		return refuse(m, "a size of %d bytes is over %d", m.Size, uint64(MaxSize))
	case m.Mode&^PermissionBits != 0:
		return refuse(m, "mode %#o is more than permissions", m.Mode)
	}
	return nil
}

func (m *Digest) appendFields(b []byte) []byte { return tlv.AppendField(b, fieldSHA256, m.SHA256[:]) }

func (m *Digest) field(typ uint16, value []byte) error {
	if len(value) != len(m.SHA256) {
		return refuse(m, "field %#x has %d bytes, not %d", typ, len(value), len(m.SHA256))
	}
	m.SHA256 = [32]byte(value)
	return nil
}

func (m *Digest) check() error { return nil }

func (m *Answer) appendFields(b []byte) []byte {
	return tlv.AppendField(b, fieldText, []byte(m.Refusal))
}

func (m *Answer) field(_ uint16, value []byte) error {
	m.Refusal = string(value)
	return nil
}

func (m *Answer) check() error { return checkText(m, m.Refusal) }

func (m *End) appendFields(b []byte) []byte   { return b }
func (m *End) field(_ uint16, _ []byte) error { return nil }
func (m *End) check() error                   { return nil }

func (m *Abort) appendFields(b []byte) []byte { return tlv.AppendField(b, fieldText, []byte(m.Text)) }

func (m *Abort) field(_ uint16, value []byte) error {
	m.Text = string(value)
	return nil
}

func (m *Abort) check() error { return checkText(m, m.Text) }

func checkText(m Message, text string) error {
	if len(text) > MaxText {
		return refuse(m, "a text of %d bytes is over %d", len(text), MaxText)
	}
	return nil
}
