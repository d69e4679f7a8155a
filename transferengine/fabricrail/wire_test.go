package fabricrail

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/process"
	"github.com/weftrdma/weft/internal/tlv"
	"github.com/weftrdma/weft/transferengine/rail"
)

func testHello() *hello {
	return &hello{
		from: address{provider: "tcp;ofi_rxm", name: "\x02\x00\x44\x3f\x7f\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00",
			text: "127.0.0.1:17471", key: 0x1234567},
		to: 0x89abcdef, incarnation: rail.Incarnation{0: 1, 15: 16}, nonce: 0xfedcba9876543210, attempt: 3,
		holds: 0x0123456789abcdef, ackWanted: true,
		half: half{tag: 0x00305007, immediates: 256, messages: 16, message: 608},
	}
}

func testRefusal() *refusal {
	return &refusal{to: 0x1234567, answers: 0xfedcba9876543210, reason: reasonNoRoom, text: "no room"}
}

// golden are the bytes that never change. Hexadecimal, with blanks and lines as one likes.
func golden(t *testing.T, name string) []byte {
	text, err := os.ReadFile(filepath.Join("../../testdata/wire/v1", name))
	require.NoError(t, err)
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	require.NoError(t, err)
	return b
}

func TestGolden(t *testing.T) {
	b := testHello().append(nil)
	require.Equal(t, hex.EncodeToString(golden(t, "fabric-hello.golden")), hex.EncodeToString(b))
	m, err := parseHello(b)
	require.NoError(t, err)
	require.Equal(t, testHello(), m)
	require.LessOrEqual(t, len(b), messageSize)

	b = testRefusal().append(nil)
	require.Equal(t, hex.EncodeToString(golden(t, "fabric-refusal.golden")), hex.EncodeToString(b))
	no, err := parseRefusal(b)
	require.NoError(t, err)
	require.Equal(t, testRefusal(), no)

	b = testHello().from.append(nil)
	require.Equal(t, hex.EncodeToString(golden(t, "fabric-address.golden")), hex.EncodeToString(b))
	a, err := parseAddress(b)
	require.NoError(t, err)
	require.Equal(t, testHello().from, a)
	require.LessOrEqual(t, len(b), rail.MaxAddress)

	var c [controlSize]byte
	control{controlStatus, 0x00305007, 512, 24, 0x0102030405060708}.put(c[:])
	require.Equal(t, hex.EncodeToString(golden(t, "fabric-control.golden")), hex.EncodeToString(c[:]))
}

// TestGoldenOptions is of a hello with all optional fields.
func TestGoldenOptions(t *testing.T) {
	want := testHello()
	want.half.virtual = true
	want.half.process = process.ID{Boot: [16]byte{0: 0xb0, 15: 0x07}, Namespace: 0xf0000001, PID: 4711}
	b := want.append(nil)
	require.Equal(t, hex.EncodeToString(golden(t, "fabric-hello-options.golden")), hex.EncodeToString(b))
	m, err := parseHello(b)
	require.NoError(t, err)
	require.Equal(t, want, m)
	require.LessOrEqual(t, len(b), messageSize)
}

func TestAuthenticationIsReserved(t *testing.T) {
	b := testHello().append(nil)
	b = tlv.Finish(tlv.AppendField(b, tlv.Auth, []byte("later")))
	m, err := parseHello(b)
	require.NoError(t, err)
	require.Equal(t, testHello(), m)
}

func TestLongTextIsCut(t *testing.T) {
	m := testRefusal()
	m.text = strings.Repeat("x", 1000)
	b := m.append(nil)
	require.LessOrEqual(t, len(b), messageSize)
	back, err := parseRefusal(b)
	require.NoError(t, err)
	require.Len(t, back.text, maxReason)
}

func TestHelloRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*hello)
		reason string
	}{
		"no nonce":        {func(m *hello) { m.nonce = 0 }, "the nonce or the tag is zero"},
		"no tag":          {func(m *hello) { m.half.tag = 0 }, "the nonce or the tag is zero"},
		"no immediates":   {func(m *hello) { m.half.immediates = 0 }, "0 immediates are outside 1 to 65536"},
		"many immediates": {func(m *hello) { m.half.immediates = 1<<16 + 1 }, "65537 immediates"},
		"no messages":     {func(m *hello) { m.half.messages = 0 }, "0 messages are outside 1 to 65536"},
		"short messages":  {func(m *hello) { m.half.message = 255 }, "messages of 255 bytes are less than 256"},
		"no name":         {func(m *hello) { m.from.name = "" }, "has 0 bytes, not 1 to 104"},
		"long name":       {func(m *hello) { m.from.name = strings.Repeat("x", 105) }, "has 105 bytes, not 1 to 104"},
		"provider":        {func(m *hello) { m.from.provider = "\xff" }, "is no text"},
		"no key":          {func(m *hello) { m.from.key = 0 }, "the key is zero"},
	} {
		t.Run(name, func(t *testing.T) {
			m := testHello()
			tc.change(m)
			_, err := parseHello(m.append(nil))
			var refused *tlv.Error
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, err, tc.reason)
		})
	}
}

func TestEveryFieldIsNeededInItsSize(t *testing.T) {
	for _, format := range []*tlv.Format{&helloFormat, &refusalFormat, &addressFormat} {
		whole := map[*tlv.Format][]byte{
			&helloFormat: testHello().append(nil), &refusalFormat: testRefusal().append(nil),
			&addressFormat: testHello().from.append(nil),
		}[format]
		parse := func(b []byte) (err error) {
			switch format {
			case &helloFormat:
				_, err = parseHello(b)
			case &refusalFormat:
				_, err = parseRefusal(b)
			default:
				_, err = parseAddress(b)
			}
			return err
		}
		require.NoError(t, parse(whole))
		for _, field := range format.Known {
			without, longer := format.Begin(nil), format.Begin(nil)
			require.NoError(t, format.Parse(whole, func(typ uint16, v []byte) error {
				if typ != field {
					without = tlv.AppendField(without, typ, v)
					longer = tlv.AppendField(longer, typ, v)
				} else {
					longer = tlv.AppendField(longer, typ, append(bytes.Clone(v), 0))
				}
				return nil
			}))
			if field&tlv.Required == 0 {
				require.NoError(t, parse(tlv.Finish(without)))
				continue
			}
			require.ErrorContains(t, parse(tlv.Finish(without)), "fields are there")
			if variable := format == &addressFormat && field != fieldKey || format == &refusalFormat && field == fieldWhy; !variable {
				require.Error(t, parse(tlv.Finish(longer)), "%s field %#x", format.Name, field)
			}
		}
	}
}

func TestControl(t *testing.T) {
	for _, c := range []control{{controlStatus, 1, 2, 3, 0}, {controlBye, 1 << 31, 0, 1 << 40, uint64(byeFailed)},
		{controlMessage, 5, 1 << 50, 0, 9}} {
		b := bytes.Repeat([]byte{0xee}, controlSize)
		c.put(b)
		got, ok, err := parseControl(b)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, c, got)
	}
	_, ok, err := parseControl(append([]byte{77}, make([]byte, 40)...)) // of a later version, and longer
	require.NoError(t, err)
	require.False(t, ok)
	_, _, err = parseControl(append([]byte{0x80}, make([]byte, 31)...))
	require.ErrorContains(t, err, "control message 0x80 must be understood")
	_, _, err = parseControl(make([]byte, 31))
	require.ErrorContains(t, err, "control message of 31 bytes")
}

func FuzzHello(f *testing.F) {
	f.Add(testHello().append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseHello(b)
		if err != nil {
			return
		}
		again, err := parseHello(m.append(nil))
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}

func FuzzRefusal(f *testing.F) {
	f.Add(testRefusal().append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseRefusal(b)
		if err != nil {
			return
		}
		again, err := parseRefusal(m.append(nil))
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}

func FuzzAddress(f *testing.F) {
	f.Add(testHello().from.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseAddress(b)
		if err != nil {
			return
		}
		again, err := parseAddress(a.append(nil))
		require.NoError(t, err)
		require.Equal(t, a, again)
		require.NotEmpty(t, a.String())
	})
}

func FuzzControl(f *testing.F) {
	f.Add(bytes.Repeat([]byte{2}, controlSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, ok, err := parseControl(b)
		if err != nil || !ok {
			return
		}
		out := make([]byte, controlSize)
		c.put(out)
		require.Equal(t, b[0], out[0])
		require.Equal(t, b[4:controlSize], out[4:])
	})
}
