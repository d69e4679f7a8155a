//go:build !rxe

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
)

// keyFile makes a file with a key.
func keyFile(t *testing.T, key string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte(key+"\n"), 0o600))
	return path
}

// TestSharedKey: only senders with the receiver's key are served, and a sender with a key trusts no other receiver.
func TestSharedKey(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	to := t.TempDir()
	key, same := keyFile(t, "correct horse battery staple"), keyFile(t, " correct horse battery staple\r")
	other := keyFile(t, "correct horse battery stable")
	receiver, _, address := startReceiver(t, "fabric:tcp", to, "--key-file", key)
	path := randomFile(t, t.TempDir(), "file", 100_000)
	send := func(args ...string) (status int, stderr string) {
		status, _, stderr = weft(t, append(append([]string{"send", "--rail", "fabric:tcp"}, args...), path, address)...)
		return status, stderr
	}
	status, stderr := send()
	require.Equal(t, statusFailed, status)
	require.Contains(t, stderr, "the receiver serves only senders that have its key: give --key-file")
	status, stderr = send("--key-file", other)
	require.Equal(t, statusFailed, status)
	require.Contains(t, stderr, "give both ends the same --key-file")
	requireEntries(t, to, 0)
	readUntil(t, receiver, "^weft: turned away (.*) only one end has a key")
	readUntil(t, receiver, "^weft: turned away (.*) it does not have the same key")
	status, stderr = send("--key-file", same)
	require.Zero(t, status, stderr)
	requireSame(t, to, path)

	_, _, address = startReceiver(t, "fabric:tcp", t.TempDir())
	status, stderr = send("--key-file", key)
	require.Equal(t, statusFailed, status)
	require.Contains(t, stderr, "the receiver has no key: give both ends the same --key-file")
}

// TestKeyFiles that are none, and one that everybody can read.
func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	for text, key := range map[string]string{
		"its key has 15 bytes, at least 16 are needed": " 0123456789abcde \n",
		"its key has 0 bytes":                          "\n",
		"more than 4096 bytes are no key":              strings.Repeat("x", 4097),
	} {
		status, _, stderr := weft(t, "recv", "--rail", "fabric:tcp", "--dir", dir, "--key-file", keyFile(t, key))
		require.Equal(t, statusFailed, status)
		require.Contains(t, stderr, text)
	}
	status, _, stderr := weft(t, "recv", "--rail", "fabric:tcp", "--dir", dir, "--key-file", filepath.Join(dir, "absent"))
	require.Equal(t, statusFailed, status)
	require.Contains(t, stderr, "no such file")

	open := keyFile(t, "0123456789abcdef")
	for mode, warns := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o604: true} {
		require.NoError(t, os.Chmod(open, mode))
		var warned bytes.Buffer
		key, err := (&app{stderr: &warned}).readKey(open)
		require.NoError(t, err)
		require.Equal(t, "0123456789abcdef", string(key))
		require.Equal(t, warns, strings.Contains(warned.String(), "other users of this machine can read the key: chmod 600 "+open), mode)
	}
}

// TestOpenToOthersOnlyIfTold: without a key and without --open a receiver serves the loopback alone.
func TestOpenToOthersOnlyIfTold(t *testing.T) {
	for _, listen := range []string{"192.0.2.1:7471", ":7471", "0.0.0.0:7471", "[::]:7471", "[2001:db8::1]:7471"} {
		o := recvOptions{listen: listen, dir: "incoming"}
		_, err := o.resolve()
		require.ErrorContains(t, err, "would let everybody on that network put files into incoming: give --key-file, or --open")
		require.ErrorAs(t, err, new(*usageError))
		o.open = true
		_, err = o.resolve()
		require.NoError(t, err)
		o.open, o.keyFile = false, "key"
		_, err = o.resolve()
		require.NoError(t, err)
	}
	for _, listen := range []string{"127.0.0.1:7471", "127.1.2.3:7471", "[::1]:7471", "localhost:7471"} {
		_, err := recvOptions{listen: listen}.resolve()
		require.NoError(t, err)
	}
}

