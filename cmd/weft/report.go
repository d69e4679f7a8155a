package main

import (
	"fmt"
	"unicode/utf8"

	"github.com/weftrdma/weft/cmd/weft/internal/filetransfer"
	"github.com/weftrdma/weft/cmd/weft/internal/wire"
)

// transferResult is what one transfer came to, as --json prints it.
type transferResult struct {
	outcome
	Rail string `json:"rail"`
	filetransfer.Report
	Files          []fileResult `json:"files"` // over the report's
	BytesPerSecond float64      `json:"bytes_per_second"`
}

// fileResult is what became of one file.
type fileResult struct {
	filetransfer.FileReport
	// NameBytes is the name, where it is not UTF-8 and JSON therefore cannot have it.
	NameBytes []byte `json:"name_base64,omitempty"`
}

func emptyReport() filetransfer.Report { return filetransfer.Report{} }

func newTransferResult(o outcome, rail string, report filetransfer.Report) transferResult {
	r := transferResult{outcome: o, Rail: rail, Report: report, Files: make([]fileResult, len(report.Files))}
	for i, f := range report.Files {
		r.Files[i].FileReport = f
		if !utf8.ValidString(f.Name) {
			r.Files[i].NameBytes = []byte(f.Name)
		}
	}
	if report.Seconds > 0 {
		r.BytesPerSecond = float64(report.Total.Bytes) / report.Seconds
	}
	return r
}

// reportTransfer prints what became of a transfer, and returns errReported if not every file is in place. The status is that
// for an error that ended it.
func (a *app) reportTransfer(command, rail string, report filetransfer.Report, err error, status int) error {
	o := outcome{Command: command}
	switch {
	case err != nil:
		o.Status, o.Error = status, err.Error()
	case report.Total.Failed > 0:
		o.Status = statusFailed
	}
	r := newTransferResult(o, rail, report)
	if a.json {
		if err := a.print(r); err != nil {
			return err
		}
	}
	a.console.clear()
	a.reportFiles(r)
	if r.Error != "" {
		fmt.Fprintf(a.stderr, "weft: %s\n", r.Error)
		if r.Total.Files > 0 {
			fmt.Fprintf(a.stderr, "weft: %d of %d files are not in place\n", r.Total.Failed, r.Total.Files)
		}
	} else if !a.json {
		fmt.Fprintf(a.stdout, "%d of %d files, %s in %.2f s, %s/s, over %s, with %s\n", r.Total.Files-r.Total.Failed,
			r.Total.Files, formatBytes(float64(r.Total.Bytes)), r.Seconds, formatBytes(r.BytesPerSecond), r.Rail, r.Peer)
	}
	if o.Status != 0 {
		return errReported
	}
	return nil
}

// reportFiles prints what became of each file.
func (a *app) reportFiles(r transferResult) {
	for _, f := range r.Files {
		name := wire.Printable(f.Name)
		if f.Folder {
			name += "/"
		}
		switch {
		case f.CutOff: // said for all of them
		case f.Error != "":
			fmt.Fprintf(a.stderr, "weft: %s: %s\n", name, f.Error)
		case !a.json && f.Folder:
			fmt.Fprintln(a.stdout, name)
		case !a.json:
			fmt.Fprintf(a.stdout, "%s  %s  %s\n", f.SHA256, name, formatBytes(float64(f.Bytes)))
		}
	}
	if rest := r.Total.Files - len(r.Files); rest > 0 && !a.json {
		fmt.Fprintf(a.stdout, "and %d more\n", rest)
	}
}
