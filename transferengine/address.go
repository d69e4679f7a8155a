package transferengine

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/weftrdma/weft/internal/tlv"
	"github.com/weftrdma/weft/transferengine/rail"
)

const (
	// MaxRails is the most NICs that an address or a descriptor can speak of.
	MaxRails = 16
	// maxKind is the longest name of a rail's kind in bytes.
	maxKind = 16
	// maxWire bounds what is parsed: more than the largest address or descriptor, with room for fields of later versions.
	maxWire = 16 << 10
)

// Address is what a peer needs to connect to an engine. It is made by [Engine.Address], travels by any means as bytes or
// text, and is only valid for that engine in this life of its process.
type Address struct {
	incarnation rail.Incarnation
	rails       []railAddress
}

// railAddress is one NIC of an address.
type railAddress struct {
	kind    string // of the rail: "verbs"
	address []byte // opaque, the rail's
}

// The fields of an address on the wire. Rails: for each one byte of length and the kind, two of length and the address.
const (
	addressIncarnation = tlv.Required | 1
	addressRails       = tlv.Required | 2
)

var addressFormat = tlv.Format{Name: "address", Magic: [4]byte{'W', 't', 'A', 'D'}, Version: 1, MinVersion: 1,
	Known: []uint16{addressIncarnation, addressRails}}

// Incarnation identifies the engine in this life of its process.
func (a Address) Incarnation() rail.Incarnation { return a.incarnation }

// String returns the address as text, which UnmarshalText reads.
func (a Address) String() string {
	text, err := a.MarshalText()
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// MarshalBinary returns the address in the wire format.
func (a Address) MarshalBinary() ([]byte, error) {
	if len(a.rails) == 0 {
		return nil, errors.New("marshal address: it is empty; Engine.Address makes one")
	}
	var rails []byte
	for _, r := range a.rails {
		rails = append(rails, byte(len(r.kind)))
		rails = append(rails, r.kind...)
		rails = append(rails, byte(len(r.address)>>8), byte(len(r.address)))
		rails = append(rails, r.address...)
	}
	message := addressFormat.Begin(nil)
	message = tlv.AppendField(message, addressIncarnation, a.incarnation[:])
	message = tlv.AppendField(message, addressRails, rails)
	return tlv.Finish(message), nil
}

// UnmarshalBinary reads the wire format. It keeps nothing of data.
func (a *Address) UnmarshalBinary(data []byte) error {
	if len(data) > maxWire {
		return fmt.Errorf("address: %d bytes are over the limit of %d", len(data), maxWire)
	}
	var got Address
	var seen int
	err := addressFormat.Parse(data, func(typ uint16, value []byte) (err error) {
		seen++
		switch typ {
		case addressIncarnation:
			got.incarnation, err = parseIncarnation(value)
		case addressRails:
			got.rails, err = parseRails(value)
		}
		return err
	})
	if err == nil && seen < len(addressFormat.Known) {
		err = errors.New("address: a field is missing")
	}
	if err != nil {
		return err
	}
	*a = got
	return nil
}

// MarshalText returns the wire format as base64 (RFC 4648, URL alphabet, no padding).
func (a Address) MarshalText() ([]byte, error) { return toText(a.MarshalBinary()) }

// UnmarshalText reads what MarshalText wrote.
func (a *Address) UnmarshalText(text []byte) error {
	data, err := fromText(text)
	if err != nil {
		return fmt.Errorf("address: %w", err)
	}
	return a.UnmarshalBinary(data)
}

// Rail returns the address of the engine's rail of a kind, "verbs" or "fabric", in that rail's own format: its package reads
// it. The error lists the kinds that there are.
func (a *Address) Rail(kind string) ([]byte, error) {
	if len(a.rails) == 0 {
		return nil, errors.New("the address is empty: use the peer's Engine.Address")
	}
	var kinds []string
	for _, r := range a.rails {
		if r.kind == kind {
			return r.address, nil
		}
		kinds = append(kinds, r.kind)
	}
	return nil, fmt.Errorf("the peer has no rail of kind %s, only %s: open both engines on rails of one kind", kind, strings.Join(kinds, ", "))
}

// railKind is the part of a rail's name that peers have to share: "verbs" of "verbs:rxe0".
func railKind(name string) string {
	kind, _, _ := strings.Cut(name, ":")
	return kind
}

func parseIncarnation(value []byte) (i rail.Incarnation, err error) {
	if len(value) != len(i) {
		return i, fmt.Errorf("incarnation of %d bytes instead of %d", len(value), len(i))
	}
	return rail.Incarnation(value), nil
}

func parseRails(value []byte) (rails []railAddress, err error) {
	for len(value) > 0 {
		var kind, address []byte
		if kind, value, err = cut(value, 1, maxKind); err != nil {
			return nil, fmt.Errorf("address: kind of rail %d: %w", len(rails), err)
		}
		if address, value, err = cut(value, 2, rail.MaxAddress); err != nil {
			return nil, fmt.Errorf("address: rail %d: %w", len(rails), err)
		}
		if len(rails) == MaxRails {
			return nil, fmt.Errorf("address: more than %d rails", MaxRails)
		}
		rails = append(rails, railAddress{kind: string(kind), address: append([]byte(nil), address...)})
	}
	if len(rails) == 0 {
		return nil, errors.New("address: no rails")
	}
	return rails, nil
}

// cut takes a value behind its length, a big-endian number of the given bytes, off the front of b.
func cut(b []byte, width, limit int) (value, rest []byte, err error) {
	if len(b) < width {
		return nil, nil, errors.New("cut short")
	}
	size := 0
	for _, digit := range b[:width] {
		size = size<<8 | int(digit)
	}
	b = b[width:]
	switch {
	case size == 0 || size > limit:
		return nil, nil, fmt.Errorf("%d bytes, not 1 to %d", size, limit)
	case size > len(b):
		return nil, nil, fmt.Errorf("says %d bytes, %d are left", size, len(b))
	}
	return b[:size], b[size:], nil
}

func toText(data []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return base64.RawURLEncoding.AppendEncode(nil, data), nil
}

func fromText(text []byte) ([]byte, error) {
	if limit := base64.RawURLEncoding.EncodedLen(maxWire); len(text) > limit {
		return nil, fmt.Errorf("%d characters are over the limit of %d", len(text), limit)
	}
	return base64.RawURLEncoding.Strict().AppendDecode(nil, text)
}
