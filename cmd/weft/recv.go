package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftrdma/weft/cmd/weft/internal/filetransfer"
	"github.com/weftrdma/weft/cmd/weft/internal/inbox"
)

// recvOptions are the flags of recv.
type recvOptions struct {
	rail, listen, dir string
	once, force       bool
	window            int
}

func (a *app) recvCommand() *cobra.Command {
	var o recvOptions
	c := &cobra.Command{
		Use:   "recv --dir DIR [flags]",
		Short: "Receive files into a folder",
		Long: `Receive files into a folder from every weft send that connects, several at a
time, until it is stopped by SIGINT or SIGTERM.

Nobody is asked who he is: whoever can connect to the TCP address, which is on
loopback unless --listen says otherwise, can put files into the folder. He can
put them nowhere else, whatever their names are: names that lead out of the
folder or through a link are refused, and so are those that exist, unless --force
lets regular files be replaced. Until a file is whole and its SHA-256 compared
it has a random name beginning with .weft-; a receiver that is killed leaves
those behind, and nothing else.

With --json each sender's result is one object on a line: rail, peer, files
(name, bytes, sha256, error), seconds, bytes_per_second, control_bytes (over TCP,
both ways), rdma_bytes (by the rail), and error if it ended early.

Exit status: 0 when it was stopped, or with --once when all files of the one
sender are in place; 1 when it could not serve, or with --once when a file is
not in place; 2 when the command line was wrong.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.recv(cmd.Context(), o) },
	}
	c.Flags().StringVar(&o.rail, "rail", "verbs", railHelp)
	c.Flags().StringVar(&o.listen, "listen", "127.0.0.1:7471", "the TCP `address` for senders")
	c.Flags().StringVar(&o.dir, "dir", "", "the `folder`, which must exist")
	c.Flags().BoolVar(&o.once, "once", false, "end after one sender")
	c.Flags().BoolVar(&o.force, "force", false, "replace files that exist")
	c.Flags().IntVar(&o.window, "window", filetransfer.DefaultWindow, "memory for each sender in `bytes`; files may be larger")
	return c
}

func (o recvOptions) validate() error {
	switch {
	case o.dir == "":
		return &usageError{errors.New("recv needs --dir")}
	case o.window < filetransfer.MinWindow || o.window > filetransfer.MaxWindow:
		return &usageError{fmt.Errorf("--window %d: from %d to %d bytes are possible", o.window, filetransfer.MinWindow,
			filetransfer.MaxWindow)}
	}
	return checkRail(o.rail)
}

func (a *app) recv(ctx context.Context, o recvOptions) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	box, err := inbox.Open(o.dir, o.force)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return &usageError{fmt.Errorf("--listen %s: %w", o.listen, err)}
	}
	engine, rail, err := a.openEngine(o.rail, host)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	listener, err := listen(ctx, o.listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "weft: listening on %v; %s receives into %s\n", listener.Addr(), rail, o.dir)

	var reports sync.Mutex
	failed := false
	receiver := filetransfer.Receiver{
		Engine: engine, Window: o.window, Once: o.once,
		Create: func(name string, mode fs.FileMode) (filetransfer.File, error) { return box.Create(name, mode) },
		Served: func(report filetransfer.Report, err error) {
			reports.Lock()
			defer reports.Unlock()
			if a.reportTransfer(newTransferResult(rail, report, err)) != nil {
				failed = true
			}
		},
	}
	err = receiver.Serve(ctx, listener)
	a.shutDown(engine.Shutdown)
	switch {
	case ctx.Err() != nil:
		return nil // stopped, which is how it ends
	case o.once && failed:
		return errReported
	}
	return err
}

// shutDown takes leave of peers, for a moment at most.
func (a *app) shutDown(shutdown func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = shutdown(ctx) // what is cut off is of senders that have gone
}
