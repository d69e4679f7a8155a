package fabricrail

import (
	"encoding/binary"

	"github.com/weftrdma/weft/internal/tlv"
)

// request is what a rail that calls another one sends along: which rail it calls, by the key of its address, and its own address. It
// goes with the provider's own message, which carries 256 bytes, and always has as many, because the called rail's socket is ready only
// once all of it is there ([strangers]).
//
//	offset  size  field
//	0       2     length of the message, big-endian
//	2             the message
//	              zeros
type request struct {
	from address
	to   uint64
}

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

func appendRequest(b []byte, q request) []byte {
	b = requestFormat.Begin(b)
	b = tlv.AppendField(b, fieldFrom, q.from.append(nil))
	return tlv.Finish(tlv.AppendUint64(b, fieldTo, q.to))
}

func parseRequest(b []byte) (q request, err error) {
	f := tlv.Fields{Format: &requestFormat}
	err = f.Parse(b, func(typ uint16, v []byte) {
		switch typ {
		case fieldFrom:
			q.from, f.Err = parseAddress(v)
		case fieldTo:
			q.to = f.Uint64(typ, v)
		}
	})
	return q, err
}

// pad makes a message as long as all are.
func (q request) pad() []byte {
	b := make([]byte, requestSize)
	n := copy(b[2:], appendRequest(nil, q))
	binary.BigEndian.PutUint16(b, uint16(n))
	return b
}

// request is that of this rail to another.
func (r *Rail) request(to address) []byte { return request{r.self, to.key}.pad() }

// readRequest tells who sends what came along with a call, if it is a request to this rail.
func (r *Rail) readRequest(b []byte) (from address, ok bool) {
	if len(b) != requestSize || int(binary.BigEndian.Uint16(b)) > requestSize-2 {
		return from, false
	}
	q, err := parseRequest(b[2:][:binary.BigEndian.Uint16(b)])
	return q.from, err == nil && q.to == r.self.key && q.from.provider == r.self.provider
}
