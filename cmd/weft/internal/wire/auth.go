package wire

// A shared key authenticates both ends to each other, and every message after that.
//
// Hello and Challenge carry a random nonce of each end. Their bytes as they went over the wire, in this order, are the
// transcript, which both ends hash. From the shared key and that hash HKDF-SHA256 derives three keys: one for the messages of
// the sender, one for those of the receiver, and one for the content of files. From then on each message ends with the field
// tlv.Auth: HMAC-SHA256, under the key of its direction, of the number of the message in that direction (8 bytes, from 0) and
// of all bytes of the message before the MAC itself, the length in its header included.
//
// So a recorded message is good for nothing in another session (the nonces differ), in the other direction (the key differs)
// or at another place (the number differs), and a change of version or of a flag in the first two messages changes every key.
// The sender proves itself first: a stranger who connects to a receiver is given no MAC to guess a weak key by.

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"

	"github.com/weftrdma/weft/internal/tlv"
)

// MinKey is the shortest shared key in bytes.
const MinKey = 16

const (
	macSize = sha256.Size
	// authSize is how many bytes the authentication of a message takes: the field's type and length, and the MAC.
	authSize = 4 + macSize
)

// What keys are derived for. They are part of the protocol.
const (
	forSender   = "weft file transfer 2, messages of the sender"
	forReceiver = "weft file transfer 2, messages of the receiver"
	forContent  = "weft file transfer 2, content"
)

// ErrKey is the error of a message whose authentication is missing or wrong.
var ErrKey = errors.New("it does not have the same key, or somebody changed its message on the way: give both ends the same " +
	"--key-file")

// NewNonce returns a random nonce.
func NewNonce() (nonce [NonceSize]byte) {
	rand.Read(nonce[:])
	return nonce
}

// seal authenticates the messages of one direction.
type seal struct {
	mac   hash.Hash // keyed
	count uint64    // of the messages before this one
}

func newSeal(secret, transcript []byte, purpose string) (*seal, error) {
	key, err := hkdf.Key(sha256.New, secret, transcript, purpose, macSize)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	return &seal{mac: hmac.New(sha256.New, key)}, nil
}

// sum is the MAC of the next message, whose bytes up to the MAC are given.
func (s *seal) sum(b []byte) []byte {
	s.mac.Reset()
	s.mac.Write(binary.BigEndian.AppendUint64(nil, s.count))
	s.mac.Write(b)
	s.count++
	return s.mac.Sum(nil)
}

// seal appends the authentication to an encoded message.
func (s *seal) seal(b []byte) []byte {
	b = tlv.Finish(tlv.AppendField(b, tlv.Auth, make([]byte, macSize)))
	copy(b[len(b)-macSize:], s.sum(b[:len(b)-macSize]))
	return b
}

// opens tells whether a message that was received ends with its authentication.
func (s *seal) opens(b []byte) bool {
	if len(b) < prefix+authSize {
		return false
	}
	field := b[len(b)-authSize:]
	known := binary.BigEndian.Uint16(field) == tlv.Auth && binary.BigEndian.Uint16(field[2:]) == macSize
	return hmac.Equal(b[len(b)-macSize:], s.sum(b[:len(b)-macSize])) && known
}

// Authenticate derives the keys of this connection from the shared key and from the messages that were exchanged so far, which
// are a Hello and a Challenge. From then on messages are authenticated in both directions; with an empty key they are not. It
// must be called once, while no Send or Receive is under way.
func (c *Conn) Authenticate(secret []byte, sender bool) error {
	transcript := c.transcript.Sum(nil)
	c.transcript = nil
	if len(secret) == 0 {
		return nil
	}
	if len(secret) < MinKey {
		return fmt.Errorf("the key has %d bytes, less than %d", len(secret), MinKey)
	}
	mine, theirs := forReceiver, forSender
	if sender {
		mine, theirs = theirs, mine
	}
	var err error
	if c.out, err = newSeal(secret, transcript, mine); err == nil {
		c.in, err = newSeal(secret, transcript, theirs)
	}
	if err == nil {
		c.content, err = hkdf.Key(sha256.New, secret, transcript, forContent, macSize)
	}
	return err
}

// Seal is what stands for the SHA-256 of file number n of the transfer where it travels unauthenticated, by RDMA: a MAC of the
// number and the hash with a key, the hash itself without one. Any goroutine may call it.
func (c *Conn) Seal(n uint64, hash [sha256.Size]byte) [sha256.Size]byte {
	if c.content == nil {
		return hash
	}
	one := seal{mac: hmac.New(sha256.New, c.content), count: n}
	return [sha256.Size]byte(one.sum(hash[:]))
}

// checkAuth checks the authentication of a message that was received. An end that has another key can say so, and no more than
// that: before its first authenticated message an Abort needs no authentication.
func (c *Conn) checkAuth(m Message, b []byte) error {
	if c.in == nil {
		return nil
	}
	if _, abort := m.(*Abort); abort && c.in.count == 0 {
		return nil
	}
	if !c.in.opens(b) {
		return ErrKey
	}
	return nil
}
