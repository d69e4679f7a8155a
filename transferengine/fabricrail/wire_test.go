package fabricrail

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

// testSecret is 16 bytes from 0xa0 on.
var testSecret = secret{0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf}

func testHello() *hello {
	return &hello{
		From: address{provider: "tcp;ofi_rxm", name: "\x02\x00\x44\x3f\x7f\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00",
			text: "127.0.0.1:17471", key: 0x1234567},
		To: 0x89abcdef, Incarnation: rail.Incarnation{0: 1, 15: 16}, Nonce: 0xfedcba9876543210, Attempt: 3,
		Holds: 0x0123456789abcdef, AckWanted: true,
		Half: half{tag: 0x00305007, secret: testSecret, immediates: 256, messages: 16, message: 592},
	}
}

func testRefusal() *handshake.Refusal[address] {
	return &handshake.Refusal[address]{To: 0x1234567, Answers: 0xfedcba9876543210, Reason: handshake.NoRoom, Text: "no room"}
}

var (
	hellos    = tlvtest.Codec[*hello]{Append: wire.AppendHello, Parse: wire.ParseHello}
	refusals  = tlvtest.Codec[*handshake.Refusal[address]]{Append: wire.AppendRefusal, Parse: wire.ParseRefusal}
	requests  = tlvtest.Codec[request]{Append: appendRequest, Parse: parseRequest}
	addresses = tlvtest.Codec[address]{Append: wire.AppendAddress, Parse: parseAddress}
)

func TestGolden(t *testing.T) {
	hellos.Golden(t, "v2/fabric-hello.golden", testHello(), messageSize)
	refusals.Golden(t, "v1/fabric-refusal.golden", testRefusal(), messageSize)
	addresses.Golden(t, "v1/fabric-address.golden", testHello().From, rail.MaxAddress)

	tcp := testHello()
	tcp.From.provider = "tcp"
	requests.Golden(t, "v1/fabric-request.golden", request{tcp.From, tcp.To}, requestSize-2)
	addresses.Golden(t, "v1/fabric-address-tcp.golden", tcp.From, rail.MaxAddress)

	var c [controlSize]byte
	control{controlStatus, 0x00305007, 512, 24, 0x0102030405060708, testSecret}.put(c[:])
	require.Equal(t, hex.EncodeToString(tlvtest.Read(t, "v2/fabric-control.golden")), hex.EncodeToString(c[:]))
}

// TestGoldenFences are of connections alone.
func TestGoldenFences(t *testing.T) {
	for kind, name := range map[controlKind]string{controlFence: "fabric-control-fence", controlFenced: "fabric-control-fenced"} {
		var c [controlSize]byte
		control{kind, 0x00305007, 512, 24, 3, testSecret}.put(c[:])
		require.Equal(t, hex.EncodeToString(tlvtest.Read(t, "v2/"+name+".golden")), hex.EncodeToString(c[:]))
	}
}

// TestRequestIsAlwaysAsLong, and the longest address of tcp fits.
func TestRequestIsAlwaysAsLong(t *testing.T) {
	long := address{provider: "tcp", name: strings.Repeat("n", 28), text: strings.Repeat("t", maxText), key: 9} // a sockaddr_in6
	r := &Rail{self: address{provider: long.provider, key: 7}}
	b := request{long, 7}.pad()
	require.Len(t, b, requestSize)
	from, ok := r.readRequest(b)
	require.True(t, ok)
	require.Equal(t, long, from)
	for name, bad := range map[string][]byte{"none": nil, "short": b[:255], "zeros": make([]byte, 256), "long": append([]byte{255, 255}, b[2:]...),
		"another's": request{long, 8}.pad(), "of another provider": request{address{provider: "efa", name: "n", key: 9}, 7}.pad()} {
		_, ok := r.readRequest(bad)
		require.False(t, ok, name)
	}
}

// TestGoldenOptions is of a hello with all optional fields.
func TestGoldenOptions(t *testing.T) {
	want := testHello()
	want.Half.process = process.ID{Boot: [16]byte{0: 0xb0, 15: 0x07}, Namespace: 0xf0000001, PID: 4711}
	hellos.Golden(t, "v2/fabric-hello-options.golden", want, messageSize)
}

