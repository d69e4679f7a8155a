package transferengine_test

import (
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine"
)

// golden returns the bytes of a message that never change.
func golden(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", "wire", "v1", name))
	require.NoError(t, err)
	message, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	require.NoError(t, err)
	return message
}

func TestGoldenAddress(t *testing.T) {
	var a transferengine.Address
	message := golden(t, "address.golden")
	require.NoError(t, a.UnmarshalBinary(message))
	require.Equal(t, byte(0x0f), a.Incarnation()[15])
	again, err := a.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, message, again)

	text, err := a.MarshalText()
	require.NoError(t, err)
	require.Equal(t, a.String(), string(text))
	var b transferengine.Address
	require.NoError(t, b.UnmarshalText(text))
	require.Equal(t, a, b)
	require.Error(t, b.UnmarshalText([]byte("not base64!")))
	require.Error(t, b.UnmarshalText(make([]byte, 1<<20)))
	require.Equal(t, a, b, "a refused message changes nothing")
}

func TestGoldenDescriptor(t *testing.T) {
	var d transferengine.Descriptor
	message := golden(t, "descriptor.golden")
	require.NoError(t, d.UnmarshalBinary(message))
	require.EqualValues(t, 0x10000, d.Length())
	require.EqualValues(t, 3, d.Generation())
	require.Equal(t, transferengine.RemoteWrite|transferengine.RemoteRead, d.Access())
	require.Equal(t, byte(0x0f), d.Owner()[15])
	again, err := d.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, message, again)

	text, err := d.MarshalText()
	require.NoError(t, err)
	var e transferengine.Descriptor
	require.NoError(t, e.UnmarshalText(text))
	require.Equal(t, d, e)
	require.Error(t, e.UnmarshalText([]byte("A")))
}

func TestEnginesSpeakTheWireFormats(t *testing.T) {
	p := newPair(t, 100, transferengine.Config{})
	message, err := p.b.Address().MarshalBinary()
	require.NoError(t, err)
	var a transferengine.Address
	require.NoError(t, a.UnmarshalBinary(message))
	require.Equal(t, p.b.Address(), a)
	message, err = p.descriptor.MarshalBinary()
	require.NoError(t, err)
	var d transferengine.Descriptor
	require.NoError(t, d.UnmarshalBinary(message))
	require.Equal(t, p.descriptor, d)
	_, err = transferengine.Address{}.MarshalBinary()
	require.Error(t, err)
	require.Contains(t, transferengine.Address{}.String(), "empty")
	_, err = transferengine.Descriptor{}.MarshalText()
	require.Error(t, err)
}

// message makes one of raw fields.
func message(magic string, fields ...[]byte) []byte {
	m := append([]byte(magic), 1, 1, 0, 0, 0, 0, 0, 0)
	for _, f := range fields {
		m = append(m, f...)
	}
	binary.BigEndian.PutUint32(m[8:], uint32(len(m)))
	return m
}

func field(typ uint16, value ...byte) []byte {
	f := binary.BigEndian.AppendUint16(nil, typ|0x8000)
	f = binary.BigEndian.AppendUint16(f, uint16(len(value)))
	return append(f, value...)
}

func repeat(b []byte, n int) (all []byte) {
	for range n {
		all = append(all, b...)
	}
	return all
}

