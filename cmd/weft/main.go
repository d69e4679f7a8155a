// Command weft moves files between machines by RDMA, and shows what a machine has for it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	statusFailed = 1
	statusUsage  = 2
)

func main() { os.Exit(runUntilSignal(os.Args[1:], os.Stdout, os.Stderr)) }

// runUntilSignal is run with a context that SIGINT and SIGTERM end.
func runUntilSignal(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return run(ctx, args, stdout, stderr)
}

// usageError is a command line that cannot be.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// errReported is a failure that the command has printed itself, in both forms.
var errReported = errors.New("reported")

// run runs one command line and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app := &app{stdout: stdout, stderr: stderr}
	root := app.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "weft: %v\nSee weft --help.\n", err)
		return statusUsage
	case !errors.Is(err, errReported):
		if app.json {
			_ = app.print(map[string]string{"error": err.Error()})
		}
		fmt.Fprintf(stderr, "weft: %v\n", err)
	}
	return statusFailed
}

// app is what the commands share.
type app struct {
	stdout, stderr io.Writer
	json           bool
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "weft",
		Short: "Move files between machines by RDMA",
		Long: `weft moves files between machines by RDMA, and shows what a machine has for it.

On the receiving machine, and then on the sending one:

  weft recv --rail verbs:rxe0 --listen 192.0.2.1:7471 --dir incoming
  weft send --rail verbs:rxe0 FILE… 192.0.2.1:7471

Without an RDMA device, --rail fabric:tcp moves them over sockets.

Exit status: 0 when all went well; 1 when something failed, some file was not
moved, or doctor found something broken; 2 when the command line was wrong.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              cobra.NoArgs,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return &usageError{errors.New("name a command: info, doctor, recv or send")}
		},
	}
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print the result as JSON on standard output")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.AddCommand(a.infoCommand(), a.doctorCommand(), a.recvCommand(), a.sendCommand())
	for _, c := range append(root.Commands(), root) {
		check := c.Args
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &usageError{err}
			}
			return nil
		}
	}
	return root
}

// print prints one JSON object on a line of standard output.
func (a *app) print(v any) error {
	return json.NewEncoder(a.stdout).Encode(v)
}
