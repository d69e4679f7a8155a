package filetransfer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/cmd/weft/internal/filetransfer"
	"github.com/weftrdma/weft/cmd/weft/internal/inbox"
	"github.com/weftrdma/weft/cmd/weft/internal/wire"
	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/simrail"
)

// stuckFile is a file that takes a first chunk, says so, and then nothing until it is released.
type stuckFile struct {
	filetransfer.File
	reached chan struct{}
	release func()          // may be called again
	wait    <-chan struct{} // until it was
}

func (f *stuckFile) Write(p []byte) (int, error) {
	select {
	case f.reached <- struct{}{}:
	default:
	}
	<-f.wait
	return f.File.Write(p)
}

// discard is a File that keeps nothing.
type discard struct{ io.Writer }

func (discard) Hole(int64) error { return nil }
func (discard) Publish() error   { return nil }
func (discard) Discard() error   { return nil }
func (discard) Suspend() error   { return nil }

// stuck has a receiver in the middle of a file of a sender.
func stuck(t *testing.T, r *filetransfer.Receiver, s filetransfer.Sender) (end *receiverEnd, conn net.Conn, f *stuckFile, sent chan error) {
	t.Helper()
	released, release := context.WithCancel(context.Background())
	f = &stuckFile{File: discard{io.Discard}, reached: make(chan struct{}, 1), release: release, wait: released.Done()}
	r.Window, r.Once = window, true
	r.Folder = folder{create: func(inbox.Entry) (filetransfer.File, error) { return f, nil }}
	end = receive(t, newNetwork(t, simrail.Script{}), r)
	t.Cleanup(release)
	s.Engine = openEngine(t, end.network, "sender")
	conn = end.dial()
	file := source(t, "file", 20*window)
	sent = make(chan error, 1)
	go func() {
		_, err := s.Send(rdmatest.Context(t, patience), conn, []filetransfer.Source{file})
		sent <- err
	}()
	select {
	case <-f.reached:
	case err := <-sent:
		require.FailNow(t, "the transfer ended before its middle", "%v", err)
	}
	return end, conn, f, sent
}

// TestConnectionLost cuts the TCP connection, as the kernel does for a process that was killed.
func TestConnectionLost(t *testing.T) {
	end, conn, f, sent := stuck(t, new(filetransfer.Receiver), filetransfer.Sender{})
	require.NoError(t, conn.Close())
	f.release()
	require.ErrorContains(t, <-sent, fmt.Sprintf(`send to %s: the connection is lost`, end.address))
	require.ErrorContains(t, end.result(), fmt.Sprintf(`receive from %s: it closed the connection before the end`,
		conn.LocalAddr()))
}

// TestHostGone takes one end off the network while its TCP connection stays silent, as when a host is switched off.
func TestHostGone(t *testing.T) {
	for _, gone := range []string{"sender", "receiver"} {
		end, conn, f, sent := stuck(t, new(filetransfer.Receiver), filetransfer.Sender{})
		end.network.Kill(gone)
		if gone == "receiver" {
			err := <-sent
			require.ErrorContains(t, err, fmt.Sprintf(`send to %s: `, end.address))
			require.ErrorContains(t, err, "peer is gone")
		}
		f.release()
		err := end.result()
		if gone == "sender" {
			require.ErrorContains(t, err, fmt.Sprintf(`receive from %s: `, conn.LocalAddr()))
			require.ErrorContains(t, err, "peer is gone")
			require.Error(t, <-sent)
		}
	}
}

// TestStopped: a receiver that is stopped tells its senders, and a sender its receiver.
func TestStopped(t *testing.T) {
	end, _, f, sent := stuck(t, new(filetransfer.Receiver), filetransfer.Sender{})
	end.stop(errors.New("terminated"))
	f.release()
	require.EqualError(t, <-sent, fmt.Sprintf(`send to %s: it gave up: terminated`, end.address))
	require.ErrorContains(t, end.result(), "terminated")
}

// TestNoProgress: neither end waits for ever for one that is alive and does nothing.
func TestNoProgress(t *testing.T) {
	short := filetransfer.Timeouts{Idle: time.Second} // a busy machine makes progress within it
	end, _, f, sent := stuck(t, new(filetransfer.Receiver), filetransfer.Sender{Timeouts: short})
	require.ErrorContains(t, <-sent, fmt.Sprintf(`send to %s: `, end.address))
	f.release()
	require.ErrorContains(t, end.result(), "nothing came from it for 1s")
}

