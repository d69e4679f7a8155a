package wire_test

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
)

const patience = 20 * time.Second

func pipe(t *testing.T, timeout time.Duration) (*wire.Conn, net.Conn) {
	t.Helper()
	a, b := net.Pipe()
	c := wire.NewConn(a, timeout)
	t.Cleanup(func() {
		_ = c.Close()
		_ = b.Close()
	})
	return c, b
}

// tcp is a connection over loopback.
func tcp(t *testing.T) (a, b *wire.Conn) {
	t.Helper()
	dialled, accepted := sockets(t)
	return wire.NewConn(dialled, patience), wire.NewConn(accepted, patience)
}

// sockets are the ends of a TCP connection over loopback. Unlike those of a net.Pipe they still take deadlines when the
// other end is closed.
func sockets(t *testing.T) (dialled, accepted net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	dialled, err = net.DialTimeout("tcp", l.Addr().String(), patience)
	require.NoError(t, err)
	accepted, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = dialled.Close()
		_ = accepted.Close()
	})
	return dialled, accepted
}

func TestConn(t *testing.T) {
	a, b := tcp(t)
	var size int64
	for name, m := range messages() {
		sent := make(chan error, 1)
		go func() { sent <- a.Send(m) }()
		got, err := b.Receive()
		require.NoError(t, err)
		require.Equal(t, m, got)
		require.NoError(t, <-sent)
		size += int64(len(golden(t, name)))
	}
	require.Equal(t, size, a.Bytes())
	require.Equal(t, size, b.Bytes())
	require.NoError(t, a.Close())
	_, err := b.Receive()
	require.ErrorIs(t, err, io.EOF)
	require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
}

// TestConnRefusesSizes: the length is looked at before anything of that length is read.
func TestConnRefusesSizes(t *testing.T) {
	for _, size := range []uint32{0, 11, wire.MaxMessage + 1, 1<<32 - 1} {
		c, other := pipe(t, patience)
		b, err := wire.Encode(&wire.End{})
		require.NoError(t, err)
		binary.BigEndian.PutUint32(b[8:], size)
		go func() { _, _ = other.Write(b) }()
		_, err = c.Receive()
		require.ErrorContains(t, err, "message: says")
	}
}

func TestConnRefusesStrangers(t *testing.T) {
	c, other := pipe(t, patience)
	go func() { _, _ = io.WriteString(other, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n") }()
	_, err := c.Receive()
	require.ErrorContains(t, err, `starts with "GET "`)
}

func TestConnCutShort(t *testing.T) {
	b := golden(t, "file-file")
	for _, cut := range []int{1, 11, 12, len(b) - 1} {
		end, other := sockets(t)
		_, err := other.Write(b[:cut])
		require.NoError(t, err)
		require.NoError(t, other.Close())
		_, err = wire.NewConn(end, patience).Receive()
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	}
}

// TestConnTimeouts: neither half a message nor an end that reads nothing holds the other for ever.
func TestConnTimeouts(t *testing.T) {
	c, other := pipe(t, 10*time.Millisecond)
	require.ErrorIs(t, c.Send(&wire.End{}), os.ErrDeadlineExceeded)
	b := golden(t, "file-file")
	go func() { _, _ = other.Write(b[:len(b)-1]) }()
	_, err := c.Receive()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}
