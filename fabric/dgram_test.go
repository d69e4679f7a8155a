package fabric_test

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
)

func datagrams(h *fabric.Hints) { h.Provider, h.Type, h.Caps = "udp", fabric.Dgram, fabric.CapMsg }

func TestDatagramsArrive(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a, b := pair(t, "udp", setting{hints: datagrams})
	require.Equal(t, fabric.Dgram, a.info.Type)
	from, to := a.buffer(64), b.buffer(64)
	copy(from.bytes, "a datagram")
	b.recv(1, to.all())
	a.post(a.ep.Send, []fabric.Op{{ID: 2, NumSeg: 1}}, []fabric.Seg{from.Seg(0, 10)}, b)
	a.complete(2, b)
	require.Equal(t, uint64(10), b.message(a).Length)
	require.Equal(t, "a datagram", string(to.bytes[:10]))
	_, err := a.ep.Send([]fabric.Op{{NumSeg: 1}}, []fabric.Seg{a.buffer(1<<17).Seg(0, 1<<17)})
	require.ErrorContains(t, err, "longer than a message may be")
}

// sockaddr is a struct sockaddr_in.
func sockaddr(ip string, port uint16) []byte {
	b := make([]byte, 16)
	binary.NativeEndian.PutUint16(b, syscall.AF_INET)
	binary.BigEndian.PutUint16(b[2:], port)
	address := netip.MustParseAddr(ip).As4()
	copy(b[4:], address[:])
	return b
}

func TestMulticastGoesToAGroupThatWasJoined(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	x := open(t, "udp", setting{
		hints: func(h *fabric.Hints) {
			datagrams(h)
			h.Caps |= fabric.CapMulticast
		},
		ep: func(x *side, cfg *fabric.EndpointConfig) {
			cfg.EQ = opened[*fabric.EQ](t)(x.fabric.OpenEQ(fabric.EQConfig{}))
		},
	})
	b := x.buffer(8)
	for _, peer := range []fabric.Addr{0, 12345, fabric.AddrUnspec} {
		_, err := x.ep.Send([]fabric.Op{{NumSeg: 1, Peer: peer, Flags: fabric.FlagMulticast}}, b.all())
		require.ErrorContains(t, err, "the group not joined")
	}
	_, err := x.ep.Join([]byte{1})
	require.ErrorIs(t, err, syscall.EINVAL)
	group, err := x.ep.Join(sockaddr("239.1.2.3", 17472))
	require.NoError(t, err)
	addr, err := group.Addr()
	require.NoError(t, err)
	require.ErrorIs(t, x.ep.Close(), syscall.EBUSY)
	_, err = x.ep.Send([]fabric.Op{{ID: 1, NumSeg: 1, Peer: addr, Flags: fabric.FlagMulticast | fabric.FlagCompletion}}, b.all())
	require.NoError(t, err)
	require.NoError(t, group.Close())
	_, err = x.ep.Send([]fabric.Op{{NumSeg: 1, Peer: addr, Flags: fabric.FlagMulticast}}, b.all())
	require.ErrorContains(t, err, "the group not joined")
}
