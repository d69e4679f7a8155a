// Package tlv is the envelope that Weft's wire formats share: a magic, a version and the oldest version that still
// understands the message, the length, and fields of type, length and value.
//
//	offset  size  field
//	0       4     magic
//	4       1     version of the sender
//	5       1     oldest version that understands this message
//	6       2     zero
//	8       4     length of the whole message in bytes, this header included
//	12            fields: type (2), length of the value (2), value
//
// All numbers are big-endian. A field whose type has bit 15 set must be understood: a receiver that does not know it
// refuses the message. Other unknown fields are passed over, which is how formats grow.
package tlv

import (
	"encoding/binary"
	"fmt"
	"slices"
)

const (
	headerSize = 12
	fieldSize  = 4
	// MaxValue is the largest value of one field in bytes.
	MaxValue = 1<<16 - 1
)

// Required marks a field type that a receiver must know.
const Required = 1 << 15

// Auth is the type, in every format, of the field that will authenticate the message (optional: not marked [Required]).
const Auth = 0x7fff

// Format names one wire format and what this build understands of it.
type Format struct {
	Name       string  // for errors, "handshake"
	Magic      [4]byte // first bytes of the message
	Version    uint8   // the version that this build writes and understands
	MinVersion uint8   // the oldest version that understands what this build writes
	Oldest     uint8   // the oldest version of a sender that this build understands; 0 is any
	Known      []uint16
}

// Begin appends the header to dst; the fields follow with [AppendField], and [Finish] closes the message.
func (f *Format) Begin(dst []byte) []byte {
	dst = append(dst, f.Magic[:]...)
	return append(dst, f.Version, f.MinVersion, 0, 0, 0, 0, 0, 0)
}

// AppendField appends one field. It panics if value is longer than [MaxValue]: sizes are the caller's to bound.
func AppendField(dst []byte, typ uint16, value []byte) []byte {
	if len(value) > MaxValue {
		panic(fmt.Sprintf("tlv: field %#x of %d bytes is over the limit of %d", typ, len(value), MaxValue))
	}
	dst = binary.BigEndian.AppendUint16(dst, typ)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(value)))
	return append(dst, value...)
}

// Finish writes the length into the header of message, which started at its first byte.
func Finish(message []byte) []byte {
	binary.BigEndian.PutUint32(message[8:], uint32(len(message)))
	return message
}

// An Error says why a message was refused.
type Error struct {
	Format string // name of the format
	Reason string
}

func (e *Error) Error() string { return e.Format + ": " + e.Reason }

// Parse checks the envelope of message and calls visit for each field that the format knows, in order. The values alias
// message. It returns an *Error for anything that is not a whole message of this format that this version may read, for a
// known field that comes twice, and whatever error visit returns.
func (f *Format) Parse(message []byte, visit func(typ uint16, value []byte) error) error {
	rest, err := f.header(message)
	if err != nil {
		return err
	}
	var seen uint64
	for len(rest) > 0 {
		if len(rest) < fieldSize {
			return f.Refuse("%d bytes follow the last field", len(rest))
		}
		typ := binary.BigEndian.Uint16(rest)
		size := int(binary.BigEndian.Uint16(rest[2:]))
		if size > len(rest)-fieldSize {
			return f.Refuse("field %#x says %d bytes, %d are left", typ, size, len(rest)-fieldSize)
		}
		value := rest[fieldSize : fieldSize+size : fieldSize+size]
		rest = rest[fieldSize+size:]
		at := slices.Index(f.Known, typ)
		if at < 0 {
			if typ&Required != 0 {
				return f.Refuse("field %#x must be understood and is not known to version %d", typ, f.Version)
			}
			continue
		}
		if seen&(1<<at) != 0 {
			return f.Refuse("field %#x comes twice", typ)
		}
		seen |= 1 << at
		if err := visit(typ, value); err != nil {
			return err
		}
	}
	return nil
}

// header checks the first 12 bytes and returns what follows them.
func (f *Format) header(message []byte) ([]byte, error) {
	switch {
	case len(message) < headerSize:
		return nil, f.Refuse("%d bytes are too few, the header has %d: it was cut off", len(message), headerSize)
	case [4]byte(message[:4]) != f.Magic:
		return nil, f.Refuse("starts with %q, not %q: it is something else", message[:4], f.Magic[:])
	case message[5] > f.Version:
		return nil, f.Refuse("needs version %d, this is version %d", message[5], f.Version)
	case message[5] > message[4]:
		return nil, f.Refuse("version %d says that version %d is needed", message[4], message[5])
	case message[4] < f.Oldest:
		return nil, f.Refuse("is of version %d, %d is the oldest understood: update the sender", message[4], f.Oldest)
	case message[6] != 0 || message[7] != 0:
		return nil, f.Refuse("reserved bytes are not zero")
	}
	if size := binary.BigEndian.Uint32(message[8:]); uint64(size) != uint64(len(message)) {
		return nil, f.Refuse("says that it has %d bytes, and has %d: it was cut off or changed", size, len(message))
	}
	return message[headerSize:], nil
}

// Refuse makes the error of a message that says something impossible.
func (f *Format) Refuse(format string, args ...any) error {
	return &Error{Format: f.Name, Reason: fmt.Sprintf(format, args...)}
}
