package fabricrail_test

import (
	"encoding/binary"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/fabricrail"
)

// header is the first part of the provider's message that asks for a connection: struct ofi_ctrl_hdr, with so many bytes to follow.
func header(follow int) []byte {
	b := make([]byte, 32)
	b[0], b[1] = 3, 0 // TCPX_CTRL_HDR_VERSION, ofi_ctrl_connreq
	binary.BigEndian.PutUint16(b[2:], uint16(follow))
	binary.NativeEndian.PutUint64(b[24:], 1)
	return b
}

// dial makes a connection of a stranger to a rail's port.
func dial(t *testing.T, to *end) net.Conn {
	t.Helper()
	_, at, err := fabricrail.AddressOf(to.rail.Address())
	require.NoError(t, err)
	conn, err := net.DialTimeout("tcp", at.String(), rdmatest.Deadline(patience))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestPartOfARequestStopsNobody: a stranger's request that never becomes whole does not keep the rail from its peers.
func TestPartOfARequestStopsNobody(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a, b := open(t, local(), 1), open(t, local(), 2)
	whole := append(header(256), make([]byte, 256)...)
	for _, part := range []int{0, 1, 31, 32, 33, 287, 288} {
		conn := dial(t, b)
		_, err := conn.Write(whole[:part])
		require.NoError(t, err)
	}
	turned := make(chan bool)
	go func() {
		defer close(turned)
		pass(50*time.Millisecond, b)
	}()
	select {
	case <-turned:
	case <-time.After(rdmatest.Deadline(patience)):
		require.FailNow(t, "a turn does not end")
	}
	a.connect(b)
}

// descriptors is how many this process has.
func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(names)
}

// TestStrangersCostLittle: connections that say nothing, half a request or a wrong one are not kept, cost no more than so many
// descriptors at a time, and no peer its connection.
func TestStrangersCostLittle(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a, b := open(t, local(), 1), open(t, local(), 2)
	before := descriptors(t)
	const many = 200
	wrong := append(header(256), make([]byte, 256)...)
	for i := range many {
		_, err := dial(t, b).Write(wrong[:[]int{0, 40, len(wrong)}[i%3]])
		require.NoError(t, err)
	}
	most := 0
	for start := time.Now(); time.Since(start) < 200*time.Millisecond; most = max(most, descriptors(t)-before-many) {
		b.turn()
	}
	require.Less(t, most, 100, "descriptors of strangers")
	a.connect(b)
	ctx := rdmatest.Context(t, patience)
	for descriptors(t)-before-many > 8+8 { // of the peer's two ends
		pass(10*time.Millisecond, a, b)
		require.NoError(t, ctx.Err(), "%d descriptors of strangers are left", descriptors(t)-before-many-16)
	}
	require.Positive(t, b.fabric().Ignored())
	open(t, local(), 3).connect(b)
}
