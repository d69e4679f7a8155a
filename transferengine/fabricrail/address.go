package fabricrail

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"unicode/utf8"

	"github.com/weftrdma/weft/internal/tlv"
)

// address is where a rail's endpoint is reached. It is the rail's address of the contract, and comparable.
//
// The key is random in each life of a rail, which passes over hellos with another one: only who was given the address can
// have a rail answer, and what was meant for an earlier rail of the same name does not reach the next.
type address struct {
	provider string // of both ends: "tcp;ofi_rxm"
	name     string // the endpoint's, in the provider's own form
	text     string // that name for people: "127.0.0.1:17471"
	key      uint64
}

// The longest parts of an address, in bytes: together they fit rail.MaxAddress.
const (
	maxProvider = 32
	maxName     = 104
	maxText     = 64
)

// Fields of a rail address.
const (
	fieldProvider = iota + 1 | tlv.Required
	fieldName
	fieldKey
	fieldText = 0x40 // optional
)

var addressFormat = tlv.Format{
	Name: "rail address", Magic: [4]byte{'W', 'f', 'R', 'A'}, Version: 1, MinVersion: 1,
	Known: []uint16{fieldProvider, fieldName, fieldKey, fieldText},
}

// append appends the address in its wire format to b, which must be empty.
func (a address) append(b []byte) []byte {
	b = addressFormat.Begin(b)
	b = tlv.AppendField(b, fieldProvider, []byte(a.provider))
	b = tlv.AppendField(b, fieldName, []byte(a.name))
	b = appendUint64(b, fieldKey, a.key)
	b = tlv.AppendField(b, fieldText, []byte(a.text))
	return tlv.Finish(b)
}

// parseAddress reads what append wrote.
func parseAddress(b []byte) (a address, err error) {
	f := fields{format: &addressFormat}
	if err := f.parse(b, func(typ uint16, v []byte) {
		switch typ {
		case fieldProvider:
			a.provider = f.text(typ, v, maxProvider)
		case fieldName:
			a.name = f.bytes(typ, v, 1, maxName)
		case fieldKey:
			a.key = f.uint64(typ, v)
		case fieldText:
			a.text = f.text(typ, v, maxText)
		}
	}); err != nil {
		return address{}, err
	}
	if a.key == 0 {
		return address{}, refuse(&addressFormat, "the key is zero")
	}
	return a, nil
}

// String is for people: "fabric:tcp;ofi_rxm 127.0.0.1:17471".
func (a address) String() string { return fmt.Sprintf("fabric:%s %s", a.provider, a.text) }

// nameText is an endpoint's name for people: a socket address as such, and a text as it is.
func nameText(name []byte) string {
	const inet, inet6 = 2, 10 // AF_INET, and Linux's AF_INET6
	switch {
	case len(name) == 16 && binary.NativeEndian.Uint16(name) == inet:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(name[4:8])), binary.BigEndian.Uint16(name[2:])).String()
	case len(name) == 28 && binary.NativeEndian.Uint16(name) == inet6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(name[8:24])), binary.BigEndian.Uint16(name[2:])).String()
	case utf8.Valid(name):
		return string(name[:min(len(name), maxText)])
	}
	return fmt.Sprintf("%x", name[:min(len(name), maxText/2)])
}

// fields reads the fields of one message and remembers the first that is wrong.
type fields struct {
	format *tlv.Format
	seen   int
	err    error
}

// parse calls visit for each known field; those that are not optional must be there.
func (f *fields) parse(b []byte, visit func(typ uint16, value []byte)) error {
	err := f.format.Parse(b, func(typ uint16, value []byte) error {
		visit(typ, value)
		if typ&tlv.Required != 0 {
			f.seen++
		}
		return f.err
	})
	needed := 0
	for _, typ := range f.format.Known {
		if typ&tlv.Required != 0 {
			needed++
		}
	}
	if err == nil && f.seen < needed {
		err = refuse(f.format, "%d of %d fields are there", f.seen, needed)
	}
	return err
}

// bytes checks the length of a value and copies it.
func (f *fields) bytes(typ uint16, value []byte, least, most int) string {
	if (len(value) < least || len(value) > most) && f.err == nil {
		f.err = refuse(f.format, "field %#x has %d bytes, not %d to %d", typ, len(value), least, most)
	}
	return string(value)
}

// text is bytes that are shown to people.
func (f *fields) text(typ uint16, value []byte, most int) string {
	if !utf8.Valid(value) && f.err == nil {
		f.err = refuse(f.format, "field %#x is no text", typ)
	}
	return f.bytes(typ, value, 0, most)
}

func (f *fields) copy(typ uint16, dst, value []byte) {
	f.bytes(typ, value, len(dst), len(dst))
	copy(dst, value)
}

func (f *fields) uint8(typ uint16, value []byte) uint8 {
	var b [1]byte
	f.copy(typ, b[:], value)
	return b[0]
}

func (f *fields) uint32(typ uint16, value []byte) uint32 {
	var b [4]byte
	f.copy(typ, b[:], value)
	return binary.BigEndian.Uint32(b[:])
}

func (f *fields) uint64(typ uint16, value []byte) uint64 {
	var b [8]byte
	f.copy(typ, b[:], value)
	return binary.BigEndian.Uint64(b[:])
}

func appendUint32(b []byte, typ uint16, v uint32) []byte {
	return tlv.AppendField(b, typ, binary.BigEndian.AppendUint32(nil, v))
}

func appendUint64(b []byte, typ uint16, v uint64) []byte {
	return tlv.AppendField(b, typ, binary.BigEndian.AppendUint64(nil, v))
}

// refuse makes the error of a message that is whole and says something impossible.
func refuse(f *tlv.Format, format string, args ...any) error {
	return &tlv.Error{Format: f.Name, Reason: fmt.Sprintf(format, args...)}
}