// greet is a sender that got as far as being welcome, and connected.
func greet(t *testing.T, end *receiverEnd, name string) (*wire.Conn, *transferengine.Peer) {
	t.Helper()
	engine := openEngine(t, end.network, name)
	memory, err := mem.Map(1)
	require.NoError(t, err)
	region, err := engine.Register(memory.Bytes(), transferengine.RemoteWrite)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, region.Close())
		require.NoError(t, memory.Close())
	})
	conn := wire.NewConn(end.dial(), patience)
	t.Cleanup(func() { _ = conn.Close() })
	introduce(t, conn)
	require.NoError(t, conn.Send(request(t, engine, region)))
	welcome := afterWaiting(t, conn)
	require.IsType(t, &wire.Welcome{}, welcome)
	var receiver transferengine.Address
	require.NoError(t, receiver.UnmarshalBinary(welcome.(*wire.Welcome).Engine))
	peer, err := engine.Connect(rdmatest.Context(t, patience), receiver)
	require.NoError(t, err)
	return conn, peer
}

// afterWaiting is the next message that is not about a place in line.
func afterWaiting(t *testing.T, conn *wire.Conn) wire.Message {
	t.Helper()
	for {
		m, err := conn.Receive()
		require.NoError(t, err)
		if _, ok := m.(*wire.Wait); !ok {
			return m
		}
	}
}

// introduce is a sender that has a key, or none, and said so.
func introduce(t *testing.T, conn *wire.Conn, key ...byte) {
	t.Helper()
	require.NoError(t, conn.Send(&wire.Hello{Nonce: wire.NewNonce(), Keyed: len(key) > 0}))
	m, err := conn.Receive()
	require.NoError(t, err)
	require.IsType(t, &wire.Challenge{}, m)
	require.NoError(t, conn.Authenticate(key, true))
}

func request(t *testing.T, engine *transferengine.Engine, region *transferengine.Region) *wire.Request {
	t.Helper()
	address, err := engine.Address().MarshalBinary()
	require.NoError(t, err)
	descriptor, err := region.Descriptor().MarshalBinary()
	require.NoError(t, err)
	return &wire.Request{Engine: address, Credits: descriptor}
}

// requireAbort wants the other end to give up with the text, and then to close the connection.
func requireAbort(t *testing.T, conn *wire.Conn, text string) {
	t.Helper()
	m := afterWaiting(t, conn)
	require.IsType(t, &wire.Abort{}, m)
	require.Contains(t, m.(*wire.Abort).Text, text)
	require.NoError(t, conn.Close())
}

// TestUnexpectedMessages are those of a sender that does not keep to the protocol.
func TestUnexpectedMessages(t *testing.T) {
	end := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window,
		Timeouts: filetransfer.Timeouts{Idle: time.Second}}) // a busy machine says something within it
	many := make([]wire.Message, 1025)
	for i := range many {
		many[i] = &wire.File{Name: fmt.Sprint(i), Size: 1}
	}
	for i, c := range []struct {
		messages []wire.Message
		text     string
	}{
		{[]wire.Message{&wire.Accept{}}, `it sent "accept" where "file" was due`},
		{[]wire.Message{&wire.File{Name: "a", Size: 1}, &wire.End{}}, "it said that it was done, and owes 1 files"},
		{many, "it announces more than 1024 files ahead"},
		{[]wire.Message{&wire.File{Name: "a", Size: wire.MaxSize}}, "nothing came from it for 1s"},
		{nil, "nothing came from it for 1s"},
	} {
		conn, _ := greet(t, end, fmt.Sprintf("sender %d", i))
		for _, m := range c.messages {
			require.NoError(t, conn.Queue(m))
		}
		require.NoError(t, conn.Flush())
		m := afterWaiting(t, conn)
		for ; wire.NameOf(m) == "accept"; m = afterWaiting(t, conn) {
		}
		require.IsType(t, &wire.Abort{}, m)
		require.Contains(t, m.(*wire.Abort).Text, c.text)
		require.NoError(t, conn.Close())
	}
	end.requireFiles(0)
}

// TestStrangers are connections that never become a transfer; a receiver that serves one sender goes on waiting for it.
func TestStrangers(t *testing.T) {
	end := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Once: true})
	conn := end.dial()
	_, err := io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n")
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, conn) // until it is closed
	require.NoError(t, conn.Close())

	engine := openEngine(t, end.network, "stranger")
	memory := make([]byte, 1)
	region, err := engine.Register(memory, transferengine.RemoteWrite)
	require.NoError(t, err)
	good := request(t, engine, region)
	require.NoError(t, region.Close())
	for _, c := range []struct {
		message wire.Message
		text    string
	}{
		{&wire.End{}, `it sent "end" where "request" was due`},
		{&wire.Request{Engine: []byte("x"), Credits: good.Credits}, "address: 1 bytes are too few"},
		{&wire.Request{Engine: good.Engine, Credits: good.Engine}, "descriptor: starts with"},
	} {
		conn := wire.NewConn(end.dial(), patience)
		introduce(t, conn)
		require.NoError(t, conn.Send(c.message))
		requireAbort(t, conn, c.text)
	}
	f := source(t, "file", 10)
	report, err := end.send("sender", f)
	require.NoError(t, err)
	end.requireArrived(report, f)
	require.NoError(t, end.result())
}

