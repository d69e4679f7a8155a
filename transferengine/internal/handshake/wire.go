package handshake

import (
	"fmt"

	"github.com/weftrdma/weft/internal/process"
	"github.com/weftrdma/weft/internal/tlv"
)

// Address is where a rail is reached.
type Address interface {
	comparable
	fmt.Stringer // for people
}

// Wire is how one kind of rail writes its messages. The fields of a hello, and of a refusal, are in this order:
//
//	hello    from, [to,] nonce, incarnation, attempt, holds, flags, the half's
//	refusal  from or to, answers, reason, text
//
// numbered from 1 as the hello is, and all required but some of the half's. To is there if the wire has keys.
type Wire[A Address, H any] struct {
	Hello, Refusal [4]byte // the formats' magics
	// Version is that of the hello, and Oldest the oldest one that understands it and that it understands; 0 is 1. Refusals are of
	// version 1 for ever, so that every version reads them.
	Version, Oldest uint8

	AppendAddress func(b []byte, a A) []byte
	ParseAddress  func(b []byte) (A, error)
	// Key, of wires that have keys, is what a message to an address has to repeat. Others are protected by their transport.
	Key func(a A) uint64

	// Fields are the half's. AppendHalf appends them, DefaultHalf is a half none of whose optional fields is there, ParseHalf
	// takes one field, and CheckHalf refuses what no half can be.
	Fields      []uint16
	AppendHalf  func(b []byte, h *H) []byte
	DefaultHalf H
	ParseHalf   func(f *tlv.Fields, h *H, typ uint16, value []byte)
	CheckHalf   func(f *tlv.Format, h *H) error
	// Flags, where it is not nil, are bits of the half in the hello's byte of flags, of which bit 0 is not the half's, and
	// SetFlags takes them.
	Flags    func(h *H) uint8
	SetFlags func(h *H, flags uint8)

	// MaxText is the longest text of a refusal in bytes; the rest is cut off.
	MaxText int
}

const flagAckWanted = 1 << 0

// fieldFrom and fieldTo are the same in every wire, and in hellos and refusals.
const (
	fieldFrom = iota + 1 | tlv.Required
	fieldTo
)

// Fields behind the addresses, as distances from the last of these.
const (
	helloNonce = iota + 1
	helloIncarnation
	helloAttempt
	helloHolds
	helloFlags
)

const (
	refusalAnswers = iota + 1
	refusalReason
	refusalText
)

// last is the last field of a hello that is about addresses.
func (w *Wire[A, H]) last() uint16 {
	if w.Key != nil {
		return fieldTo
	}
	return fieldFrom
}

// HelloFormat is the envelope of hellos.
func (w *Wire[A, H]) HelloFormat() *tlv.Format {
	known := []uint16{fieldFrom}
	for typ := w.last(); typ <= w.last()+helloFlags; typ++ {
		if typ != fieldFrom {
			known = append(known, typ)
		}
	}
	return &tlv.Format{Name: "hello", Magic: w.Hello, Version: max(w.Version, 1), MinVersion: max(w.Oldest, 1), Oldest: w.Oldest,
		Known: append(known, w.Fields...)}
}

// RefusalFormat is the envelope of refusals.
func (w *Wire[A, H]) RefusalFormat() *tlv.Format {
	last := w.last()
	return &tlv.Format{Name: "refusal", Magic: w.Refusal, Version: 1, MinVersion: 1,
		Known: []uint16{last, last + refusalAnswers, last + refusalReason, last + refusalText}}
}

// AppendHello appends a hello to b, which must be empty. The fields that a refusal needs come first, so that a version that
// does not understand the rest can refuse it.
func (w *Wire[A, H]) AppendHello(b []byte, m *Hello[A, H]) []byte {
	var flags byte
	if w.Flags != nil {
		flags = w.Flags(&m.Half) &^ flagAckWanted
	}
	if m.AckWanted {
		flags |= flagAckWanted
	}
	last := w.last()
	b = w.HelloFormat().Begin(b)
	b = tlv.AppendField(b, fieldFrom, w.AppendAddress(nil, m.From))
	if w.Key != nil {
		b = tlv.AppendUint64(b, fieldTo, m.To)
	}
	b = tlv.AppendUint64(b, last+helloNonce, m.Nonce)
	b = tlv.AppendField(b, last+helloIncarnation, m.Incarnation[:])
	b = tlv.AppendUint64(b, last+helloAttempt, m.Attempt)
	b = tlv.AppendUint64(b, last+helloHolds, m.Holds)
	b = tlv.AppendField(b, last+helloFlags, []byte{flags})
	return tlv.Finish(w.AppendHalf(b, &m.Half))
}

