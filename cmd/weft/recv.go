package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftrdma/weft/cmd/weft/internal/filetransfer"
	"github.com/weftrdma/weft/cmd/weft/internal/inbox"
)

// recvOptions are the flags of recv.
type recvOptions struct {
	rail, listen, dir, keyFile string
	once, force, open, anyHost bool
	window, seats, dataPort    int
}

func (a *app) recvCommand() *cobra.Command {
	var o recvOptions
	c := &cobra.Command{
		Use:   "recv --dir DIR [flags]",
		Short: "Receive files into a folder",
		Long: `Receive files into a folder from every weft send that connects, several at a
time, until it is stopped by SIGINT or SIGTERM. Senders for whom there is no seat
wait in line.

With --key-file only senders that have the same key are served; make one by
"openssl rand -base64 32 > weft.key". Without a key there is no authentication:
everybody who can connect can put files into the folder. So recv then listens on
the loopback alone, unless --open says that this is meant.

Files land nowhere but in the folder, whatever their names are: names that lead
out of it or through a link are refused, and so are those that exist, unless
--force lets regular files be replaced. Until a file is whole and its SHA-256 compared
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
	c.Flags().StringVar(&o.keyFile, "key-file", "", "a `file` with the key that senders must have: 16 bytes or more")
	c.Flags().BoolVar(&o.open, "open", false, "without a key, serve everybody who can connect to --listen")
	c.Flags().BoolVar(&o.anyHost, "any-host", false, "connect to a sender's engine also where its request came from another host")
	c.Flags().IntVar(&o.seats, "seats", filetransfer.DefaultSeats, "how many `senders` are served at a time; others wait in line")
	c.Flags().IntVar(&o.dataPort, "data-port", 0, "the `port` that takes the files' bytes, of fabric:tcp; 0 is any that is free")
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
	case o.seats < 1 || o.seats > filetransfer.MaxSeats:
		return &usageError{fmt.Errorf("--seats %d: from 1 to %d are possible", o.seats, filetransfer.MaxSeats)}
	}
	if err := checkRail(o.rail); err != nil {
		return err
	}
	return checkDataPort(o.rail, o.dataPort)
}

// resolve returns the address of --listen, which must not be open to others by accident.
func (o recvOptions) resolve() (*net.TCPAddr, error) {
	address, err := net.ResolveTCPAddr("tcp", o.listen)
	switch {
	case err != nil:
		return nil, &usageError{fmt.Errorf("--listen %s: %w", o.listen, err)}
	case o.keyFile == "" && !o.open && !address.IP.IsLoopback():
		return nil, &usageError{fmt.Errorf("--listen %s would let everybody on that network put files into %s: give --key-file, "+
			"or --open if that is meant", o.listen, o.dir)}
	}
	return address, nil
}

func (a *app) recv(ctx context.Context, o recvOptions) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	address, err := o.resolve()
	if err != nil {
		return err
	}
	key, err := a.readKey(o.keyFile)
	if err != nil {
		return err
	}
	box, err := inbox.Open(o.dir, inbox.Config{Replace: o.force})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	engine, rail, err := a.openEngine(o.rail, place{local: address, dataPort: o.dataPort, onlyCalled: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	reach, err := newReach(engine.Address(), o.anyHost)
	if err != nil {
		return err
	}
	listener, err := listen(ctx, address.String())
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "weft: listening on %v; data %s; receives into %s\n", listener.Addr(), reach.where(rail), o.dir)

	var reports sync.Mutex
	failed := false
	away := turnedAway{out: a.stderr}
	receiver := filetransfer.Receiver{
		Engine: engine, Window: o.window, Once: o.once, Seats: o.seats, Key: key,
		Reachable: reach.check, TurnedAway: away.say,
		Folder: filetransfer.InboxFolder(box),
		Served: func(report filetransfer.Report, err error) {
			reports.Lock()
			defer reports.Unlock()
			if a.reportTransfer(newTransferResult(rail, report, err)) != nil {
				failed = true
			}
		},
	}
	err = serve(ctx, &receiver, reach, listener)
	a.shutDown(engine.Shutdown)
	switch {
	case ctx.Err() != nil:
		return nil // stopped, which is how it ends
	case o.once && failed:
		return errReported
	}
	return err
}

// serve serves senders, and looks after the data port meanwhile.
func serve(ctx context.Context, receiver *filetransfer.Receiver, reach *reach, listener net.Listener) error {
	looks, stop := context.WithCancel(ctx)
	defer stop()
	stopped, err := guardDataPort(looks, reach.listens, func(from net.Addr) bool { return reach.serves(from, receiver.Hosts()) })
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	err = receiver.Serve(ctx, listener)
	stop()
	<-stopped
	return err
}

// shutDown takes leave of peers, for a moment at most.
func (a *app) shutDown(shutdown func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = shutdown(ctx) // what is cut off is of senders that have gone
}
