package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionResult is what --json prints.
type versionResult struct {
	outcome
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Long: `Show the version of this program and of the Go it was built with. "weft info" shows
the libraries too.

With --json the result is one object: command, status, error, version, revision,
go and platform.

Exit status: 0.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			info, _ := debug.ReadBuildInfo() // nil where there is none
			b := newBuild(info, nil, nil)
			if a.json {
				return a.print(versionResult{outcome{Command: "version"}, b.Version, b.Revision, b.Go, b.Platform})
			}
			_, err := fmt.Fprintf(a.stdout, "weft %s, %s, %s\n", b.Version, b.Go, b.Platform)
			return err
		},
	}
}
