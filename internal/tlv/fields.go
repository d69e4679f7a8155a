package tlv

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// Fields reads the fields of one message and keeps the first error.
type Fields struct {
	Format *Format
	Err    error
	seen   int
}

// Parse calls visit for each known field of message, until Err is set. Those that are not optional must be there.
func (f *Fields) Parse(message []byte, visit func(typ uint16, value []byte)) error {
	err := f.Format.Parse(message, func(typ uint16, value []byte) error {
		visit(typ, value)
		if typ&Required != 0 {
			f.seen++
		}
		return f.Err
	})
	needed := 0
	for _, typ := range f.Format.Known {
		if typ&Required != 0 {
			needed++
		}
	}
	if err == nil && f.seen < needed {
		err = f.Format.Refuse("%d of %d fields are there", f.seen, needed)
	}
	return err
}

// Bytes checks the length of a value, and copies it.
func (f *Fields) Bytes(typ uint16, value []byte, least, most int) string {
	if len(value) < least || len(value) > most {
		want := fmt.Sprint(least)
		if most != least {
			want = fmt.Sprintf("%d to %d", least, most)
		}
		f.fail("field %#x has %d bytes, not %s", typ, len(value), want)
		return ""
	}
	return string(value)
}

// Text is bytes that are shown to people.
func (f *Fields) Text(typ uint16, value []byte, most int) string {
	if !utf8.Valid(value) {
		f.fail("field %#x is no text", typ)
		return ""
	}
	return f.Bytes(typ, value, 0, most)
}

// Copy fills dst, which has the value's length.
func (f *Fields) Copy(typ uint16, dst, value []byte) {
	copy(dst, f.Bytes(typ, value, len(dst), len(dst)))
}

// Uint8 is a number of one byte.
func (f *Fields) Uint8(typ uint16, value []byte) uint8 {
	var b [1]byte
	f.Copy(typ, b[:], value)
	return b[0]
}

// Uint16 is a number of two bytes.
func (f *Fields) Uint16(typ uint16, value []byte) uint16 {
	var b [2]byte
	f.Copy(typ, b[:], value)
	return binary.BigEndian.Uint16(b[:])
}

// Uint32 is a number of four bytes.
func (f *Fields) Uint32(typ uint16, value []byte) uint32 {
	var b [4]byte
	f.Copy(typ, b[:], value)
	return binary.BigEndian.Uint32(b[:])
}

// Uint64 is a number of eight bytes.
func (f *Fields) Uint64(typ uint16, value []byte) uint64 {
	var b [8]byte
	f.Copy(typ, b[:], value)
	return binary.BigEndian.Uint64(b[:])
}

func (f *Fields) fail(format string, args ...any) {
	if f.Err == nil {
		f.Err = f.Format.Refuse(format, args...)
	}
}

// AppendUint16 appends a field of two bytes.
func AppendUint16(dst []byte, typ, v uint16) []byte {
	return AppendField(dst, typ, binary.BigEndian.AppendUint16(nil, v))
}

// AppendUint32 appends a field of four bytes.
func AppendUint32(dst []byte, typ uint16, v uint32) []byte {
	return AppendField(dst, typ, binary.BigEndian.AppendUint32(nil, v))
}

// AppendUint64 appends a field of eight bytes.
func AppendUint64(dst []byte, typ uint16, v uint64) []byte {
	return AppendField(dst, typ, binary.BigEndian.AppendUint64(nil, v))
}
