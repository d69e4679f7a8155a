package main

import (
	"fmt"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/weftrdma/weft/cmd/weft/internal/filetransfer"
	"github.com/weftrdma/weft/cmd/weft/internal/wire"
)

// transferResult is what one transfer came to, as --json prints it.
type transferResult struct {
	Rail string `json:"rail"`
	filetransfer.Report
	BytesPerSecond float64 `json:"bytes_per_second"` // of files that are in place
	Error          string  `json:"error,omitempty"`  // what ended it early
}

func newTransferResult(rail string, report filetransfer.Report, err error) transferResult {
	r := transferResult{Rail: rail, Report: report}
	if r.Files == nil {
		r.Files = []filetransfer.FileReport{} // never null
	}
	if report.Seconds > 0 {
		r.BytesPerSecond = float64(report.Total.Bytes) / report.Seconds
	}
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

// reportTransfer prints what became of a transfer, and returns errReported if not every file is in place.
func (a *app) reportTransfer(r transferResult) error {
	if a.json {
		if err := a.print(r); err != nil {
			return err
		}
	}
	for _, f := range r.Files {
		switch {
		case f.Error == r.Error && f.Error != "": // said below
		case f.Error != "":
			fmt.Fprintf(a.stderr, "weft: %s, %s: refused: %s\n", r.Peer, wire.Printable(f.Name), f.Error)
		case !a.json:
			fmt.Fprintf(a.stdout, "%s  %s  %s\n", f.SHA256, wire.Printable(f.Name), formatBytes(float64(f.Bytes)))
		}
	}
	if r.Error != "" {
		fmt.Fprintf(a.stderr, "weft: %s\n", r.Error)
	} else if !a.json {
		fmt.Fprintf(a.stdout, "%d of %d files, %s in %.2f s, %s/s, over %s, with %s\n", r.Total.Files-r.Total.Failed,
			r.Total.Files, formatBytes(float64(r.Total.Bytes)), r.Seconds, formatBytes(r.BytesPerSecond), r.Rail, r.Peer)
	}
	if r.Error != "" || r.Total.Failed > 0 {
		return errReported
	}
	return nil
}

// formatBytes writes a number of bytes for people: "52.4 MiB".
func formatBytes(n float64) string {
	unit := 0
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	for n >= 1024 && unit < len(units)-1 {
		n /= 1024
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%.0f B", n)
	}
	return fmt.Sprintf("%.1f %s", n, units[unit])
}

// progress is a bar on standard error, if that is a terminal.
type progress struct {
	bars *mpb.Progress
	bar  *mpb.Bar
}

func (a *app) newProgress(files []filetransfer.Source) *progress {
	var total int64
	for _, f := range files {
		total += int64(f.Size)
	}
	bars := mpb.New(mpb.WithOutput(a.stderr)) // which draws nothing elsewhere
	return &progress{bars: bars, bar: bars.AddBar(total,
		mpb.PrependDecorators(decor.CountersKibiByte("% .1f / % .1f")),
		mpb.AppendDecorators(decor.Percentage(), decor.AverageSpeed(decor.SizeB1024(0), "  % .1f")))}
}

func (p *progress) moved(_ string, bytes int64) { p.bar.IncrInt64(bytes) }

// end leaves the bar where it got to.
func (p *progress) end() {
	p.bar.Abort(false)
	p.bars.Wait()
}
