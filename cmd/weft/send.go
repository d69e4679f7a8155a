package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weftrdma/weft/cmd/weft/internal/filetransfer"
	"github.com/weftrdma/weft/cmd/weft/internal/wire"
)

// stdinArgument stands for standard input in place of a file.
const stdinArgument = "-"

// sendOptions are the flags and arguments of send.
type sendOptions struct {
	rail     string
	keyFile  string
	name     string
	relative bool
	files    []string
	to       string
}

func (a *app) sendCommand() *cobra.Command {
	var o sendOptions
	c := &cobra.Command{
		Use:   "send [flags] FILE… HOST:PORT",
		Short: "Send files and folders to a receiver",
		Long: `Send files and folders to a weft recv that listens on HOST:PORT.

Folders are sent with all that is in them, but for links, pipes, sockets and
devices, which are named and left out. "-" is standard input; it arrives under the
name that --name gives. Times, permissions and holes of files come along.

Names, sizes and answers go over TCP to HOST:PORT; all bytes of the files go by the
rail, which must be of one kind at both ends. The receiver compares the SHA-256 of
what arrived with that of what was sent before a file gets its name. A file that
changes while it is sent does not arrive. One that cannot be sent, or that the
receiver refuses, does not keep others from arriving.

Files arrive under the last element of their path, or with --relative under the path
as it was given.

With --json the result is one object: command, status, error, rail, peer, total
(files, failed, bytes), files (name, folder, bytes, sha256, error, and name_base64
for a name that is not UTF-8), seconds, bytes_per_second, control_bytes (over TCP,
both ways) and rdma_bytes (by the rail).

Exit status: 0 when every file is in place with its hash compared; 1 when one is
not, and standard error says why; 2 when the command line was wrong; 130 after
Ctrl-C.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("name at least one file, and the receiver behind it: weft send FILE… HOST:PORT")
			}
			return nil
		},
		PreRunE: checkKeyFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.files, o.to = args[:len(args)-1], args[len(args)-1]
			if cmd.Flags().Changed("name") && !slices.Contains(o.files, stdinArgument) {
				return &usageError{fmt.Errorf("--name %s is for standard input, which is not sent: give %s for it", o.name, stdinArgument)}
			}
			return a.send(cmd.Context(), o)
		},
	}
	c.Flags().StringVar(&o.rail, "rail", "auto", railHelp)
	c.Flags().StringVar(&o.keyFile, "key-file", "", "a `file` with the receiver's key")
	c.Flags().StringVar(&o.name, "name", "stdin", "the `name` under which standard input arrives")
	c.Flags().BoolVar(&o.relative, "relative", false, "keep the folders of the paths, which must lead below this one")
	return c
}

// sources are the files to send.
func (a *app) sources(o sendOptions) ([]filetransfer.Source, error) {
	paths := slices.DeleteFunc(slices.Clone(o.files), func(path string) bool { return path == stdinArgument })
	sources, err := filetransfer.Sources(paths, o.relative)
	if err != nil {
		return nil, &usageError{err}
	}
	switch len(o.files) - len(paths) {
	case 0:
		return sources, nil
	case 1:
		if err := checkName(o.name, sources); err != nil {
			return nil, &usageError{err}
		}
		return append(sources, filetransfer.StreamSource(a.stdin, o.name)), nil
	}
	return nil, &usageError{errors.New("standard input can be sent once")}
}

// checkName refuses a name for standard input that cannot be one, or that a file beside it has.
func checkName(name string, beside []filetransfer.Source) error {
	if len(name) == 0 || len(name) > wire.MaxName {
		return fmt.Errorf("--name has %d bytes: from 1 to %d are possible", len(name), wire.MaxName)
	}
	if i := slices.IndexFunc(beside, func(s filetransfer.Source) bool { return s.Name == name }); i >= 0 {
		return fmt.Errorf("%s and standard input would both arrive as %s: give another --name", beside[i].Path, name)
	}
	return nil
}

// checkHostPort refuses what is no HOST:PORT.
func checkHostPort(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if n, err := net.LookupPort("tcp", port); err != nil || n == 0 {
		return fmt.Errorf("%q is no port: from 1 to 65535 are possible", port)
	}
	if host == "" {
		return fmt.Errorf("%q has no host", address)
	}
	return nil
}

func (a *app) send(ctx context.Context, o sendOptions) (err error) {
	if err := checkHostPort(o.to); err != nil {
		return &usageError{fmt.Errorf("the last argument is the receiver, HOST:PORT: %w", err)}
	}
	if err := checkRail(o.rail); err != nil {
		return err
	}
	key, err := a.readKey(o.keyFile)
	if err != nil {
		return err
	}
	files, err := a.sources(o)
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
	meter := a.newMeter(totalOf(files))
	sender := filetransfer.Sender{Engine: engine, Key: key, Progress: meter.add, Waiting: a.inLine(o.to),
		Redial: func(ctx context.Context) (net.Conn, error) { return dial(ctx, o.to) }}
	report, err := sender.Send(ctx, conn, files)
	return a.reportTransfer("send", rail, report, err, statusOf(ctx, err))
}

// inLine returns a function that says a sender's place in line each time it has changed: the receiver tells it more often.
func (a *app) inLine(receiver string) func(place int) {
	said := 0
	return func(place int) {
		if place != said {
			said = place
			fmt.Fprintf(a.stderr, "weft: all seats of %s are taken; place %d in line\n", receiver, place)
		}
	}
}

// totalOf is how many bytes the files have, less than 0 if that is not known.
func totalOf(files []filetransfer.Source) (total int64) {
	for _, f := range files {
		if f.Stream != nil {
			return -1
		}
		total += int64(f.Size)
	}
	return total
}
