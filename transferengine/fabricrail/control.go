package fabricrail

import (
	"encoding/binary"
	"fmt"
)

// control is a message on a connection: 48 bytes, and what follows them.
//
//	offset  size  field
//	0       1     kind; one with the top bit set must be understood, others that are unknown are passed over
//	1       3     zero; not looked at
//	4       4     tag of the receiver's half
//	8       8     how many immediates the receiver may have sent in the life of the connection
//	16      8     how many messages of the engine it may have sent
//	24      8     value
//	32      16    secret of the receiver's half
//	48            of a message its bytes
//
// All numbers are big-endian. The two counts are totals, so that messages may pass one another.
type control struct {
	kind       controlKind
	tag        tag
	immediates uint64
	messages   uint64
	value      uint64
	secret     secret
}

// controlKind is never the first byte of a hello or a refusal.
type controlKind uint8

const (
	// controlStatus: the sender lives, and grants what it says. No value.
	controlStatus controlKind = iota + 1
	// controlBye: the sender gives up the connection, and posts nothing more. The value is a bye.
	controlBye

	// controlFence: the sender has closed memory. The value is a number, which controlFenced repeats behind all that was posted before.
	controlFence
	controlFenced

	controlMustKnow = 0x80
	// controlMessage: a message of the engine's, of so many bytes.
	controlMessage = controlMustKnow | 1
)

// bye says why a connection is given up.
type bye uint64

const (
	byeClosed bye = iota + 1 // somebody asked for it
	byeFailed                // something on it failed
	byeCut                   // the sender's rail is being closed: no answer is awaited

	byeReason bye = 0xff
	byeAnswer bye = 1 << 8 // the receiver's farewell has come before, and so all that the receiver had posted
)

const controlSize = 48

// put writes the message into b, which has controlSize bytes.
func (c control) put(b []byte) {
	clear(b[:controlSize])
	b[0] = byte(c.kind)
	binary.BigEndian.PutUint32(b[4:], uint32(c.tag))
	binary.BigEndian.PutUint64(b[8:], c.immediates)
	binary.BigEndian.PutUint64(b[16:], c.messages)
	binary.BigEndian.PutUint64(b[24:], c.value)
	copy(b[32:], c.secret[:])
}

// parseControl reads what put wrote. ok is false for a message that can be passed over.
func parseControl(b []byte) (c control, ok bool, err error) {
	if len(b) < controlSize {
		return control{}, false, fmt.Errorf("control message of %d bytes: %d are the least", len(b), controlSize)
	}
	c = control{kind: controlKind(b[0]), tag: tag(binary.BigEndian.Uint32(b[4:])),
		immediates: binary.BigEndian.Uint64(b[8:]), messages: binary.BigEndian.Uint64(b[16:]),
		value: binary.BigEndian.Uint64(b[24:]), secret: secret(b[32:])}
	switch {
	case c.kind >= controlStatus && c.kind <= controlFenced, c.kind == controlMessage:
		return c, true, nil
	case c.kind&controlMustKnow != 0:
		return c, false, fmt.Errorf("control message %#x must be understood and is not known", byte(c.kind))
	}
	return c, false, nil
}