func TestHostileMessagesAreErrors(t *testing.T) {
	var (
		id     = field(1, make([]byte, 16)...)
		rails  = field(2, 1, 'v', 0, 1, 'a')
		one    = []byte{0, 0, 0, 0, 0, 0, 0, 1}
		memory = field(2, append(one, one...)...)
		rights = field(3, 1)
		number = field(4, one...)
		keys   = field(5, one...)
	)
	require.NoError(t, new(transferengine.Address).UnmarshalBinary(message("WtAD", id, rails)))
	require.NoError(t, new(transferengine.Descriptor).UnmarshalBinary(message("WtDS", id, memory, rights, number, keys)))
	unknown := field(9, 1)
	unknown[0] &= 0x7f
	require.NoError(t, new(transferengine.Address).UnmarshalBinary(message("WtAD", unknown, id, rails)), "optional")
	for name, m := range map[string][]byte{
		"empty":                  nil,
		"no fields":              message("WtAD"),
		"no rails field":         message("WtAD", id),
		"no rails":               message("WtAD", id, field(2)),
		"short incarnation":      message("WtAD", field(1, 1, 2), rails),
		"kind without name":      message("WtAD", id, field(2, 0, 0, 1, 'a')),
		"kind beyond the field":  message("WtAD", id, field(2, 9, 'v')),
		"kind too long":          message("WtAD", id, field(2, append([]byte{17}, make([]byte, 20)...)...)),
		"no rail address":        message("WtAD", id, field(2, 1, 'v')),
		"empty rail address":     message("WtAD", id, field(2, 1, 'v', 0, 0)),
		"rail address too long":  message("WtAD", id, field(2, append([]byte{1, 'v', 1, 1}, make([]byte, 257)...)...)),
		"too many rails":         message("WtAD", id, field(2, repeat([]byte{1, 'v', 0, 1, 'a'}, 17)...)),
		"unknown required":       message("WtAD", id, rails, field(9, 1)),
		"too large":              message("WtAD", id, rails, make([]byte, 20000)),
		"descriptor":             message("WtDS", id, memory, rights, number, keys),
		"no fields at all":       message("WtDS"),
		"no keys field":          message("WtDS", id, memory, rights, number),
		"no keys":                message("WtDS", id, memory, rights, number, field(5)),
		"half a key":             message("WtDS", id, memory, rights, number, field(5, append(one, 1)...)),
		"too many keys":          message("WtDS", id, memory, rights, number, field(5, repeat(one, 17)...)),
		"short range":            message("WtDS", id, field(2, one...), rights, number, keys),
		"range of nothing":       message("WtDS", id, field(2, append(one, make([]byte, 8)...)...), rights, number, keys),
		"range beyond addresses": message("WtDS", id, field(2, append(repeat([]byte{255}, 8), 0, 0, 0, 0, 0, 0, 0, 2)...), rights, number, keys),
		"unknown rights":         message("WtDS", id, memory, field(3, 4), number, keys),
		"no rights":              message("WtDS", id, memory, field(3), number, keys),
		"short generation":       message("WtDS", id, memory, rights, field(4, 1), keys),
		"large":                  message("WtDS", make([]byte, 20000)),
	} {
		if name != "descriptor" {
			require.Error(t, new(transferengine.Descriptor).UnmarshalBinary(m), name)
		}
		require.Error(t, new(transferengine.Address).UnmarshalBinary(m), name)
	}
}

// binaryForm is what addresses and descriptors have in common.
type binaryForm interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// roundTrip checks that what is understood can be written and read again.
func roundTrip(t *testing.T, data []byte, first, second binaryForm) {
	if first.UnmarshalBinary(data) != nil {
		return
	}
	again, err := first.MarshalBinary()
	require.NoError(t, err)
	require.NoError(t, second.UnmarshalBinary(again))
	require.Equal(t, first, second)
}

func TestGoldenMessages(t *testing.T) {
	for name, message := range transferengine.Messages() {
		require.Equal(t, golden(t, name), message, name)
		again, err := transferengine.ParseMessage(message)
		require.NoError(t, err)
		require.Equal(t, message, again)
	}
	_, err := transferengine.ParseMessage(message("WtMS", field(1, 1), field(2, 0, 0, 0, 7), field(3, make([]byte, 8)...),
		field(4, make([]byte, 8)...)))
	require.ErrorContains(t, err, "the counts of a failure are missing")
}

func FuzzMessage(f *testing.F) {
	f.Add(golden(f, "message-failed.golden"))
	f.Fuzz(func(t *testing.T, data []byte) {
		again, err := transferengine.ParseMessage(data)
		if err != nil {
			return
		}
		once, err := transferengine.ParseMessage(again)
		require.NoError(t, err)
		require.Equal(t, again, once)
	})
}

func FuzzAddress(f *testing.F) {
	f.Add(golden(f, "address.golden"))
	f.Fuzz(func(t *testing.T, data []byte) {
		roundTrip(t, data, new(transferengine.Address), new(transferengine.Address))
	})
}

func FuzzDescriptor(f *testing.F) {
	f.Add(golden(f, "descriptor.golden"))
	f.Fuzz(func(t *testing.T, data []byte) {
		roundTrip(t, data, new(transferengine.Descriptor), new(transferengine.Descriptor))
	})
}
