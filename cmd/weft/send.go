package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/weftrdma/weft/cmd/weft/internal/filetransfer"
)

// sendOptions are the flags and arguments of send.
type sendOptions struct {
	rail     string
	keyFile  string
	relative bool
	files    []string
	to       string
}

func (a *app) sendCommand() *cobra.Command {
	var o sendOptions
	c := &cobra.Command{
		Use:   "send [flags] FILE… HOST:PORT",
		Short: "Send files to a receiver",
		Long: `Send files to a weft recv that listens on HOST:PORT.

Addresses, names, sizes and hashes go over TCP to HOST:PORT; all bytes of the
files go by the rail. The receiver compares the SHA-256 of what arrived with that of
what was sent before a file gets its name. Files arrive under the last element
of their path, or with --relative under the path as it was given.

With --json the result is one object: rail, peer, files (name, bytes, sha256,
error), seconds, bytes_per_second, control_bytes (over TCP, both ways) and
rdma_bytes (by the
rail). Both ends need rails of one kind, and of libfabric the same provider.

Exit status: 0 when every file is in place with its hash compared; 1 when one is
not, and standard error says why; 2 when the command line was wrong.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.files, o.to = args[:len(args)-1], args[len(args)-1]
			return a.send(cmd.Context(), o)
		},
	}
	c.Flags().StringVar(&o.rail, "rail", "verbs", railHelp)
	c.Flags().StringVar(&o.keyFile, "key-file", "", "a `file` with the receiver's key")
	c.Flags().BoolVar(&o.relative, "relative", false, "keep the folders of the paths, which must lead below this one")
	return c
}

func (a *app) send(ctx context.Context, o sendOptions) (err error) {
	if _, _, err := net.SplitHostPort(o.to); err != nil {
		return &usageError{fmt.Errorf("the last argument is the receiver, HOST:PORT: %w", err)}
	}
	if err := checkRail(o.rail); err != nil {
		return err
	}
	key, err := a.readKey(o.keyFile)
	if err != nil {
		return err
	}
	files, err := filetransfer.Sources(o.files, o.relative)
	if err != nil {
		return err
	}
	host, err := hostTowards(o.to)
	if err != nil {
		return err
	}
	engine, rail, err := a.openEngine(o.rail, place{local: host})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	conn, err := dial(ctx, o.to)
	if err != nil {
		return err
	}
	progress := a.newProgress(files)
	sender := filetransfer.Sender{Engine: engine, Key: key, Progress: progress.moved,
		Redial: func(ctx context.Context) (net.Conn, error) { return dial(ctx, o.to) },
		Waiting: func(place int) {
			fmt.Fprintf(a.stderr, "weft: all seats of %s are taken; place %d in line\n", o.to, place)
		}}
	report, err := sender.Send(ctx, conn, files)
	progress.end()
	return a.reportTransfer(newTransferResult(rail, report, err))
}