// TestHelloOfVersion1IsRefused: it has no secret. The refusal says so, in a form that version 1 reads.
func TestHelloOfVersion1IsRefused(t *testing.T) {
	for _, name := range []string{"v1/fabric-hello.golden", "v1/fabric-hello-options.golden"} {
		_, err := wire.ParseHello(tlvtest.Read(t, name))
		require.EqualError(t, err, "hello: is of version 1, 2 is the oldest understood: update the sender")
	}
	require.EqualValues(t, 1, wire.RefusalFormat().MinVersion)
}

func TestLongTextIsCut(t *testing.T) {
	m := testRefusal()
	m.Text = strings.Repeat("x", 1000)
	require.LessOrEqual(t, len(wire.AppendRefusal(nil, m)), messageSize)
}

func TestHelloRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*hello)
		reason string
	}{
		"no nonce":        {func(m *hello) { m.Nonce = 0 }, "the nonce is zero"},
		"no tag":          {func(m *hello) { m.Half.tag = 0 }, "the tag is zero"},
		"no secret":       {func(m *hello) { m.Half.secret = secret{} }, "the secret is zero"},
		"no immediates":   {func(m *hello) { m.Half.immediates = 0 }, "0 immediates are outside 1 to 65536"},
		"many immediates": {func(m *hello) { m.Half.immediates = 1<<16 + 1 }, "65537 immediates"},
		"no messages":     {func(m *hello) { m.Half.messages = 0 }, "0 messages are outside 1 to 65536"},
		"short messages":  {func(m *hello) { m.Half.message = 255 }, "messages of 255 bytes are less than 256"},
		"no name":         {func(m *hello) { m.From.name = "" }, "has 0 bytes, not 1 to 104"},
		"long name":       {func(m *hello) { m.From.name = strings.Repeat("x", 105) }, "has 105 bytes, not 1 to 104"},
		"provider":        {func(m *hello) { m.From.provider = "\xff" }, "is no text"},
		"no key":          {func(m *hello) { m.From.key = 0 }, "the key is zero"},
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
	refusals.Fields(t, wire.RefusalFormat(), testRefusal(), tlv.Required|5) // the text
	requests.Fields(t, &requestFormat, request{testHello().From, 1})
	addresses.Fields(t, &addressFormat, testHello().From, fieldProvider, fieldName)
}

func TestControl(t *testing.T) {
	for _, c := range []control{{controlStatus, 1, 2, 3, 0, secret{}}, {controlBye, 1 << 31, 0, 1 << 40, uint64(byeFailed), testSecret},
		{controlMessage, 5, 1 << 50, 0, 9, secret{15: 1}}} {
		b := bytes.Repeat([]byte{0xee}, controlSize)
		c.put(b)
		got, ok, err := parseControl(b)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, c, got)
	}
	_, ok, err := parseControl(append([]byte{77}, make([]byte, 60)...)) // of a later version, and longer
	require.NoError(t, err)
	require.False(t, ok)
	_, _, err = parseControl(append([]byte{0x80}, make([]byte, controlSize-1)...))
	require.ErrorContains(t, err, "control message 0x80 must be understood")
	_, _, err = parseControl(make([]byte, controlSize-1))
	require.ErrorContains(t, err, "control message of 47 bytes")
}

// TestSecretsDifferInEveryBit: two secrets are the same only as a whole.
func TestSecretsDifferInEveryBit(t *testing.T) {
	same := testSecret
	require.True(t, same.is(&testSecret))
	for bit := range 8 * len(same) {
		other := testSecret
		other[bit/8] ^= 1 << (bit % 8)
		require.False(t, other.is(&testSecret), "bit %d", bit)
	}
}

func FuzzHello(f *testing.F) { hellos.Fuzz(f, testHello()) }

func FuzzRequest(f *testing.F) { requests.Fuzz(f, request{testHello().From, 1}) }

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
		require.Equal(t, b[4:controlSize], out[4:])
	})
}