// ParseHello reads what AppendHello wrote.
func (w *Wire[A, H]) ParseHello(b []byte) (*Hello[A, H], error) {
	m := &Hello[A, H]{Half: w.DefaultHalf}
	f := tlv.Fields{Format: w.HelloFormat()}
	last := w.last()
	if err := f.Parse(b, func(typ uint16, v []byte) {
		switch typ {
		case fieldFrom:
			m.From, f.Err = w.ParseAddress(v)
		case last + helloNonce:
			m.Nonce = f.Uint64(typ, v)
		case last + helloIncarnation:
			f.Copy(typ, m.Incarnation[:], v)
		case last + helloAttempt:
			m.Attempt = f.Uint64(typ, v)
		case last + helloHolds:
			m.Holds = f.Uint64(typ, v)
		case last + helloFlags:
			flags := f.Uint8(typ, v)
			m.AckWanted = flags&flagAckWanted != 0
			if w.SetFlags != nil {
				w.SetFlags(&m.Half, flags)
			}
		case last: // and not from: to
			m.To = f.Uint64(typ, v)
		default:
			w.ParseHalf(&f, &m.Half, typ, v)
		}
	}); err != nil {
		return nil, err
	}
	if m.Nonce == 0 {
		return nil, f.Format.Refuse("the nonce is zero")
	}
	return m, w.CheckHalf(f.Format, &m.Half)
}

// AppendRefusal appends a refusal to b, which must be empty.
func (w *Wire[A, H]) AppendRefusal(b []byte, m *Refusal[A]) []byte {
	last := w.last()
	b = w.RefusalFormat().Begin(b)
	if w.Key != nil {
		b = tlv.AppendUint64(b, fieldTo, m.To)
	} else {
		b = tlv.AppendField(b, fieldFrom, w.AppendAddress(nil, m.From))
	}
	b = tlv.AppendUint64(b, last+refusalAnswers, m.Answers)
	b = tlv.AppendField(b, last+refusalReason, []byte{byte(m.Reason)})
	b = tlv.AppendField(b, last+refusalText, []byte(m.Text[:min(len(m.Text), w.MaxText)]))
	return tlv.Finish(b)
}

// ParseRefusal reads what AppendRefusal wrote.
func (w *Wire[A, H]) ParseRefusal(b []byte) (*Refusal[A], error) {
	m := &Refusal[A]{}
	f := tlv.Fields{Format: w.RefusalFormat()}
	last := w.last()
	if err := f.Parse(b, func(typ uint16, v []byte) {
		switch typ {
		case last:
			if w.Key != nil {
				m.To = f.Uint64(typ, v)
			} else {
				m.From, f.Err = w.ParseAddress(v)
			}
		case last + refusalAnswers:
			m.Answers = f.Uint64(typ, v)
		case last + refusalReason:
			m.Reason = Reason(f.Uint8(typ, v))
		case last + refusalText:
			m.Text = string(v[:min(len(v), w.MaxText)])
		}
	}); err != nil {
		return nil, err
	}
	return m, nil
}

// peek reads what a refusal of a hello needs that ParseHello refused. ok is false unless it is another version's.
func (w *Wire[A, H]) peek(b []byte) (m Hello[A, H], ok bool) {
	known := w.HelloFormat()
	nonce := w.last() + helloNonce
	lenient := *known
	lenient.Version, lenient.Oldest, lenient.Known = 255, 0, []uint16{fieldFrom, w.last(), nonce}
	f := tlv.Fields{Format: &lenient}
	// Whatever follows these fields, and has to be understood, is refused, as it must be.
	_ = f.Parse(b, func(typ uint16, v []byte) {
		switch typ {
		case fieldFrom:
			m.From, f.Err = w.ParseAddress(v)
		case nonce:
			m.Nonce = f.Uint64(typ, v)
		default:
			m.To = f.Uint64(typ, v)
		}
	})
	var nobody A
	other := len(b) > 5 && (b[5] > known.Version || b[4] < known.Oldest)
	return m, other && f.Err == nil && m.From != nobody && m.Nonce != 0
}

// ParseProcess is a field that names the sender's process.
func ParseProcess(f *tlv.Fields, typ uint16, value []byte) (id process.ID) {
	var packed [process.Size]byte
	if f.Copy(typ, packed[:], value); f.Err == nil {
		id = process.Unpack(packed[:])
	}
	return id
}
