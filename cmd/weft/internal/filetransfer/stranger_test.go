package filetransfer_test

import (
	"context"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/cmd/weft/internal/filetransfer"
	"github.com/weftrdma/weft/cmd/weft/internal/wire"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

// TestClosedBeforeAnAnswer: a sender whose connection a receiver closes without a word, as under a flood, comes again.
func TestClosedBeforeAnAnswer(t *testing.T) {
	end := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	dials := 0
	s := filetransfer.Sender{Engine: openEngine(t, end.network, "sender"), Redial: func(context.Context) (net.Conn, error) {
		if dials++; dials < 3 {
			return net.DialTimeout("tcp", l.Addr().String(), patience)
		}
		return end.dial(), nil
	}}
	first, err := net.DialTimeout("tcp", l.Addr().String(), patience)
	require.NoError(t, err)
	f := source(t, "file", 3*window)
	report, err := s.Send(rdmatest.Context(t, patience), first, []filetransfer.Source{f})
	require.NoError(t, err)
	require.Equal(t, 3, dials)
	end.requireArrived(report, f)
}

// TestSendersWaitInLine: one for whom there is no seat is told its place, and served when it is its turn.
func TestSendersWaitInLine(t *testing.T) {
	r := &filetransfer.Receiver{Window: window, Seats: 1}
	end := receive(t, newNetwork(t, simrail.Script{}), r)
	seated, _ := greet(t, end, "seated")
	places := make(chan int, 10)
	s := filetransfer.Sender{Engine: openEngine(t, end.network, "waits"), Waiting: func(place int) { places <- place }}
	f := source(t, "file", 3*window)
	type result struct {
		report filetransfer.Report
		err    error
	}
	sent := make(chan result, 1)
	go func() {
		report, err := s.Send(rdmatest.Context(t, patience), end.dial(), []filetransfer.Source{f})
		sent <- result{report, err}
	}()
	require.Equal(t, 1, <-places)
	select {
	case <-sent:
		require.FailNow(t, "it did not wait")
	default:
	}
	require.NoError(t, seated.Close())
	got := <-sent
	require.NoError(t, got.err)
	end.requireArrived(got.report, f)
}

// TestPeerKeepsNothingAfterItsTransfer: a sender that goes on living has no place in the receiver's engine any more.
func TestPeerKeepsNothingAfterItsTransfer(t *testing.T) {
	r := &filetransfer.Receiver{Window: window, Once: true}
	end := receive(t, newNetwork(t, simrail.Script{}), r)
	conn, receiver := greet(t, end, "sender")
	require.NoError(t, conn.Send(&wire.End{}))
	require.NoError(t, end.result())
	select {
	case <-receiver.Done():
		require.ErrorIs(t, receiver.Err(), rail.ErrPeerClosed)
	case <-rdmatest.Context(t, patience).Done():
		require.Fail(t, "the sender is a peer of the receiver's")
	}
	require.Empty(t, r.Engine.Peers())
}

// TestWhatTheNetworkAnswersIsNotTold: a sender whose engine cannot be reached learns that, when the time is over, and no more.
func TestWhatTheNetworkAnswersIsNotTold(t *testing.T) {
	const handshake = 300 * time.Millisecond
	n := newNetwork(t, simrail.Script{})
	end := receive(t, n, &filetransfer.Receiver{Window: window, Timeouts: filetransfer.Timeouts{Handshake: handshake,
		Greeting: patience}})
	answer := func(m *wire.Request) string {
		conn := wire.NewConn(end.dial(), patience)
		defer conn.Close()
		introduce(t, conn)
		start := time.Now()
		require.NoError(t, conn.Send(m))
		require.IsType(t, &wire.Welcome{}, afterWaiting(t, conn))
		m1, err := conn.Receive()
		require.NoError(t, err)
		require.IsType(t, &wire.Abort{}, m1)
		require.GreaterOrEqual(t, time.Since(start), handshake)
		return m1.(*wire.Abort).Text
	}
	engine := openEngine(t, n, "gone")
	region, err := engine.Register(make([]byte, 1), transferengine.RemoteWrite)
	require.NoError(t, err)
	m := request(t, engine, region)
	require.NoError(t, region.Close())
	n.Kill("gone")
	silent := answer(m)

	other := openEngine(t, n, "another") // which answers that it is not the one
	region, err = other.Register(make([]byte, 1), transferengine.RemoteWrite)
	require.NoError(t, err)
	m = request(t, other, region)
	require.NoError(t, region.Close())
	copy(m.Engine[16:32], make([]byte, 16)) // the incarnation, behind the header and the field's
	copy(m.Credits[16:32], make([]byte, 16))
	require.Equal(t, silent, answer(m))
	require.Contains(t, silent, "its engine did not connect within 300ms")
}

// TestSeatsThatAreNotUsed: a host that takes all seats and moves nothing does not keep another one out.
func TestSeatsThatAreNotUsed(t *testing.T) {
	end := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window, Seats: 2,
		Timeouts: filetransfer.Timeouts{Handshake: time.Second, Greeting: patience}})
	aborts := make(chan string, 2)
	for _, name := range []string{"hog 1", "hog 2"} {
		hog, _ := greet(t, end, name)
		require.NoError(t, hog.Send(&wire.File{Name: name, Size: 10})) // it has said something, and sends nothing
		go func() {
			for {
				m, err := hog.Receive()
				if err != nil {
					return
				}
				if abort, ok := m.(*wire.Abort); ok {
					aborts <- abort.Text
				}
			}
		}()
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: patience}
	conn, err := d.Dial("tcp", end.address)
	require.NoError(t, err)
	f := source(t, "file", 3*window)
	s := filetransfer.Sender{Engine: openEngine(t, end.network, "sender")}
	report, err := s.Send(rdmatest.Context(t, patience), conn, []filetransfer.Source{f})
	require.NoError(t, err)
	require.Empty(t, report.Files[0].Error)
	require.Equal(t, "it moved nothing for 1s while other hosts wait for a seat", <-aborts)
}

