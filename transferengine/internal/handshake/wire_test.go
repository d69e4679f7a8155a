package handshake

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/tlv"
	"github.com/weftrdma/weft/transferengine/rail"
)

func testHello() *Hello[place, link] {
	return &Hello[place, link]{From: place{2, 2}, To: 1, Incarnation: rail.Incarnation{0: 1, 15: 16}, Nonce: 0xfedcba9876543210,
		Attempt: 3, AckWanted: true, Half: link{tag: 7}}
}

func TestWireRoundTrips(t *testing.T) {
	for _, keyed := range []bool{false, true} {
		w := testWire(keyed)
		m := testHello()
		m.Holds, m.AckWanted, m.Half.wide = 5, false, keyed
		if !keyed {
			m.To = 0
		}
		b := w.AppendHello(nil, m)
		got, err := w.ParseHello(tlv.Finish(tlv.AppendField(b, tlv.Auth, []byte("later"))))
		require.NoError(t, err)
		require.Equal(t, m, got, "flags of the half are not those of the hello")

		r := &Refusal[place]{From: m.From, Answers: 9, Reason: Failed, Text: strings.Repeat("x", 99)}
		if keyed {
			r.From, r.To = place{}, 4
		}
		back, err := w.ParseRefusal(w.AppendRefusal(nil, r))
		require.NoError(t, err)
		r.Text = r.Text[:w.MaxText]
		require.Equal(t, r, back)
	}
}

func TestHelloRefused(t *testing.T) {
	for _, keyed := range []bool{false, true} {
		w := testWire(keyed)
		for text, change := range map[string]func(m *Hello[place, link]){
			"hello: the nonce is zero": func(m *Hello[place, link]) { m.Nonce = 0 },
			"hello: the tag is zero":   func(m *Hello[place, link]) { m.Half.tag = 0 },
		} {
			m := testHello()
			change(m)
			_, err := w.ParseHello(w.AppendHello(nil, m))
			require.EqualError(t, err, text)
		}
	}
}

func TestReasonsHaveNames(t *testing.T) {
	names := ""
	for r := Reason(0); r <= Failed+1; r++ {
		names += r.String() + ","
	}
	require.Equal(t, ",version,no room,stale,closing,failed,unknown reason,", names)
}
