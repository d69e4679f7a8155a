package fabricrail

import (
	"fmt"
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
	b = tlv.AppendUint64(b, fieldKey, a.key)
	b = tlv.AppendField(b, fieldText, []byte(a.text))
	return tlv.Finish(b)
}

// parseAddress reads what append wrote.
func parseAddress(b []byte) (a address, err error) {
	f := tlv.Fields{Format: &addressFormat}
	if err := f.Parse(b, func(typ uint16, v []byte) {
		switch typ {
		case fieldProvider:
			a.provider = f.Text(typ, v, maxProvider)
		case fieldName:
			a.name = f.Bytes(typ, v, 1, maxName)
		case fieldKey:
			a.key = f.Uint64(typ, v)
		case fieldText:
			a.text = f.Text(typ, v, maxText)
		}
	}); err != nil {
		return address{}, err
	}
	if a.key == 0 {
		return address{}, addressFormat.Refuse("the key is zero")
	}
	return a, nil
}

// String is for people: "127.0.0.1:17471".
func (a address) String() string { return a.text }

// nameText is an endpoint's name for people: a socket address as such, and a text as it is.
func nameText(name []byte) string {
	if a, ok := socketAddress(name); ok {
		return a.String()
	}
	if utf8.Valid(name) {
		return string(name[:min(len(name), maxText)])
	}
	return fmt.Sprintf("%x", name[:min(len(name), maxText/2)])
}
