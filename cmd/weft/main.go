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
	"slices"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	statusFailed = 1
	statusUsage  = 2
	// statusSignal and the number of a signal are the status of what the signal ended, as shells have it.
	statusSignal = 128
)

func main() { os.Exit(runUntilSignal(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// signalError is the cause of a context that a signal ended.
type signalError struct{ syscall.Signal }

func (e *signalError) Error() string {
	switch e.Signal {
	case syscall.SIGINT:
		return "it was interrupted"
	case syscall.SIGHUP:
		return "its terminal was closed"
	}
	return "it was told to end"
}

// runUntilSignal is run with a context that SIGINT, SIGTERM and SIGHUP end; a hangup only where nohup has not asked to ignore it.
func runUntilSignal(args []string, stdin *os.File, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		got := <-signals
		signal.Stop(signals) // a second signal ends the process at once
		cancel(&signalError{got.(syscall.Signal)})
	}()
	return run(ctx, args, stdin, stdout, stderr)
}

// usageError is a command line that cannot be.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// errReported is a failure that the command has printed itself, in both forms.
var errReported = errors.New("reported")

// run runs one command line and returns the exit status.
func run(ctx context.Context, args []string, stdin *os.File, stdout, stderr io.Writer) int {
	app := &app{stdin: stdin, stdout: stdout}
	app.console = newConsole(stderr)
	app.stderr = app.console
	root := app.root()
	root.SetArgs(args)
	root.SetErr(app.stderr)
	command, err := root.ExecuteContextC(ctx)
	app.console.clear()
	if err == nil {
		return 0
	}
	status := statusOf(ctx, err)
	if errors.Is(err, errReported) {
		return status
	}
	if app.json || slices.Contains(args, "--json") { // of a wrong command line not all was read
		_ = app.print(failed(command.Name(), outcome{Status: status, Error: err.Error()}))
	}
	fmt.Fprintf(app.stderr, "weft: %v\n", err)
	if status == statusUsage {
		fmt.Fprintf(app.stderr, "See %s --help.\n", command.CommandPath())
	}
	return status
}

// statusOf is the exit status for an error.
func statusOf(ctx context.Context, err error) int {
	var usage *usageError
	var signal *signalError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return statusUsage
	case errors.As(context.Cause(ctx), &signal):
		return statusSignal + int(signal.Signal)
	}
	return statusFailed
}

// outcome is what every object begins with that --json prints.
type outcome struct {
	Command string `json:"command"` // empty if there is none of the name that was given
	Status  int    `json:"status"`  // what this command, or for recv this transfer, comes to as an exit status
	Error   string `json:"error"`   // why it failed as a whole
}

// failed is the object of a command that failed before it had a result: the same fields, empty.
func failed(command string, o outcome) any {
	o.Command = command
	switch command {
	case "send", "recv":
		return newTransferResult(o, "", emptyReport())
	case "info":
		return newInfoResult(o)
	case "doctor":
		return newDoctorResult(o)
	case "version":
		return versionResult{outcome: o}
	}
	o.Command = ""
	return o
}

// app is what the commands share.
type app struct {
	stdin          *os.File
	stdout, stderr io.Writer
	console        *console // stderr
	json           bool
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "weft",
		Short: "Move files between machines by RDMA",
		Long: `weft moves files between machines by RDMA, and shows what a machine has for it.

On the receiving machine, and then on the sending one:

  weft recv --listen 192.0.2.1:7471 --key-file weft.key --dir incoming
  weft send --key-file weft.key FILE… 192.0.2.1:7471

An RDMA device carries the files where both machines have one that works, and the
kernel's sockets elsewhere; --rail chooses. "weft doctor" says what is missing.

With --json each command prints objects that begin with command, status (the exit
status) and error (empty if all went well), also when it fails and when the command
line was wrong; its help lists the other fields, which are always there.

Exit status: 0 when all went well; 1 when something failed, some file was not
moved, or doctor found something broken; 2 when the command line was wrong; 128
and the number of the signal when a signal ended it: 130 after Ctrl-C.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return &usageError{errors.New("name a command: info, doctor, recv, send, version or completion")}
		},
	}
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print the result as JSON on standard output")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.AddCommand(a.infoCommand(), a.doctorCommand(), a.recvCommand(), a.sendCommand(), a.versionCommand())
	root.SetOut(a.stdout)
	root.InitDefaultCompletionCmd() // which keeps the output of now
	for _, c := range append(root.Commands(), root) {
		check := c.Args
		if check == nil {
			continue
		}
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
	a.console.clear()
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
