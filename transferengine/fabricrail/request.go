package fabricrail

import (
	"encoding/binary"

	"github.com/weftrdma/weft/internal/tlv"
)

// A request for a connection has the address that calls and the key of the address that is called. It goes with the provider's own
// message, which carries 256 bytes, and always has as many: so the rail is told of none before it is whole.
//
//	offset  size  field
//	0       2     length of what follows, big-endian
//	2             the envelope "WfRC" with from and to
//	              zeros
const requestSize = 256

var requestFormat = tlv.Format{
	Name: "connection request", Magic: [4]byte{'W', 'f', 'R', 'C'}, Version: 1, MinVersion: 1,
	Known: []uint16{fieldFrom, fieldTo},
}

// Fields of a request, as of a hello.
const (
	fieldFrom = iota + 1 | tlv.Required
	fieldTo
)

// request is that of this rail to another.
func (r *Rail) request(to address) []byte { return appendRequest(r.self, to.key) }

func appendRequest(from address, to uint64) []byte {
	b := requestFormat.Begin(nil)
	b = tlv.AppendField(b, fieldFrom, from.append(nil))
	b = tlv.Finish(tlv.AppendUint64(b, fieldTo, to))
	padded := make([]byte, requestSize)
	binary.BigEndian.PutUint16(padded, uint16(len(b)))
	copy(padded[2:], b)
	return padded
}

// readRequest tells who sends a request, if it is one to this rail.
func (r *Rail) readRequest(b []byte) (from address, ok bool) {
	from, to, err := parseRequest(b)
	return from, err == nil && to == r.self.key && from.provider == r.self.provider
}

func parseRequest(b []byte) (from address, to uint64, err error) {
	if len(b) != requestSize || int(binary.BigEndian.Uint16(b)) > requestSize-2 {
		return from, 0, requestFormat.Refuse("it has %d bytes, not %d", len(b), requestSize)
	}
	f := tlv.Fields{Format: &requestFormat}
	err = f.Parse(b[2:][:binary.BigEndian.Uint16(b)], func(typ uint16, v []byte) {
		switch typ {
		case fieldFrom:
			from, f.Err = parseAddress(v)
		case fieldTo:
			to = f.Uint64(typ, v)
		}
	})
	return from, to, err
}
