package verbsrail

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/weftrdma/weft/internal/tlv"
)

// address is where a rail's handshake queue pair is reached. It is the rail's address of the contract, and comparable.
//
// The Q_Key is random in each life of a rail and NICs drop datagrams with another one: only who was given the address can
// reach the rail, and what was on the way to an earlier life of the same queue pair number cannot.
type address struct {
	gid  [16]byte // of the port; zero on InfiniBand without a route
	lid  uint16   // of the port on InfiniBand; 0 on RoCE
	qpn  uint32   // 24 bits
	qkey uint32   // 31 bits
}

const (
	maxQPN  = 1<<24 - 1
	maxPSN  = 1<<24 - 1
	maxQKey = 1<<31 - 1 // a sender's own Q_Key replaces one with the top bit set (InfiniBand specification, 10.2.5)

	firstMulticastLID = 0xc000
)

// Fields of a rail address.
const (
	fieldGID = iota + 1 | tlv.Required
	fieldLID
	fieldQPN
	fieldQKey
)

var addressFormat = tlv.Format{
	Name: "rail address", Magic: [4]byte{'W', 'v', 'A', 'D'}, Version: 1, MinVersion: 1,
	Known: []uint16{fieldGID, fieldLID, fieldQPN, fieldQKey},
}

// append appends the address in its wire format to b, which must be empty.
func (a address) append(b []byte) []byte {
	b = addressFormat.Begin(b)
	b = tlv.AppendField(b, fieldGID, a.gid[:])
	b = appendUint16(b, fieldLID, a.lid)
	b = appendUint32(b, fieldQPN, a.qpn)
	b = appendUint32(b, fieldQKey, a.qkey)
	return tlv.Finish(b)
}

// parseAddress reads what append wrote.
func parseAddress(b []byte) (a address, err error) {
	f := fields{format: &addressFormat}
	if err := f.parse(b, func(typ uint16, v []byte) {
		switch typ {
		case fieldGID:
			f.copy(typ, a.gid[:], v)
		case fieldLID:
			a.lid = f.uint16(typ, v)
		case fieldQPN:
			a.qpn = f.uint32(typ, v)
		case fieldQKey:
			a.qkey = f.uint32(typ, v)
		}
	}); err != nil {
		return address{}, err
	}
	return a, a.check()
}

func (a address) check() error {
	ip := netip.AddrFrom16(a.gid).Unmap()
	switch {
	case a.gid == [16]byte{} && a.lid == 0:
		return refuse(&addressFormat, "neither a GID nor a LID")
	case a.gid != [16]byte{} && (ip.IsUnspecified() || ip.IsMulticast()):
		return refuse(&addressFormat, "GID %v is not one port's", ip)
	case a.lid >= firstMulticastLID:
		return refuse(&addressFormat, "LID %#x is not one port's", a.lid)
	case a.qpn < 2 || a.qpn > maxQPN: // 0 and 1 manage the port
		return refuse(&addressFormat, "queue pair number %#x is outside 2 to %#x", a.qpn, maxQPN)
	case a.qkey > maxQKey:
		return refuse(&addressFormat, "Q_Key %#x is over %#x", a.qkey, maxQKey)
	}
	return nil
}

// String is for people: "10.9.0.2 qpn 18", or "lid 7 qpn 18" on InfiniBand.
func (a address) String() string {
	if a.lid != 0 {
		return fmt.Sprintf("lid %d qpn %d", a.lid, a.qpn)
	}
	return fmt.Sprintf("%v qpn %d", netip.AddrFrom16(a.gid).Unmap(), a.qpn)
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

// size checks the length of a value.
func (f *fields) size(typ uint16, value []byte, want int) bool {
	if len(value) != want && f.err == nil {
		f.err = refuse(f.format, "field %#x has %d bytes, not %d", typ, len(value), want)
	}
	return len(value) == want
}

func (f *fields) copy(typ uint16, dst, value []byte) {
	if f.size(typ, value, len(dst)) {
		copy(dst, value)
	}
}

func (f *fields) uint8(typ uint16, value []byte) uint8 {
	if !f.size(typ, value, 1) {
		return 0
	}
	return value[0]
}

func (f *fields) uint16(typ uint16, value []byte) uint16 {
	if !f.size(typ, value, 2) {
		return 0
	}
	return binary.BigEndian.Uint16(value)
}

func (f *fields) uint32(typ uint16, value []byte) uint32 {
	if !f.size(typ, value, 4) {
		return 0
	}
	return binary.BigEndian.Uint32(value)
}

func (f *fields) uint64(typ uint16, value []byte) uint64 {
	if !f.size(typ, value, 8) {
		return 0
	}
	return binary.BigEndian.Uint64(value)
}

func appendUint16(b []byte, typ, v uint16) []byte {
	return tlv.AppendField(b, typ, binary.BigEndian.AppendUint16(nil, v))
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
