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
	"github.com/weftrdma/weft/cmd/weft/internal/wire"
)

// recvOptions are the flags of recv.
type recvOptions struct {
	rail, listen, dir, keyFile string
	advertise                  string
	once, force, open, anyHost bool
	resume                     bool
	seats, dataPort, maxFiles  int
	window, maxBytes           bytesValue
}

func (a *app) recvCommand() *cobra.Command {
	var o recvOptions
	c := &cobra.Command{
		Use:   "recv --dir DIR [flags]",
		Short: "Receive files into a folder",
		Long: `Receive files into a folder from every weft send that connects, several at a
time, until it is stopped by Ctrl-C, SIGTERM or the end of its terminal. Senders for whom there is no seat
wait in line.

With --key-file only senders that have the same key are served; make one by
"openssl rand -base64 32 > weft.key". Without a key there is no authentication:
everybody who can connect can put files into the folder. So recv then listens on
the loopback alone, unless --open says that this is meant.

Files land nowhere but in the folder, whatever their names are: names that lead
out of it or through a link are refused, and so are those that exist, unless
--force lets regular files be replaced. Until a file is whole and its SHA-256 compared
its name begins with .weft-; what a receiver leaves of such files that is killed is
removed by the next one. With --resume what arrived of a file that was interrupted is
kept, as .weft-part-…, and when the file is sent again only the rest of it is, if the
hash of what is there is right; what is never sent again stays until you remove it. --max-files and --max-bytes limit what one sender may leave.

With --json each sender's result is one object on a line: command, status, error (what
ended it early), rail, peer, total (files, failed, bytes), files (name, folder,
bytes, sha256, error, and name_base64 for a name that is not UTF-8; the first 100,000
that are in place and 1,000 that are not, with 16 MiB of names), seconds, bytes_per_second, control_bytes
(over TCP, both ways) and rdma_bytes (by the rail). If recv itself fails, a last
object says why.

Exit status: 0 when it was stopped while no transfer was under way, or with --once
when all files of the one sender are in place; 1 when it could not serve, or with
--once when a file is not in place; 2 when the command line was wrong; 128 and the
number of the signal when it was stopped in the middle of a transfer, or with --once
before there was one.`,
		Args:    cobra.NoArgs,
		PreRunE: checkKeyFile,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.recv(cmd.Context(), o) },
	}
	o.window = filetransfer.DefaultWindow
	c.Flags().StringVar(&o.rail, "rail", "auto", railHelp)
	c.Flags().StringVar(&o.listen, "listen", "127.0.0.1:7471", "the TCP `address` for senders")
	c.Flags().StringVar(&o.dir, "dir", "", "the `folder`, which must exist")
	c.Flags().StringVar(&o.keyFile, "key-file", "", "a `file` with the key that senders must have: 16 bytes or more")
	c.Flags().BoolVar(&o.open, "open", false, "without a key, serve everybody who can connect to --listen")
	c.Flags().BoolVar(&o.anyHost, "any-host", false, "serve a sender also where its engine is on another host than its request came from")
	c.Flags().IntVar(&o.seats, "seats", filetransfer.DefaultSeats, "how many `senders` are served at a time; others wait in line")
	c.Flags().IntVar(&o.dataPort, "data-port", 0, "the `port` that takes the files' bytes, of fabric:tcp; 0 is any that is free")
	c.Flags().StringVar(&o.advertise, "advertise", "", "the `address` and port that lead senders to --data-port, if it is not that of --listen: "+
		"in a container, or behind NAT")
	c.Flags().BoolVar(&o.once, "once", false, "end after one sender")
	c.Flags().BoolVar(&o.force, "force", false, "replace files that exist")
	c.Flags().BoolVar(&o.resume, "resume", false, "keep what arrived of files that were interrupted, and go on with it")
	c.Flags().Var(&o.maxBytes, "max-bytes", "how much one transfer may bring, such as 10GiB; 0 is no limit")
	c.Flags().IntVar(&o.maxFiles, "max-files", 0, "how many files and folders one transfer may bring; 0 is no limit")
	c.Flags().Var(&o.window, "window", "memory for each sender, with a key twice that; files may be larger")
	return c
}

