package wire

import (
	"encoding/binary"

	"github.com/weftrdma/weft/internal/tlv"
)

// File announces a file.
type File struct {
	Name string // relative, elements separated by slashes
	Size uint64 // bytes
	Mode uint32 // PermissionBits only
}

// Digest ends a file.
type Digest struct {
	SHA256 [32]byte
}

// Answer takes a File or a Digest, or says why not.
type Answer struct {
	Refusal string // empty: taken
}

// End says that all files were sent.
type End struct{}

func (*File) format() *tlv.Format   { return fileFormat }
func (*Digest) format() *tlv.Format { return digestFormat }
func (*Answer) format() *tlv.Format { return answerFormat }
func (*End) format() *tlv.Format    { return endFormat }

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
