package filetransfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync"
	"syscall"

	"github.com/weftrdma/weft/transferengine"
)

// Receiver says how to receive files. It must not be copied once it serves.
type Receiver struct {
	// Engine carries the bytes.
	Engine *transferengine.Engine
	// Create begins a file; it defends itself against the names.
	Create func(name string, mode fs.FileMode) (File, error)
	// Window is the memory for each sender in bytes, from MinWindow to MaxWindow; zero is DefaultWindow.
	Window int
	// Senders is how many are served at a time; zero is 8. Others wait.
	Senders int
	// Once ends Serve after one sender.
	Once bool
	// Timeouts bound how long senders are waited for.
	Timeouts Timeouts
	// Received is told what became of each file, and Served of each transfer; nil for neither. They may be called by
	// several goroutines at a time.
	Received func(peer string, file FileReport)
	Served   func(Report, error)

	mu      sync.Mutex
	serving map[*transferengine.Peer]struct{}
}

func (r *Receiver) validate() error {
	switch {
	case r.Window != 0 && (r.Window < MinWindow || r.Window > MaxWindow):
		return fmt.Errorf("a window of %d bytes, not %d to %d: %w", r.Window, MinWindow, MaxWindow, syscall.EINVAL)
	case r.Senders < 0:
		return fmt.Errorf("%d senders at a time: %w", r.Senders, syscall.EINVAL)
	}
	return nil
}

func (r *Receiver) window() int {
	if r.Window == 0 {
		return DefaultWindow
	}
	return r.Window
}

// Serve serves senders that connect to the listener until the context ends, or with Once until one was served, whose error
// it then returns. It closes the listener. Transfers that are under way when the context ends are given up.
func (r *Receiver) Serve(ctx context.Context, listener net.Listener) error {
	defer listener.Close()
	if err := r.validate(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	if r.Once {
		return r.serveOne(ctx, listener)
	}
	senders := r.Senders
	if senders == 0 {
		senders = 8
	}
	room := make(chan struct{}, senders)
	var goroutines sync.WaitGroup
	defer goroutines.Wait()
	for {
		// Before a connection is accepted, so that connections cannot use up descriptors or memory.
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := accept(ctx, listener)
		if conn == nil {
			return err
		}
		goroutines.Go(func() {
			defer func() { <-room }()
			r.served(r.serve(ctx, conn))
		})
	}
}

// serveOne serves one connection after the other until one was a sender.
func (r *Receiver) serveOne(ctx context.Context, listener net.Listener) error {
	for {
		conn, err := accept(ctx, listener)
		if conn == nil {
			return err
		}
		report, err := r.serve(ctx, conn)
		r.served(report, err)
		if stranger := (*noSender)(nil); !errors.As(err, &stranger) {
			return err
		}
	}
}

// accept waits for a connection. It returns none, and no error, once the context has ended.
func accept(ctx context.Context, listener net.Listener) (net.Conn, error) {
	for {
		conn, err := listener.Accept()
		switch {
		case err == nil:
			return conn, nil
		case ctx.Err() != nil:
			return nil, nil
		case !errors.Is(err, syscall.ECONNABORTED): // the client's doing
			return nil, fmt.Errorf("accept senders: %w", err)
		}
	}
}

func (r *Receiver) served(report Report, err error) {
	if r.Served != nil {
		r.Served(report, err)
	}
}
