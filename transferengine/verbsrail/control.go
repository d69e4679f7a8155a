package verbsrail

import (
	"encoding/binary"
	"fmt"
)

// control is a message on a connection's message queue pair: 16 bytes, and what follows them.
//
//	offset  size  field
//	0       1     kind; one with the top bit set must be understood, others that are unknown are passed over
//	1       7     zero; not looked at
//	8       8     value, big-endian
//	16            of a message its bytes
type control struct {
	kind  controlKind
	value uint64
}

type controlKind uint8

const (
	// controlHeartbeat: the sender lives. No value.
	controlHeartbeat controlKind = iota + 1
	// controlCredit: how many immediates the receiver may have sent in the life of the connection, the first grant of the
	// handshake included. A total, so that it can be checked.
	controlCredit
	// controlBye: the sender gives up the connection and has destroyed its queue pair for writes; the value is a bye.
	controlBye

	controlMustKnow = 0x80
	// controlMessage: a message of the engine's, of so many bytes.
	controlMessage = controlMustKnow | 1
)

// bye says why a connection is given up.
type bye uint64

const (
	byeClosed bye = iota + 1 // somebody asked for it
	byeFailed                // a queue pair of the sender's failed

	byeReason bye = 0xff
	byeAnswer bye = 1 << 8 // the sender waits for the receiver's bye, for a while
)

const controlSize = 16

// put writes the message into b, which has controlSize bytes.
func (c control) put(b []byte) {
	clear(b[:controlSize])
	b[0] = byte(c.kind)
	binary.BigEndian.PutUint64(b[8:], c.value)
}

// parseControl reads what put wrote. ok is false for a message that can be passed over.
func parseControl(b []byte) (c control, ok bool, err error) {
	if len(b) < controlSize {
		return control{}, false, fmt.Errorf("control message of %d bytes: %d are the least", len(b), controlSize)
	}
	c = control{kind: controlKind(b[0]), value: binary.BigEndian.Uint64(b[8:])}
	switch {
	case c.kind >= controlHeartbeat && c.kind <= controlBye, c.kind == controlMessage:
		return c, true, nil
	case c.kind&controlMustKnow != 0:
		return control{}, false, fmt.Errorf("control message %#x must be understood and is not known", byte(c.kind))
	}
	return control{}, false, nil
}
