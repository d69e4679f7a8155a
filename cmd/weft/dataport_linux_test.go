//go:build !rxe

package main

import (
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/weftrdma/weft/internal/rdmatest"
)

// cut ends the connections of this process to an address, which libfabric has made.
func cut(t *testing.T, to netip.AddrPort) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		require.NoError(t, err)
		if remote, err := unix.Getpeername(fd); err == nil && addrPort(remote) == to {
			require.NoError(t, unix.Shutdown(fd, unix.SHUT_RDWR))
			n++
		}
	}
	return n
}

// TestReceiverKeepsNoConnectionOfItsOwn: libfabric connects to a sender whose connection broke, to take leave of it. The sender
// decides how long such a connection lasts, and can have any number of them.
func TestReceiverKeepsNoConnectionOfItsOwn(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	g := newTarget(t, "")
	for range 6 {
		in := g.intrude(1)
		require.NotNil(t, in)
		t.Cleanup(func() { in.close(g) })
		require.Positive(t, cut(t, netip.MustParseAddrPort(g.data)))
		require.NoError(t, in.conn.Close())
	}
	within := rdmatest.Deadline(10 * time.Second)
	require.Eventually(t, func() bool { return g.calls(g.footprint()) > 0 }, within, time.Millisecond, "libfabric has called nobody")
	require.Eventually(t, func() bool { return g.calls(g.footprint()) == 0 }, within, 100*time.Millisecond)
}

// calls is how many connections a receiver has that it made itself.
func (g *target) calls(print footprint) (n int) {
	_, greets, _ := strings.Cut(g.address, ":")
	_, data, _ := strings.Cut(g.data, ":")
	for _, open := range print.Open { // number: socket:[inode] local remote state
		f := strings.Fields(open)
		if len(f) != 5 || f[4] != established {
			continue
		}
		_, hex, _ := strings.Cut(f[2], ":")
		port, err := strconv.ParseUint(hex, 16, 16)
		require.NoError(g.t, err)
		if own := strconv.FormatUint(port, 10); own != greets && own != data {
			n++
		}
	}
	return n
}
