package wire

import (
	"encoding/binary"

	"github.com/weftrdma/weft/internal/tlv"
)

// Kind says what an entry of a transfer is.
type Kind uint32

// The kinds. A folder has no bytes.
const (
	RegularFile Kind = iota
	Folder
)

// UnknownSize is the size of a file that is known only when all of it was read, such as standard input.
const UnknownSize = 1<<64 - 1

// File announces a file or folder. The sender numbers them from 0 on, without gaps.
type File struct {
	Name    string // relative, elements separated by slashes
	Kind    Kind
	Size    uint64 // bytes, or UnknownSize
	Mode    uint32 // PermissionBits only
	ModTime int64  // nanoseconds since 1970
}

// Accept asks for the bytes of a file.
type Accept struct {
	Number uint64   // of the file
	Have   uint64   // so many bytes of it are there from a transfer that was interrupted
	SHA256 [32]byte // of these
}

// Answer says what became of a file: it is in place, or why not. It may come before the last bytes of the file were sent.
type Answer struct {
	Number  uint64 // of the file
	Refusal string // empty: in place
}

// Alive says that the sender of the message still works, where that may take longer than the other end waits.
type Alive struct{}

// End says that all files were sent, and were answered.
type End struct{}

func (*File) format() *tlv.Format   { return fileFormat }
func (*Accept) format() *tlv.Format { return acceptFormat }
func (*Answer) format() *tlv.Format { return answerFormat }
func (*Alive) format() *tlv.Format  { return aliveFormat }
func (*End) format() *tlv.Format    { return endFormat }

func (m *File) appendFields(b []byte) []byte {
	b = tlv.AppendField(b, fieldName, []byte(m.Name))
	b = appendUint32(b, fieldKind, uint32(m.Kind))
	b = tlv.AppendUint64(b, fieldSize, m.Size)
	b = appendUint32(b, fieldMode, m.Mode)
	return tlv.AppendUint64(b, fieldModTime, uint64(m.ModTime))
}

func (m *File) field(typ uint16, value []byte) (err error) {
	switch typ {
	case fieldName:
		m.Name = string(value)
	case fieldKind:
		var kind uint32
		kind, err = uint32Field(m, typ, value)
		m.Kind = Kind(kind)
	case fieldSize:
		m.Size, err = uint64Field(m, typ, value)
	case fieldMode:
		m.Mode, err = uint32Field(m, typ, value)
	case fieldModTime:
		var t uint64
		t, err = uint64Field(m, typ, value)
		m.ModTime = int64(t)
	}
	return err
}

func (m *File) check() error {
	switch {
	case len(m.Name) == 0 || len(m.Name) > MaxName:
		return refuse(m, "a name of %d bytes, not 1 to %d", len(m.Name), MaxName)
	case m.Kind > Folder:
		return refuse(m, "kind %d is none", m.Kind)
	case m.Size > MaxSize && m.Size != UnknownSize:
		return refuse(m, "a size of %d bytes is over %d", m.Size, uint64(MaxSize))
	case m.Kind == Folder && m.Size != 0:
		return refuse(m, "a folder of %d bytes", m.Size)
	case m.Mode&^PermissionBits != 0:
		return refuse(m, "mode %#o is more than permissions", m.Mode)
	}
	return nil
}

func (m *Accept) appendFields(b []byte) []byte {
	b = tlv.AppendUint64(b, fieldNumber, m.Number)
	b = tlv.AppendUint64(b, fieldHave, m.Have)
	return tlv.AppendField(b, fieldSHA256, m.SHA256[:])
}

func (m *Accept) field(typ uint16, value []byte) (err error) {
	switch typ {
	case fieldNumber:
		m.Number, err = uint64Field(m, typ, value)
	case fieldHave:
		m.Have, err = uint64Field(m, typ, value)
	case fieldSHA256:
		if len(value) != len(m.SHA256) {
			return refuse(m, "field %#x has %d bytes, not %d", typ, len(value), len(m.SHA256))
		}
		m.SHA256 = [32]byte(value)
	}
	return err
}

func (m *Accept) check() error {
	if m.Have > MaxSize {
		return refuse(m, "%d bytes that are there are over %d", m.Have, uint64(MaxSize))
	}
	return nil
}

func (m *Answer) appendFields(b []byte) []byte {
	b = tlv.AppendUint64(b, fieldNumber, m.Number)
	return tlv.AppendField(b, fieldText, []byte(m.Refusal))
}

func (m *Answer) field(typ uint16, value []byte) (err error) {
	switch typ {
	case fieldNumber:
		m.Number, err = uint64Field(m, typ, value)
	case fieldText:
		m.Refusal = string(value)
	}
	return err
}

func (m *Answer) check() error { return checkText(m, m.Refusal) }

func (m *Alive) appendFields(b []byte) []byte   { return b }
func (m *Alive) field(_ uint16, _ []byte) error { return nil }
func (m *Alive) check() error                   { return nil }

func (m *End) appendFields(b []byte) []byte   { return b }
func (m *End) field(_ uint16, _ []byte) error { return nil }
func (m *End) check() error                   { return nil }

// uint64Field reads a number that a message has as its field typ.
func uint64Field(m Message, typ uint16, value []byte) (uint64, error) {
	if len(value) != 8 {
		return 0, refuse(m, "field %#x has %d bytes, not 8", typ, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}
