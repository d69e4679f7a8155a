// Package wire is what the two ends of a file transfer say to each other over TCP: who they are, what is in a file, and
// what became of it. The bytes of the files themselves go by RDMA and are not here.
//
//	sender              receiver
//	Hello          →               a random nonce; whether it has a key
//	               ←    Challenge  likewise
//	Request        →               its engine, and where slots are given back
//	               ←    Wait       all seats are taken: its place in line; again whenever that changes
//	               ←    Welcome    its engine, its window and how it is cut into slots
//	File           →               name, kind, size, mode, time; several are announced ahead
//	               ←    Accept     for each: send it, and what is there of it; or
//	               ←    Answer     why not
//	               …               the bytes, by RDMA
//	               ←    Answer     for each file that was accepted: it is in place, or why not
//	End            →               every file was answered for; the receiver closes the connection
//
// Accepts and first Answers come in the order of the Files. Either end may say Abort instead of anything else, which ends the
// transfer, and Alive at any time, which shows that it works. Where both ends have a key, every message from Request on ends
// with the field that authenticates it: see auth.go.
package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/weftrdma/weft/internal/tlv"
)

const (
	// version is that of the protocol.
	version = 2
	// MaxMessage is the largest message in bytes: the addresses and descriptors of engines with many NICs fit in.
	MaxMessage = 8 << 10
	// MaxName is the longest name of a file in bytes (PATH_MAX of Linux, without its NUL).
	MaxName = 4095
	// MaxText is the longest text of an Answer or Abort in bytes; what is longer is cut.
	MaxText = 320
	// MaxSize is the largest file in bytes.
	MaxSize = 1<<63 - 1
	// PermissionBits are those of a file's mode that are sent.
	PermissionBits = 0o777
)

// Message is one of Hello, Challenge, Request, Wait, Welcome, File, Accept, Answer, Alive, End and Abort.
type Message interface {
	format() *tlv.Format
	appendFields(b []byte) []byte
	field(typ uint16, value []byte) error
	check() error
}

// Abort ends the transfer.
type Abort struct {
	Text string // why
}

// Fields. Every message has all of its own.
const (
	fieldName    = tlv.Required | 5
	fieldSize    = tlv.Required | 6
	fieldMode    = tlv.Required | 7
	fieldSHA256  = tlv.Required | 8
	fieldText    = tlv.Required | 9
	fieldKind    = tlv.Required | 10
	fieldModTime = tlv.Required | 11
	fieldNumber  = tlv.Required | 12
	fieldHave    = tlv.Required | 13
)

func newFormat(name string, magic string, known ...uint16) *tlv.Format {
	return &tlv.Format{Name: name, Magic: [4]byte([]byte(magic)), Version: version, MinVersion: version, Known: known}
}

var (
	fileFormat   = newFormat("file", "WfFI", fieldName, fieldKind, fieldSize, fieldMode, fieldModTime)
	acceptFormat = newFormat("accept", "WfAC", fieldNumber, fieldHave, fieldSHA256)
	answerFormat = newFormat("answer", "WfAN", fieldNumber, fieldText)
	aliveFormat  = newFormat("alive", "WfAL")
	endFormat    = newFormat("end", "WfEN")
	// A peer of any version can read why it is turned away.
	abortFormat = &tlv.Format{Name: "abort", Magic: [4]byte([]byte("WfAB")), Version: version, MinVersion: 1,
		Known: []uint16{fieldText}}
)

// checkVersion refuses a message of a version that this end does not speak. Only an Abort is one format in all of them.
func checkVersion(m Message, b []byte) error {
	if len(b) < prefix {
		return nil // which the format refuses
	}
	theirs := max(b[4], b[5])
	if _, abort := m.(*Abort); abort || b[4] >= version && b[5] <= version {
		return nil
	}
	return refuse(m, "the other end speaks version %d of the protocol, this one version %d: install the same weft at both ends",
		theirs, version)
}

// Encode returns the message in its wire format, or an error if its fields are out of bounds.
func Encode(m Message) ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	b := tlv.Finish(m.appendFields(m.format().Begin(nil)))
	if limit := MaxMessage - authSize; len(b) > limit {
		return nil, refuse(m, "%d bytes are over the limit of %d", len(b), limit)
	}
	return b, nil
}

// Parse reads one whole message. It keeps nothing of b.
func Parse(b []byte) (Message, error) {
	if len(b) > MaxMessage {
		return nil, fmt.Errorf("message: %d bytes are over the limit of %d", len(b), MaxMessage)
	}
	m := ofMagic(b)
	if m == nil {
		return nil, fmt.Errorf("message: starts with %q, which is none of a file transfer's", b[:min(len(b), 4)])
	}
	if err := checkVersion(m, b); err != nil {
		return nil, err
	}
	seen := 0
	err := m.format().Parse(b, func(typ uint16, value []byte) error {
		seen++
		return m.field(typ, value)
	})
	if err == nil && seen < len(m.format().Known) {
		err = refuse(m, "%d of %d fields are there", seen, len(m.format().Known))
	}
	if err == nil {
		err = m.check()
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// ofMagic makes an empty message of the kind that b begins with; nil if there is none.
func ofMagic(b []byte) Message {
	for _, m := range []Message{new(Hello), new(Challenge), new(Request), new(Wait), new(Welcome), new(File), new(Accept),
		new(Answer), new(Alive), new(End), new(Abort)} {
		if magic := m.format().Magic; bytes.HasPrefix(b, magic[:]) {
			return m
		}
	}
	return nil
}

func refuse(m Message, format string, args ...any) error {
	return &tlv.Error{Format: m.format().Name, Reason: fmt.Sprintf(format, args...)}
}

// Text is an error's text for an Answer or Abort, cut to MaxText at the end of a character.
func Text(err error) string {
	text := err.Error()
	if len(text) <= MaxText {
		return text
	}
	const dots = "…"
	end := MaxText - len(dots)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + dots
}

// Printable is text from the other end as it may be shown on a terminal: as it is, or quoted where a character of it would
// move the cursor, change colours or reorder what stands beside it.
func Printable(text string) string {
	for _, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return strconv.QuoteToGraphic(text)
		}
	}
	return text
}

func appendUint32(b []byte, typ uint16, v uint32) []byte {
	return tlv.AppendField(b, typ, binary.BigEndian.AppendUint32(nil, v))
}

// uint32Field reads a number that a message has as its field typ.
func uint32Field(m Message, typ uint16, value []byte) (uint32, error) {
	if len(value) != 4 {
		return 0, refuse(m, "field %#x has %d bytes, not 4", typ, len(value))
	}
	return binary.BigEndian.Uint32(value), nil
}

// NameOf is the name of a message's kind: "hello".
func NameOf(m Message) string { return m.format().Name }
