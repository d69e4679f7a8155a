package wire

import (
	"bytes"

	"github.com/weftrdma/weft/internal/tlv"
)

func (*Hello) format() *tlv.Format   { return helloFormat }
func (*Welcome) format() *tlv.Format { return welcomeFormat }
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
