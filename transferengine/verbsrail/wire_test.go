package verbsrail

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
		from:        address{gid: [16]byte{10: 0xff, 0xff, 10, 9, 0, 2}, qpn: 18, qkey: 0x1234567},
		incarnation: rail.Incarnation{0: 1, 15: 16}, nonce: 0xfedcba9876543210, attempt: 3, holds: 0x0123456789abcdef,
		ackWanted: true,
		half: half{messages: queuePair{19, 0xabcdef}, writes: queuePair{20, 0x123456}, mtu: 1024, rdAtomic: 16,
			immediates: 256, message: olderMessage},
	}
}

func testRefusal() *refusal {
	return &refusal{from: testHello().from, answers: 0xfedcba9876543210, reason: reasonNoRoom, text: "no room"}
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
	require.Equal(t, hex.EncodeToString(golden(t, "verbs-hello.golden")), hex.EncodeToString(b))
	m, err := parseHello(b)
	require.NoError(t, err)
	require.Equal(t, testHello(), m)
	require.LessOrEqual(t, len(b), maxDatagram)

	b = testRefusal().append(nil)
	require.Equal(t, hex.EncodeToString(golden(t, "verbs-refusal.golden")), hex.EncodeToString(b))
	no, err := parseRefusal(b)
	require.NoError(t, err)
	require.Equal(t, testRefusal(), no)

	b = testHello().from.append(nil)
	require.Equal(t, hex.EncodeToString(golden(t, "verbs-address.golden")), hex.EncodeToString(b))
	a, err := parseAddress(b)
	require.NoError(t, err)
	require.Equal(t, testHello().from, a)
	require.LessOrEqual(t, len(b), rail.MaxAddress)

	var c [controlSize]byte
	control{kind: controlCredit, value: 0x0102030405060708}.put(c[:])
	require.Equal(t, hex.EncodeToString(golden(t, "verbs-control.golden")), hex.EncodeToString(c[:]))
}

// TestGoldenOptions is of a hello with all optional fields.
func TestGoldenOptions(t *testing.T) {
	want := testHello()
	want.half.message = messageSize
	want.half.process = process.ID{Boot: [16]byte{0: 0xb0, 15: 0x07}, Namespace: 0xf0000001, PID: 4711}
	b := want.append(nil)
	require.Equal(t, hex.EncodeToString(golden(t, "verbs-hello-options.golden")), hex.EncodeToString(b))
	m, err := parseHello(b)
	require.NoError(t, err)
	require.Equal(t, want, m)
	require.LessOrEqual(t, len(b), maxDatagram)
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
	require.LessOrEqual(t, len(b), maxDatagram)
	back, err := parseRefusal(b)
	require.NoError(t, err)
	require.Len(t, back.text, maxText)
}

func TestHelloRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*hello)
		reason string
	}{
		"no nonce":         {func(m *hello) { m.nonce = 0 }, "the nonce is zero"},
		"QPN":              {func(m *hello) { m.half.writes.qpn = 1 << 24 }, "numbers have 24 bits"},
		"QPN 1":            {func(m *hello) { m.half.messages.qpn = 1 }, "numbers have 24 bits"},
		"PSN":              {func(m *hello) { m.half.writes.psn = 1 << 24 }, "numbers have 24 bits"},
		"one queue pair":   {func(m *hello) { m.half.writes = m.half.messages }, "queue pair 19 is there twice"},
		"MTU":              {func(m *hello) { m.half.mtu = 1500 }, "1500 bytes are no path MTU"},
		"small MTU":        {func(m *hello) { m.half.mtu = 128 }, "128 bytes are no path MTU"},
		"no immediates":    {func(m *hello) { m.half.immediates = 0 }, "0 immediates are outside 1 to 65536"},
		"many immediates":  {func(m *hello) { m.half.immediates = 1<<16 + 1 }, "65537 immediates"},
		"short messages":   {func(m *hello) { m.half.message = 63 }, "messages of 63 bytes are outside 64 to 65536"},
		"multicast":        {func(m *hello) { m.from.gid = [16]byte{0xff, 2} }, "GID ff02:: is not one port's"},
		"unspecified":      {func(m *hello) { m.from.gid = [16]byte{10: 0xff, 0xff} }, "GID 0.0.0.0 is not one port's"},
		"no address":       {func(m *hello) { m.from.gid = [16]byte{} }, "neither a GID nor a LID"},
		"multicast LID":    {func(m *hello) { m.from.lid = 0xc000 }, "LID 0xc000"},
		"managing QP":      {func(m *hello) { m.from.qpn = 1 }, "queue pair number 0x1"},
		"privileged Q_Key": {func(m *hello) { m.from.qkey = 1 << 31 }, "Q_Key 0x80000000"},
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
			if field != fieldText || format != &refusalFormat {
				require.Error(t, parse(tlv.Finish(longer)), "%s field %#x", format.Name, field)
			}
		}
	}
}

func TestControl(t *testing.T) {
	for _, c := range []control{{controlHeartbeat, 0}, {controlCredit, 1 << 40}, {controlBye, uint64(byeFailed | byeAnswer)},
		{controlMessage, 9}} {
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
	_, _, err = parseControl(append([]byte{0x80}, make([]byte, 15)...))
	require.ErrorContains(t, err, "control message 0x80 must be understood")
	_, _, err = parseControl(make([]byte, 15))
	require.ErrorContains(t, err, "control message of 15 bytes")
}

func FuzzHello(f *testing.F) {
	f.Add(testHello().append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = peekHello(b)
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
		require.Equal(t, b[8:16], out[8:])
	})
}
