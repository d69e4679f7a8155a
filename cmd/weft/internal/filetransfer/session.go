package filetransfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
	"github.com/weftrdma/weft/transferengine"
)

// session is one end of a transfer. Its context ends when the transfer has to, and the cause says why.
type session struct {
	conn     *wire.Conn
	timeouts Timeouts
	ctx      context.Context
	cancel   context.CancelCauseFunc
	messages chan wire.Message // of the other end
	deaf     chan struct{}     // closed when nothing more can come from the other end

	goroutines sync.WaitGroup

	began time.Time
	alive atomic.Int64 // when the other end said last that it works, or this one was at work that it waits for, in ns after began
}

// errGone are causes that are the other end's: there is nobody to tell them to.
type errGone struct{ err error }

func (e *errGone) Error() string { return e.err.Error() }
func (e *errGone) Unwrap() error { return e.err }

// newSession makes a session that nobody listens to yet: see greet.go. It must be closed.
func newSession(ctx context.Context, conn net.Conn, timeouts Timeouts) *session {
	s := &session{conn: wire.NewConn(conn, timeouts.Handshake), timeouts: timeouts, messages: make(chan wire.Message),
		deaf: make(chan struct{}), began: time.Now()}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s
}

// start begins to listen to the other end.
func (s *session) start() { s.goroutines.Go(s.listen) }

// close ends the connection and the goroutines.
func (s *session) close() {
	s.cancel(net.ErrClosed)
	_ = s.conn.Close() // nothing is left to be sent
	s.goroutines.Wait()
}

// other names the other end.
func (s *session) other() string { return s.conn.RemoteAddr().String() }

// listen receives messages until the connection ends. Once the session's context has ended they are dropped.
func (s *session) listen() {
	defer close(s.deaf)
	for {
		m, err := s.conn.Receive()
		abort, _ := m.(*wire.Abort)
		switch {
		case err != nil:
			s.cancel(lost(err))
			return
		case abort != nil:
			s.cancel(gaveUp(abort))
		case isAlive(m):
			s.alive.Store(int64(time.Since(s.began)))
		default:
			select {
			case s.messages <- m:
			case <-s.ctx.Done():
			}
		}
	}
}

// errLost are causes that lie with the connection: another one may do.
type errLost struct{ error }

func (e *errLost) Unwrap() error { return e.error }

// lost is the error of a session whose connection gave an error.
func lost(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return &errGone{&errLost{errors.New("it closed the connection before the end")}}
	case wire.Lost(err):
		return &errGone{&errLost{fmt.Errorf("the connection is lost: %w", inWords(err))}}
	}
	return err
}

// gaveUp is the error of a session that the other end has given up.
func gaveUp(m *wire.Abort) error {
	return &errGone{fmt.Errorf("it gave up: %s", wire.Printable(m.Text))}
}

// watch ends the session when the engine loses the peer, unless the other end has something to say about it.
func (s *session) watch(peer *transferengine.Peer) {
	s.goroutines.Go(func() {
		select {
		case <-peer.Done():
			s.cancel(s.reason(peer.Err()))
		case <-s.ctx.Done():
		}
	})
}

// reason is why something failed that the engine did: what ended the session, if that is known within moments.
func (s *session) reason(err error) error {
	select {
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	case <-time.After(grace):
		return inWords(err)
	}
}

func (s *session) idle(limit time.Duration) error {
	return fmt.Errorf("nothing came from it for %v: it is stuck, or a firewall keeps this host from its data port", limit)
}

// receive waits for a message of the other end.
func (s *session) receive(limit time.Duration) (wire.Message, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case m := <-s.messages:
		return m, nil
	case <-s.ctx.Done():
		return nil, context.Cause(s.ctx)
	case <-timer.C:
		return nil, s.idle(limit)
	}
}

// failure is an error with what this end was doing, which the other end knows for itself.
type failure struct {
	doing string
	err   error
}

func (e *failure) Error() string { return e.doing + ": " + e.err.Error() }
func (e *failure) Unwrap() error { return e.err }

// fail adds to an error what this end was doing.
func fail(err error, doing string, args ...any) error {
	return &failure{doing: fmt.Sprintf(doing, args...), err: err}
}

// giveUp tells the other end why the session ends, unless that is its own doing.
func (s *session) giveUp(err error) {
	var gone *errGone
	if !errors.As(err, &gone) {
		text := err
		if f := (*failure)(nil); errors.As(err, &f) {
			text = f.err
		}
		_ = s.conn.Send(&wire.Abort{Text: wire.Text(text)}) // if it cannot hear, it will see the connection end
	}
	s.cancel(err)
}
