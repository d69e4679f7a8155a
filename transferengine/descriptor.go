package transferengine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/weftrdma/weft/internal/tlv"
	"github.com/weftrdma/weft/transferengine/rail"
)

// Descriptor lets another engine use a region's memory. It is made by [Region.Descriptor] and travels by any means as
// bytes or text; whoever has it and a connection can do what its rights say, until the region is closed.
type Descriptor struct {
	owner      rail.Incarnation // of the engine that registered the memory
	base       uint64           // address by which the rail's peers name the first byte
	length     uint64           // bytes
	generation uint64           // counts the owner's registrations, from 1
	access     Access
	rails      int // how many of keys are set
	keys       [MaxRails]uint64
}

// The fields of a descriptor on the wire; all numbers are big-endian.
const (
	descriptorOwner      = tlv.Required | 1 // 16 bytes
	descriptorRange      = tlv.Required | 2 // base, length
	descriptorAccess     = tlv.Required | 3 // 1 byte
	descriptorGeneration = tlv.Required | 4
	descriptorKeys       = tlv.Required | 5 // one for each rail, in the order of the address
)

var descriptorFormat = tlv.Format{Name: "descriptor", Magic: [4]byte{'W', 't', 'D', 'S'}, Version: 1, MinVersion: 1,
	Known: []uint16{descriptorOwner, descriptorRange, descriptorAccess, descriptorGeneration, descriptorKeys}}

// Owner identifies the engine that registered the memory.
func (d *Descriptor) Owner() rail.Incarnation { return d.owner }

// Length is the size of the memory in bytes.
func (d *Descriptor) Length() uint64 { return d.length }

// Access says what peers may do.
func (d *Descriptor) Access() Access { return d.access }

// Generation tells the registrations of one engine apart, also those of the same memory.
func (d *Descriptor) Generation() uint64 { return d.generation }

// MarshalBinary returns the descriptor in the wire format.
func (d Descriptor) MarshalBinary() ([]byte, error) {
	if d.rails == 0 {
		return nil, errors.New("marshal descriptor: it is empty; Region.Descriptor makes one")
	}
	message := descriptorFormat.Begin(nil)
	message = tlv.AppendField(message, descriptorOwner, d.owner[:])
	message = tlv.AppendField(message, descriptorRange, numbers(d.base, d.length))
	message = tlv.AppendField(message, descriptorAccess, []byte{byte(d.access)})
	message = tlv.AppendField(message, descriptorGeneration, numbers(d.generation))
	message = tlv.AppendField(message, descriptorKeys, numbers(d.keys[:d.rails]...))
	return tlv.Finish(message), nil
}

// UnmarshalBinary reads the wire format. It keeps nothing of data.
func (d *Descriptor) UnmarshalBinary(data []byte) error {
	if len(data) > maxWire {
		return fmt.Errorf("descriptor: %d bytes are over the limit of %d", len(data), maxWire)
	}
	var got Descriptor
	var seen int
	err := descriptorFormat.Parse(data, func(typ uint16, value []byte) error {
		seen++
		return got.field(typ, value)
	})
	if err == nil && seen < len(descriptorFormat.Known) {
		err = errors.New("descriptor: a field is missing")
	}
	if err != nil {
		return err
	}
	*d = got
	return nil
}

// MarshalText returns the wire format as base64 (RFC 4648, URL alphabet, no padding).
func (d Descriptor) MarshalText() ([]byte, error) { return toText(d.MarshalBinary()) }

// UnmarshalText reads what MarshalText wrote.
func (d *Descriptor) UnmarshalText(text []byte) error {
	data, err := fromText(text)
	if err != nil {
		return fmt.Errorf("descriptor: %w", err)
	}
	return d.UnmarshalBinary(data)
}

// field reads one field.
func (d *Descriptor) field(typ uint16, value []byte) (err error) {
	switch typ {
	case descriptorOwner:
		d.owner, err = parseIncarnation(value)
	case descriptorRange:
		var r [2]uint64
		if err = parseNumbers(r[:], value, "range"); err != nil {
			return err
		}
		d.base, d.length = r[0], r[1]
		if _, carry := bits.Add64(d.base, d.length-1, 0); d.length == 0 || carry != 0 {
			err = fmt.Errorf("descriptor: %d bytes at %#x are no range of addresses", d.length, d.base)
		}
	case descriptorAccess:
		if len(value) != 1 || Access(value[0])&^(RemoteWrite|RemoteRead) != 0 {
			return fmt.Errorf("descriptor: unknown rights %#x", value)
		}
		d.access = Access(value[0])
	case descriptorGeneration:
		var g [1]uint64
		err = parseNumbers(g[:], value, "generation")
		d.generation = g[0]
	case descriptorKeys:
		if d.rails = len(value) / 8; d.rails < 1 || d.rails > MaxRails {
			return fmt.Errorf("descriptor: keys of %d rails, not 1 to %d", d.rails, MaxRails)
		}
		err = parseNumbers(d.keys[:d.rails], value, "keys")
	}
	return err
}

func numbers(values ...uint64) []byte {
	b := make([]byte, 0, 8*len(values))
	for _, v := range values {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

func parseNumbers(dst []uint64, value []byte, what string) error {
	if len(value) != 8*len(dst) {
		return fmt.Errorf("descriptor: %s of %d bytes instead of %d", what, len(value), 8*len(dst))
	}
	for i := range dst {
		dst[i] = binary.BigEndian.Uint64(value[8*i:])
	}
	return nil
}