// TestGreetingIsBounded: what does not say who it is leaves, also when it says a byte now and then.
func TestGreetingIsBounded(t *testing.T) {
	const greeting = 200 * time.Millisecond
	end := receive(t, newNetwork(t, simrail.Script{}), &filetransfer.Receiver{Window: window,
		Timeouts: filetransfer.Timeouts{Greeting: greeting}})
	hello, err := wire.Encode(&wire.Hello{Nonce: wire.NewNonce()})
	require.NoError(t, err)
	for _, said := range [][]byte{nil, hello[:1], hello[:20], hello} {
		conn := end.dial()
		defer conn.Close()
		_, err := conn.Write(said)
		require.NoError(t, err)
		start := time.Now()
		require.NoError(t, conn.SetReadDeadline(start.Add(rdmatest.Deadline(5*time.Second))))
		_, err = io.Copy(io.Discard, conn)
		require.NoError(t, err, "after %d bytes it was kept", len(said))
	}
}

// brokenListener has the errors, and then the connections of another one.
type brokenListener struct {
	net.Listener
	errs []error
}

func (l *brokenListener) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
	}
	return l.Listener.Accept()
}

// TestOutOfDescriptors: a receiver that cannot accept now goes on, and one that never can says so.
func TestOutOfDescriptors(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &brokenListener{inner, []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED, syscall.ENOBUFS, syscall.ENOMEM}}
	n := newNetwork(t, simrail.Script{})
	r := &filetransfer.Receiver{Engine: openEngine(t, n, "receiver"), Window: window, Once: true}
	ended := make(chan error, 1)
	go func() { ended <- r.Serve(rdmatest.Context(t, patience), l) }()
	conn, err := net.DialTimeout("tcp", inner.Addr().String(), patience)
	require.NoError(t, err)
	s := filetransfer.Sender{Engine: openEngine(t, n, "sender")}
	_, err = s.Send(rdmatest.Context(t, patience), conn, nil)
	require.NoError(t, err)
	require.NoError(t, <-ended)

	inner, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r = &filetransfer.Receiver{Engine: openEngine(t, n, "another"), Window: window}
	require.ErrorIs(t, r.Serve(rdmatest.Context(t, patience), &brokenListener{inner, []error{syscall.EINVAL}}), syscall.EINVAL)
}
