package verbsrail

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/process"
	"github.com/weftrdma/weft/internal/tlv"
	"github.com/weftrdma/weft/internal/tlv/tlvtest"
	"github.com/weftrdma/weft/transferengine/internal/handshake"
	"github.com/weftrdma/weft/transferengine/rail"
)

func testHello() *hello {
	return &hello{
		From:        address{gid: [16]byte{10: 0xff, 0xff, 10, 9, 0, 2}, qpn: 18, qkey: 0x1234567},
		Incarnation: rail.Incarnation{0: 1, 15: 16}, Nonce: 0xfedcba9876543210, Attempt: 3, Holds: 0x0123456789abcdef,
		AckWanted: true,
		Half: half{messages: queuePair{19, 0xabcdef}, writes: queuePair{20, 0x123456}, mtu: 1024, rdAtomic: 16,
			immediates: 256, message: olderMessage},
	}
}

func testRefusal() *handshake.Refusal[address] {
	return &handshake.Refusal[address]{From: testHello().From, Answers: 0xfedcba9876543210, Reason: handshake.NoRoom, Text: "no room"}
}

var (
	hellos    = tlvtest.Codec[*hello]{Append: wire.AppendHello, Parse: wire.ParseHello}
	refusals  = tlvtest.Codec[*handshake.Refusal[address]]{Append: wire.AppendRefusal, Parse: wire.ParseRefusal}
	addresses = tlvtest.Codec[address]{Append: wire.AppendAddress, Parse: parseAddress}
)

func TestGolden(t *testing.T) {
	hellos.Golden(t, "v1/verbs-hello.golden", testHello(), maxDatagram)
	refusals.Golden(t, "v1/verbs-refusal.golden", testRefusal(), maxDatagram)
	addresses.Golden(t, "v1/verbs-address.golden", testHello().From, rail.MaxAddress)

	var c [controlSize]byte
	control{kind: controlCredit, value: 0x0102030405060708}.put(c[:])
	require.Equal(t, hex.EncodeToString(tlvtest.Read(t, "v1/verbs-control.golden")), hex.EncodeToString(c[:]))
}

// TestGoldenOptions is of a hello with all optional fields.
func TestGoldenOptions(t *testing.T) {
	want := testHello()
	want.Half.message = messageSize
	want.Half.process = process.ID{Boot: [16]byte{0: 0xb0, 15: 0x07}, Namespace: 0xf0000001, PID: 4711}
	hellos.Golden(t, "v1/verbs-hello-options.golden", want, maxDatagram)
}

func TestLongTextIsCut(t *testing.T) {
	m := testRefusal()
	m.Text = strings.Repeat("x", 1000)
	require.LessOrEqual(t, len(wire.AppendRefusal(nil, m)), maxDatagram)
}

func TestHelloRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*hello)
		reason string
	}{
		"no nonce":         {func(m *hello) { m.Nonce = 0 }, "the nonce is zero"},
		"QPN":              {func(m *hello) { m.Half.writes.qpn = 1 << 24 }, "numbers have 24 bits"},
		"QPN 1":            {func(m *hello) { m.Half.messages.qpn = 1 }, "numbers have 24 bits"},
		"PSN":              {func(m *hello) { m.Half.writes.psn = 1 << 24 }, "numbers have 24 bits"},
		"one queue pair":   {func(m *hello) { m.Half.writes = m.Half.messages }, "queue pair 19 is there twice"},
		"MTU":              {func(m *hello) { m.Half.mtu = 1500 }, "1500 bytes are no path MTU"},
		"small MTU":        {func(m *hello) { m.Half.mtu = 128 }, "128 bytes are no path MTU"},
		"no immediates":    {func(m *hello) { m.Half.immediates = 0 }, "0 immediates are outside 1 to 65536"},
		"many immediates":  {func(m *hello) { m.Half.immediates = 1<<16 + 1 }, "65537 immediates"},
		"short messages":   {func(m *hello) { m.Half.message = 63 }, "messages of 63 bytes are outside 64 to 65536"},
		"multicast":        {func(m *hello) { m.From.gid = [16]byte{0xff, 2} }, "GID ff02:: is not one port's"},
		"unspecified":      {func(m *hello) { m.From.gid = [16]byte{10: 0xff, 0xff} }, "GID 0.0.0.0 is not one port's"},
		"no address":       {func(m *hello) { m.From.gid = [16]byte{} }, "neither a GID nor a LID"},
		"multicast LID":    {func(m *hello) { m.From.lid = 0xc000 }, "LID 0xc000"},
		"managing QP":      {func(m *hello) { m.From.qpn = 1 }, "queue pair number 0x1"},
		"privileged Q_Key": {func(m *hello) { m.From.qkey = 1 << 31 }, "Q_Key 0x80000000"},
	} {
		t.Run(name, func(t *testing.T) {
			m := testHello()
			tc.change(m)
			hellos.Refused(t, m, tc.reason)
		})
	}
}

func TestEveryFieldIsNeededInItsSize(t *testing.T) {
	hellos.Fields(t, wire.HelloFormat(), testHello())
	refusals.Fields(t, wire.RefusalFormat(), testRefusal(), tlv.Required|4) // the text
	addresses.Fields(t, &addressFormat, testHello().From)
}

func TestSenderIsCheckedAgainstTheNIC(t *testing.T) {
	a := testHello().From
	from := source{gid: a.gid, hasGID: true, qpn: a.qpn}
	require.True(t, from.agrees(a))
	from.gid[15]++
	require.False(t, from.agrees(a))
	require.False(t, source{gid: a.gid, hasGID: true, qpn: a.qpn + 1}.agrees(a))
	require.True(t, source{lid: 3, qpn: 9}.agrees(address{gid: [16]byte{1}, lid: 3, qpn: 9}))
	require.False(t, source{lid: 3, qpn: 9}.agrees(address{lid: 4, qpn: 9}))
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

func FuzzHello(f *testing.F) { hellos.Fuzz(f, testHello()) }

func FuzzRefusal(f *testing.F) { refusals.Fuzz(f, testRefusal()) }

func FuzzAddress(f *testing.F) { addresses.Fuzz(f, testHello().From) }

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
