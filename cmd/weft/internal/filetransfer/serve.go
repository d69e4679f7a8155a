package filetransfer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
)

const (
	// DefaultSeats is how many senders are served at a time, and MaxSeats how many can be.
	DefaultSeats = 8
	MaxSeats     = 1024
)

// Receiver says how to receive files. It must not be copied once it serves.
type Receiver struct {
	// Engine carries the bytes.
	Engine *transferengine.Engine
	// Folder takes the files.
	Folder Folder
	// MaxFiles and MaxBytes are how many files, folders among them, and bytes of files one sender may leave; zero is no limit.
	MaxFiles int
	MaxBytes uint64
	// Window is the memory for each sender in bytes, from MinWindow to MaxWindow; zero is DefaultWindow.
	Window int
	// Seats is how many senders are served at a time, at most MaxSeats; zero is DefaultSeats. Others wait in line.
	Seats int
	// Key is the key that senders must have, of at least [wire.MinKey] bytes; empty lets everybody send.
	Key []byte
	// Reachable says whether this receiver serves a sender's engine, given where its request came from; nil is always.
	// The error is told to the sender.
	Reachable func(from net.Addr, engine transferengine.Address) error
	// Once ends Serve after one sender.
	Once bool
	// Timeouts bound how long senders are waited for.
	Timeouts Timeouts
	// Progress is told each time bytes of a file arrived, with the size that was announced (wire.UnknownSize if none was),
	// Received what became of each file, Served of each transfer, and TurnedAway of each connection that did not become
	// one; nil for none. They may be called by several goroutines at a time.
	Progress   func(peer, file string, size uint64, bytes int64)
	Received   func(peer string, file FileReport)
	Served     func(Report, error)
	TurnedAway func(peer string, err error)

	expecting sync.WaitGroup // waits for engines

	mu      sync.Mutex
	claimed map[rail.Incarnation]chan struct{} // engines of senders, until they are released
	seats   *seats                             // while it serves
}

func (r *Receiver) validate() error {
	switch {
	case r.Window != 0 && (r.Window < MinWindow || r.Window > MaxWindow):
		return fmt.Errorf("a window of %d bytes, not %d to %d: %w", r.Window, MinWindow, MaxWindow, syscall.EINVAL)
	case r.Seats < 0 || r.Seats > MaxSeats:
		return fmt.Errorf("%d seats, not 1 to %d: %w", r.Seats, MaxSeats, syscall.EINVAL)
	case len(r.Key) > 0 && len(r.Key) < wire.MinKey:
		return fmt.Errorf("a key of %d bytes, less than %d: %w", len(r.Key), wire.MinKey, syscall.EINVAL)
	}
	return nil
}

func (r *Receiver) window() int {
	if r.Window == 0 {
		return DefaultWindow
	}
	return r.Window
}

// errServed ends a receiver that serves one sender.
var errServed = errors.New("the receiver takes one sender, and has served it")

// serving is a Receiver at work.
type serving struct {
	*Receiver
	door door
	ctx  context.Context
	stop context.CancelCauseFunc

	only error // what became of the one sender, with Once
}

// Serve serves senders that connect to the listener until the context ends, or with Once until one was served, whose error
// it then returns. It closes the listener. Transfers that are under way when the context ends are given up.
func (r *Receiver) Serve(ctx context.Context, listener net.Listener) error {
	defer listener.Close()
	if err := r.validate(); err != nil {
		return err
	}
	seats := r.Seats
	switch {
	case r.Once:
		seats = 1
	case seats == 0:
		seats = DefaultSeats
	}
	atDoor, inLine := room(descriptors(), seats)
	s := &serving{Receiver: r, door: door{places: atDoor}}
	r.mu.Lock()
	r.seats = newSeats(seats, inLine)
	r.mu.Unlock()
	s.ctx, s.stop = context.WithCancelCause(ctx)
	defer s.stop(nil)
	defer context.AfterFunc(s.ctx, func() { _ = listener.Close() })()
	var goroutines sync.WaitGroup
	var failed error
	for {
		conn, err := accept(s.ctx, listener)
		if conn == nil {
			failed = err
			break
		}
		g := s.door.enter(conn)
		goroutines.Go(func() { s.meet(g) })
	}
	s.stop(failed)
	goroutines.Wait()
	r.expecting.Wait()
	return errors.Join(failed, s.only)
}

