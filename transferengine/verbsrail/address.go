package verbsrail

import (
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
	b = tlv.AppendUint16(b, fieldLID, a.lid)
	b = tlv.AppendUint32(b, fieldQPN, a.qpn)
	b = tlv.AppendUint32(b, fieldQKey, a.qkey)
	return tlv.Finish(b)
}

// parseAddress reads what append wrote.
func parseAddress(b []byte) (a address, err error) {
	f := tlv.Fields{Format: &addressFormat}
	if err := f.Parse(b, func(typ uint16, v []byte) {
		switch typ {
		case fieldGID:
			f.Copy(typ, a.gid[:], v)
		case fieldLID:
			a.lid = f.Uint16(typ, v)
		case fieldQPN:
			a.qpn = f.Uint32(typ, v)
		case fieldQKey:
			a.qkey = f.Uint32(typ, v)
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
		return addressFormat.Refuse("neither a GID nor a LID")
	case a.gid != [16]byte{} && (ip.IsUnspecified() || ip.IsMulticast()):
		return addressFormat.Refuse("GID %v is not one port's", ip)
	case a.lid >= firstMulticastLID:
		return addressFormat.Refuse("LID %#x is not one port's", a.lid)
	case a.qpn < 2 || a.qpn > maxQPN: // 0 and 1 manage the port
		return addressFormat.Refuse("queue pair number %#x is outside 2 to %#x", a.qpn, maxQPN)
	case a.qkey > maxQKey:
		return addressFormat.Refuse("Q_Key %#x is over %#x", a.qkey, maxQKey)
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