// TestPortsFollowListen: a receiver takes connections on the address of --listen alone, on the port that it was given, and says
// so.
func TestPortsFollowListen(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	free, err := net.Listen("tcp", "127.0.0.2:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(free.Addr().String())
	require.NoError(t, err)
	require.NoError(t, free.Close())
	to := t.TempDir()
	c := rdmatest.StartChild(t, "weft", "recv", "--rail", "fabric:tcp", "--dir", to, "--listen", "127.0.0.2:0", "--data-port", port)
	pid := readUntil(t, c, `^process (\d+)$`)
	line := readUntil(t, c, `^weft: listening on (127\.0\.0\.2:\d+; data on \S+) by fabric:tcp; receives into `)
	address, data, _ := strings.Cut(line, "; data on ")
	require.Equal(t, "127.0.0.2:"+port, data)
	require.ElementsMatch(t, []string{address, data}, socketsOf(t, pid, listening))
	path := randomFile(t, t.TempDir(), "file", 100_000)
	status, _, stderr := weft(t, "send", "--rail", "fabric:tcp", path, address)
	require.Zero(t, status, stderr)
	requireSame(t, to, path)
}

// TestAdvertise: senders come by an address that the receiver does not have, as with docker run -p.
func TestAdvertise(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(free.Addr().String())
	require.NoError(t, err)
	require.NoError(t, free.Close())
	outside, err := net.Listen("tcp", "127.0.0.3:0")
	require.NoError(t, err)
	defer outside.Close()
	var passed atomic.Int64
	go translate(outside, "127.0.0.1:"+port, &passed)
	to := t.TempDir()
	c := rdmatest.StartChild(t, "weft", "recv", "--rail", "fabric:tcp", "--dir", to, "--listen", "127.0.0.1:0", "--data-port", port,
		"--advertise", outside.Addr().String())
	address := readUntil(t, c, `^weft: listening on (\S+); data on 127\.0\.0\.1:\d+, which senders reach as 127\.0\.0\.3:\d+, by fabric:tcp; `)
	path := randomFile(t, t.TempDir(), "file", 300_000)
	status, _, stderr := weft(t, "send", "--rail", "fabric:tcp", path, address)
	require.Zero(t, status, stderr)
	requireSame(t, to, path)
	require.Eventually(t, func() bool { return passed.Load() > 300_000 }, rdmatest.Deadline(patience), time.Millisecond)
}

// translate passes on what comes, and counts its bytes.
func translate(from net.Listener, to string, passed *atomic.Int64) {
	for {
		outer, err := from.Accept()
		if err != nil {
			return
		}
		inner, err := net.Dial("tcp", to)
		if err != nil {
			_ = outer.Close()
			continue
		}
		go func() {
			_, _ = io.Copy(outer, inner)
			_ = outer.Close()
		}()
		go func() {
			n, _ := io.Copy(inner, outer)
			passed.Add(n)
			_ = inner.Close()
		}()
	}
}

// The kernel's numbers of TCP states.
const (
	established = "01"
	listening   = "0A"
)

// socketsOf are the local addresses of a process's TCP sockets in a state.
func socketsOf(t *testing.T, pid, state string) (addresses []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/" + pid + "/fd")
	require.NoError(t, err)
	mine := make(map[string]bool)
	for _, e := range entries {
		if target, err := os.Readlink("/proc/" + pid + "/fd/" + e.Name()); err == nil {
			mine[target] = true
		}
	}
	for _, file := range []string{"tcp", "tcp6"} {
		table, err := os.ReadFile("/proc/" + pid + "/net/" + file)
		require.NoError(t, err)
		for line := range strings.Lines(string(table)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != state || !mine["socket:["+f[9]+"]"] {
				continue
			}
			host, port, _ := strings.Cut(f[1], ":")
			n, err := strconv.ParseUint(port, 16, 16)
			require.NoError(t, err)
			if ip, err := strconv.ParseUint(host, 16, 32); err == nil {
				host = net.IPv4(byte(ip), byte(ip>>8), byte(ip>>16), byte(ip>>24)).String()
			}
			addresses = append(addresses, net.JoinHostPort(host, strconv.FormatUint(n, 10)))
		}
	}
	return addresses
}

// TestTurnedAwayIsBounded: how much a receiver writes is not for strangers to choose.
func TestTurnedAwayIsBounded(t *testing.T) {
	var out bytes.Buffer
	away := turnedAway{out: &out}
	now := time.Unix(1e9, 0)
	for i := range 100_000 {
		away.sayAt(now, fmt.Sprintf("192.0.2.1:%d", i), errors.New("\x1b[2J"))
	}
	require.Equal(t, sayMost, strings.Count(out.String(), "\n"))
	require.NotContains(t, out.String(), "\x1b")
	out.Reset()
	away.sayAt(now.Add(sayEvery), "192.0.2.1:1", errors.New("again"))
	require.Equal(t, fmt.Sprintf("weft: %d more were turned away\nweft: turned away 192.0.2.1:1: again\n", 100_000-sayMost),
		out.String())
}

// TestIdleConnectionsToTheDataPort are ended by the receiver, also those of a host that is being served, and it goes on.
func TestIdleConnectionsToTheDataPort(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	to := t.TempDir()
	c := rdmatest.StartChild(t, "weft", "recv", "--rail", "fabric:tcp", "--dir", to, "--listen", "127.0.0.1:0", "--force",
		"--window", "65536")
	pid := readUntil(t, c, `^process (\d+)$`)
	line := readUntil(t, c, `^weft: listening on (\S+; data on \S+) by fabric:tcp; `)
	address, data, _ := strings.Cut(line, "; data on ")
	path := randomFile(t, t.TempDir(), "file", 1<<20)
	stuck := rdmatest.StartChild(t, "stuck sender", "fabric:tcp", path, address)
	readUntil(t, stuck, "^(stuck)$")
	require.ElementsMatch(t, []string{address, data}, socketsOf(t, pid, established), "the receiver connects nowhere itself")
	var idle []net.Conn
	for i := range 100 {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i%2))}, Timeout: rdmatest.Deadline(patience)}
		conn, err := d.Dial("tcp", data)
		require.NoError(t, err)
		defer conn.Close()
		if i%3 == 0 {
			_, err := conn.Write([]byte{0})
			require.NoError(t, err)
		}
		idle = append(idle, conn)
	}
	for _, conn := range idle {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(rdmatest.Deadline(patience))))
		_, err := conn.Read(make([]byte, 1))
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Error(t, err)
	}
	status, _, stderr := weft(t, "send", "--rail", "fabric:tcp", path, address)
	require.Zero(t, status, stderr)
	requireSame(t, to, path)
}