// TestOneTransferPerEngine: a second transfer would take the first one's immediates.
func TestOneTransferPerEngine(t *testing.T) {
	end := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window})
	engine := openEngine(t, end.network, "sender")
	memory := make([]byte, 1)
	region, err := engine.Register(memory, transferengine.RemoteWrite)
	require.NoError(t, err)
	defer region.Close()
	first, second := wire.NewConn(end.dial(), patience), wire.NewConn(end.dial(), patience)
	introduce(t, first)
	require.NoError(t, first.Send(request(t, engine, region)))
	m, err := first.Receive()
	require.NoError(t, err)
	require.IsType(t, &wire.Welcome{}, m)
	introduce(t, second)
	require.NoError(t, second.Send(request(t, engine, region)))
	requireAbort(t, second, "the engine sends already")
	require.NoError(t, first.Close())
}

// TestHostileReceiver answers a sender with what it must not accept.
func TestHostileReceiver(t *testing.T) {
	n := newNetwork(t, simrail.Script{})
	engine := openEngine(t, n, "receiver")
	memory := make([]byte, slot)
	region, err := engine.Register(memory, transferengine.RemoteWrite)
	require.NoError(t, err)
	defer region.Close()
	own := request(t, engine, region)
	memory1, err := mem.Map((1<<16 + 1) * slot)
	require.NoError(t, err)
	many, err := engine.Register(memory1.Bytes(), transferengine.RemoteWrite)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, many.Close())
		require.NoError(t, memory1.Close())
	}()
	for i, c := range []struct {
		answer wire.Message
		text   string
	}{
		{&wire.Answer{}, `it sent "answer" where "welcome" was due`},
		{&wire.Abort{Text: "no \x1b[31mroom"}, `it gave up: "no \x1b[31mroom"`},
		{&wire.Welcome{Engine: own.Engine, Window: own.Credits, SlotSize: slot, Slots: 2}, "it offers 2 slots of 4096 bytes in a window of 4096"},
		{&wire.Welcome{Engine: own.Engine, Window: own.Credits, SlotSize: 1 << 31, Slots: 1 << 31}, "it offers 2147483648 slots"},
		{&wire.Welcome{Engine: own.Engine, Window: own.Credits, SlotSize: 1, Slots: slot}, "it offers 4096 slots of 1 bytes"},
		{&wire.Welcome{Engine: own.Engine, Window: request(t, engine, many).Credits, SlotSize: slot, Slots: 1<<16 + 1}, "it offers 65537 slots of 4096 bytes"},
		{&wire.Welcome{Engine: own.Credits, Window: own.Credits, SlotSize: slot, Slots: 1}, "address: starts with"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c1 := wire.NewConn(conn, patience)
			_, _ = c1.Receive()
			_ = c1.Send(&wire.Challenge{})
			_, _ = c1.Receive()
			_ = c1.Send(c.answer)
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}()
		conn, err := net.DialTimeout("tcp", l.Addr().String(), patience)
		require.NoError(t, err)
		s := filetransfer.Sender{Engine: openEngine(t, n, fmt.Sprintf("sender %d", i))}
		_, err = s.Send(rdmatest.Context(t, patience), conn, nil)
		require.ErrorContains(t, err, "connect to "+l.Addr().String())
		require.ErrorContains(t, err, c.text)
		require.NoError(t, l.Close())
	}
}

// TestSilentReceiver takes the connection and says nothing.
func TestSilentReceiver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	conn, err := net.DialTimeout("tcp", l.Addr().String(), patience)
	require.NoError(t, err)
	s := filetransfer.Sender{Engine: openEngine(t, newNetwork(t, simrail.Script{}), "sender"),
		Timeouts: filetransfer.Timeouts{Handshake: 50 * time.Millisecond}}
	_, err = s.Send(rdmatest.Context(t, patience), conn, nil)
	require.EqualError(t, err, fmt.Sprintf("connect to %s: it said nothing in time", l.Addr()))
}

// TestSenderCancelled: the receiver is told why.
func TestSenderCancelled(t *testing.T) {
	end := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Once: true})
	ctx, cancel := context.WithCancelCause(rdmatest.Context(t, patience))
	defer cancel(nil)
	s := filetransfer.Sender{Engine: openEngine(t, end.network, "sender"), Progress: func(string, int64) { cancel(errors.New("interrupted")) }}
	_, err := s.Send(ctx, end.dial(), []filetransfer.Source{source(t, "file", 20*window)})
	require.EqualError(t, err, fmt.Sprintf(`send to %s: interrupted`, end.address))
	require.ErrorContains(t, end.result(), "it gave up: interrupted")
	end.requireFiles(0)
}
