package wire

import (
	"github.com/weftrdma/weft/internal/tlv"
)

func (*Abort) format() *tlv.Format { return abortFormat }

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
