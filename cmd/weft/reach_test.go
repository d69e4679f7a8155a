//go:build !rxe

package main

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/tlv"
	"github.com/weftrdma/weft/transferengine"
)

// engineAt is the address of an engine with one rail, whose own address has these fields.
func engineAt(t *testing.T, kind, magic string, fields ...[]byte) (a transferengine.Address) {
	t.Helper()
	rail := (&tlv.Format{Magic: [4]byte([]byte(magic)), Version: 1, MinVersion: 1}).Begin(nil)
	for i, value := range fields {
		rail = tlv.AppendField(rail, uint16(i+1)|tlv.Required, value)
	}
	rail = tlv.Finish(rail)
	rails := append([]byte{byte(len(kind))}, kind...)
	rails = append(binary.BigEndian.AppendUint16(rails, uint16(len(rail))), rail...)
	b := (&tlv.Format{Magic: [4]byte([]byte("WtAD")), Version: 1, MinVersion: 1}).Begin(nil)
	b = tlv.AppendField(b, 1|tlv.Required, make([]byte, 16))
	b = tlv.Finish(tlv.AppendField(b, 2|tlv.Required, rails))
	require.NoError(t, a.UnmarshalBinary(b))
	return a
}

// overSockets is an engine of a provider that listens on an address; cut takes bytes off the end of its name.
func overSockets(t *testing.T, provider, listens string, cut int) transferengine.Address {
	t.Helper()
	at := netip.MustParseAddrPort(listens)
	family := uint16(2)
	name := binary.BigEndian.AppendUint16(nil, at.Port())
	if at.Addr().Is6() {
		family = 10
		name = append(append(name, 0, 0, 0, 0), at.Addr().AsSlice()...)
		name = append(name, 0, 0, 0, 0)
	} else {
		name = append(append(name, at.Addr().AsSlice()...), make([]byte, 8)...)
	}
	name = append(binary.NativeEndian.AppendUint16(nil, family), name...)
	return engineAt(t, "fabric", "WfRA", []byte(provider), name[:len(name)-cut], []byte{0, 0, 0, 0, 0, 0, 0, 1})
}

// onRoCE is an engine of a verbs device whose GID is an IP address, and onInfiniBand one with a LID.
func onRoCE(t *testing.T, ip string) transferengine.Address {
	gid := netip.MustParseAddr(ip).As16()
	return engineAt(t, "verbs", "WvAD", gid[:], []byte{0, 0}, []byte{0, 0, 0, 17}, []byte{0, 0, 0, 1})
}

func onInfiniBand(t *testing.T) transferengine.Address {
	return engineAt(t, "verbs", "WvAD", make([]byte, 16), []byte{0, 7}, []byte{0, 0, 0, 17}, []byte{0, 0, 0, 1})
}

// TestReceiverConnectsOnlyToWhoAsks: no sender can have a receiver connect to somebody else.
func TestReceiverConnectsOnlyToWhoAsks(t *testing.T) {
	const tcp = "tcp"
	for _, c := range []struct {
		own, from string
		engine    transferengine.Address
		refused   string
	}{
		{"fabric", "192.0.2.7:1", overSockets(t, tcp, "192.0.2.7:5000", 0), ""},
		{"fabric", "[::ffff:192.0.2.7]:1", overSockets(t, tcp, "192.0.2.7:5000", 0), ""},
		{"fabric", "[2001:db8::7]:1", overSockets(t, tcp, "[2001:db8::7]:5000", 0), ""},
		{"fabric", "127.0.0.1:1", overSockets(t, tcp, "127.0.0.1:5000", 0), ""},
		{"fabric", "192.0.2.7:1", overSockets(t, tcp, "192.0.2.8:5000", 0), "--any-host"},
		{"fabric", "192.0.2.7:1", overSockets(t, tcp, "127.0.0.1:22", 0), "--any-host"},
		{"fabric", "192.0.2.7:1", overSockets(t, tcp, "[::ffff:192.0.2.8]:22", 0), "--any-host"},
		{"fabric", "127.0.0.1:1", overSockets(t, tcp, "192.0.2.8:22", 0), "--any-host"},
		{"fabric", "192.0.2.7:1", overSockets(t, tcp, "192.0.2.7:5000", 1), "no socket address"},
		{"fabric", "192.0.2.7:1", overSockets(t, "sockets", "192.0.2.7:5000", 0), "the sender fabric:sockets"},
		{"fabric", "192.0.2.7:1", onRoCE(t, "192.0.2.7"), "no rail of kind fabric"},
		{"verbs", "192.0.2.7:1", onRoCE(t, "192.0.2.7"), ""},
		{"verbs", "192.0.2.7:1", onRoCE(t, "192.0.2.8"), "--any-host"},
		{"verbs", "192.0.2.7:1", onInfiniBand(t), ""},
		{"verbs", "192.0.2.7:1", overSockets(t, tcp, "192.0.2.7:5000", 0), "no rail of kind verbs"},
	} {
		r := &reach{kind: c.own}
		if c.own == "fabric" {
			r.provider = tcp
		}
		from := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.from))
		err := r.check(from, c.engine)
		if c.refused == "" {
			require.NoError(t, err, "%+v", c)
			continue
		}
		require.ErrorContains(t, err, c.refused, "%+v", c)
		if r.anyHost = true; c.refused == "--any-host" {
			require.NoError(t, r.check(from, c.engine))
		}
	}
}