func (o recvOptions) validate() error {
	switch {
	case o.dir == "":
		return &usageError{errors.New("recv needs --dir")}
	case o.window < filetransfer.MinWindow || o.window > filetransfer.MaxWindow:
		return &usageError{fmt.Errorf("--window %v: from 4KiB to 1GiB are possible", &o.window)}
	case o.maxFiles < 0:
		return &usageError{fmt.Errorf("--max-files %d is less than 0", o.maxFiles)}
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
	advertise, err := checkAdvertise(o.rail, o.advertise, o.dataPort)
	if err != nil {
		return err
	}
	key, err := a.readKey(o.keyFile)
	if err != nil {
		return err
	}
	box, err := inbox.Open(o.dir, inbox.Config{Replace: o.force, Resume: o.resume})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	listener, err := listen(ctx, address.String())
	if err != nil {
		return explainListen(o.listen, err)
	}
	defer listener.Close() // if it was not served
	at := place{local: address, dataPort: o.dataPort, advertise: advertise, onlyCalled: true}
	engine, rail, err := a.openEngine(o.rail, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	reach, err := newReach(engine.Address(), at, o.anyHost)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "weft: listening on %v; data %s; receives into %s\n", listener.Addr(), reach.where(rail), o.dir)
	away := turnedAway{out: a.stderr}
	served := a.newServed(ctx, rail)
	receiver := filetransfer.Receiver{
		Engine: engine, Window: int(o.window), Once: o.once, Seats: o.seats, Key: key, MaxFiles: o.maxFiles,
		MaxBytes: uint64(o.maxBytes), Reachable: reach.check, Folder: filetransfer.InboxFolder(box),
		TurnedAway: away.say, Progress: served.moved, Served: served.report,
	}
	err = receiver.Serve(ctx, listener)
	a.shutDown(engine.Shutdown)
	switch {
	case served.cutOff, o.once && served.failed:
		return errReported
	case ctx.Err() != nil && o.once && !served.any:
		return context.Cause(ctx)
	case ctx.Err() != nil:
		return nil // stopped, which is how it ends
	}
	return err
}

// served says what became of senders, and how far the file is that moved last.
type served struct {
	app  *app
	ctx  context.Context
	rail string

	mu     sync.Mutex
	meters map[string]*peerMeter
	any    bool // there was a sender
	failed bool // of one not every file is in place
	cutOff bool // the receiver was stopped in the middle of one
}

// peerMeter is the file that a sender is sending.
type peerMeter struct {
	*meter
	file string
	done int64
}

func (a *app) newServed(ctx context.Context, rail string) *served {
	return &served{app: a, ctx: ctx, rail: rail, meters: make(map[string]*peerMeter)}
}

// moved shows that bytes of a file have arrived.
func (s *served) moved(peer, file string, size uint64, bytes int64) {
	s.mu.Lock()
	m := s.meters[peer]
	if m == nil {
		m = &peerMeter{meter: s.app.newMeter(-1)}
		s.meters[peer] = m
	}
	if m.file != file {
		m.file, m.done = file, 0
	}
	m.done += bytes
	done := m.done
	s.mu.Unlock()
	total := int64(-1)
	if size != wire.UnknownSize {
		total = int64(size)
	}
	m.set(file, done, total, bytes)
}

// report says what became of a transfer.
func (s *served) report(report filetransfer.Report, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.meters, report.Peer)
	s.any = true
	s.cutOff = s.cutOff || err != nil && s.ctx.Err() != nil
	if s.app.reportTransfer("recv", s.rail, report, err, statusOf(s.ctx, err)) != nil {
		s.failed = true
	}
}

// shutDown takes leave of peers, for a moment at most.
func (a *app) shutDown(shutdown func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = shutdown(ctx) // what is cut off is of senders that have gone
}