// How long no connection is accepted when the process, or the machine, has no descriptor or memory for one.
const (
	firstBackOff = 5 * time.Millisecond
	mostBackOff  = time.Second
)

// accept waits for a connection. It returns none, and no error, once the context has ended.
func accept(ctx context.Context, listener net.Listener) (net.Conn, error) {
	backOff := firstBackOff
	for {
		conn, err := listener.Accept()
		switch {
		case err == nil:
			return conn, nil
		case ctx.Err() != nil:
			return nil, nil
		case isOf(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM):
			// What is open now will be closed: go on then.
			select {
			case <-time.After(backOff):
			case <-ctx.Done():
				return nil, nil
			}
			backOff = min(2*backOff, mostBackOff)
		case !isOf(err, syscall.ECONNABORTED, syscall.EPROTO, syscall.EPERM): // the client's doing, or a firewall's
			return nil, fmt.Errorf("accept senders: %w", err)
		}
	}
}

func isOf(err error, numbers ...syscall.Errno) bool {
	for _, n := range numbers {
		if errors.Is(err, n) {
			return true
		}
	}
	return false
}

// meet is one connection, from the door to the end of its transfer.
func (s *serving) meet(g *guest) {
	timeouts := s.Timeouts.withDefaults()
	session := newSession(s.ctx, g.conn, timeouts)
	defer session.close()
	request, err := session.admit(s.Key, time.Now().Add(timeouts.Greeting))
	if there := s.door.leave(g); err == nil && !there {
		err = &errGone{errors.New("it gave way to others at the door")}
	}
	if err != nil {
		s.turnAway(session, err)
		return
	}
	session.start()
	w, err := s.seats.enter(g.host, session.cancel)
	if err != nil {
		s.turnAway(session, err)
		return
	}
	defer s.seats.leave(w)
	if err := session.wait(w, s.seats); err != nil {
		s.turnAway(session, err)
		return
	}
	s.serve(session, w, request)
}

// turnAway gives up a connection that did not become a transfer.
func (s *serving) turnAway(session *session, err error) {
	session.giveUp(err)
	if s.TurnedAway != nil && s.ctx.Err() == nil {
		s.TurnedAway(session.other(), err)
	}
}

// serve serves a sender that has a seat.
func (s *serving) serve(session *session, seat *waiter, request *wire.Request) {
	report := Report{Peer: session.other()}
	r := &receiving{session: session, seat: seat, receiver: s.Receiver, serving: s.ctx, parted: make(chan struct{}), report: &report}
	defer r.part()
	if err := r.welcome(request); err != nil {
		s.turnAway(session, fail(err, "welcome %s", session.other()))
		return
	}
	start := time.Now()
	err := r.receiveAll()
	report.Seconds = time.Since(start).Seconds()
	if err != nil {
		r.giveUp(err)
		r.outlast()
	}
	err = errors.Join(err, r.part())
	report.ControlBytes = r.conn.Bytes()
	if s.Served != nil {
		s.Served(report, err)
	}
	if s.Once {
		s.only = err // there is one seat, and nobody has it after this sender
		s.stop(errServed)
	}
}

// outlast waits until the sender has ended its writes, which it shows by closing the connection.
func (s *receiving) outlast() {
	select {
	case <-s.deaf:
	case <-time.After(shutdownTimeout + grace):
	}
}

// part gives the peer up, and then takes the window away: the sender keeps nothing here after its transfer. It may be called
// again.
func (s *receiving) part() (err error) {
	if s.hasParted {
		return nil
	}
	s.hasParted = true
	defer close(s.parted)
	if err = giveUpPeer(s.peer); s.window != nil {
		err = errors.Join(err, s.window.close())
	}
	return err
}
