package main

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftrdma/weft/cmd/weft/internal/inventory"
	"github.com/weftrdma/weft/verbs"
)

func (a *app) infoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "info",
		Short: "Show devices, ports, GIDs, limits, libraries and how this program was built",
		Long: `Show the RDMA devices of this machine with their ports, GID tables (the chosen GID
is marked) and limits, the providers of libfabric that can be a rail, the libraries
that were found, and how this program was built. It works, and says what is missing, where there is no device or library.

With --json the result is one object: command, status, error (why devices cannot be
listed; the status is 0 even so), build, libraries, devices and providers.

Exit status: 0.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.info() },
	}
}

// infoResult is what --json prints.
type infoResult struct {
	outcome
	Build     build                `json:"build"`
	Libraries []inventory.Library  `json:"libraries"`
	Devices   []inventory.Device   `json:"devices"`
	Providers []inventory.Provider `json:"providers"`
}

// build is how the program was built.
type build struct {
	Version  string   `json:"version"`
	Revision string   `json:"revision,omitempty"`
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
	CGO      bool     `json:"cgo"`
	Tags     []string `json:"tags"`
	Rails    []string `json:"rails"` // kinds of them
}

// newBuild reads what the Go toolchain left in the program. The errors are those of listing verbs devices, and libfabric's
// providers.
func newBuild(info *debug.BuildInfo, err, fabricErr error) build {
	b := build{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Tags: []string{},
		Rails: []string{}}
	if !errors.Is(err, errors.ErrUnsupported) {
		b.Rails = append(b.Rails, "verbs")
	}
	if !errors.Is(fabricErr, errors.ErrUnsupported) {
		b.Rails = append(b.Rails, "fabric")
	}
	if info == nil {
		return b
	}
	b.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "CGO_ENABLED":
			b.CGO = s.Value == "1"
		case "-tags":
			b.Tags = strings.Split(s.Value, ",")
		}
	}
	return b
}

func newInfoResult(o outcome) infoResult {
	return infoResult{outcome: o, Build: newBuild(nil, nil, nil), Libraries: []inventory.Library{}, Devices: []inventory.Device{},
		Providers: []inventory.Provider{}}
}

func (a *app) info() error {
	devices, err := inventory.Devices()
	built, _ := debug.ReadBuildInfo() // nil where there is none
	providers, fabricErr := inventory.Providers()
	r := newInfoResult(outcome{Command: "info"})
	r.Build = newBuild(built, err, fabricErr)
	r.Libraries = append(r.Libraries, inventory.Verbs(err), inventory.Fabric(fabricErr))
	r.Devices, r.Providers = append(r.Devices, devices...), append(r.Providers, providers...)
	if err != nil {
		r.Error = err.Error()
	}
	if a.json {
		return a.print(r)
	}
	a.printBuild(r.Build)
	for _, l := range r.Libraries {
		a.printLibrary(l)
	}
	for _, p := range r.Providers {
		fmt.Fprintf(a.stdout, "provider %s: --rail fabric:%s; domains %s\n", p.Name, p.Name, listed(p.Domains))
	}
	for _, d := range r.Devices {
		a.printDevice(d)
	}
	switch {
	case err != nil && !errors.Is(err, verbs.ErrNoLibrary) && !errors.Is(err, errors.ErrUnsupported):
		fmt.Fprintf(a.stdout, "devices: %v\n", err)
	case len(devices) == 0:
		fmt.Fprintln(a.stdout, "devices: none (weft doctor says what to do)")
	}
	return nil
}

func (a *app) printBuild(b build) {
	fmt.Fprintf(a.stdout, "weft %s, %s, %s\n", b.Version, b.Go, b.Platform)
	fmt.Fprintf(a.stdout, "build: cgo %v; tags %s; rails %s\n", b.CGO, listed(b.Tags), listed(b.Rails))
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func (a *app) printLibrary(l inventory.Library) {
	switch {
	case l.Error != "":
		fmt.Fprintf(a.stdout, "%s: missing: %s\n", l.Name, l.Error)
	case l.Path == "":
		fmt.Fprintf(a.stdout, "%s: version %s\n", l.Name, orUnknown(l.Version))
	default:
		fmt.Fprintf(a.stdout, "%s: version %s, %s\n", l.Name, orUnknown(l.Version), l.Path)
	}
}

func (a *app) printDevice(d inventory.Device) {
	if d.Error != "" {
		fmt.Fprintf(a.stdout, "device %s: guid %s; %s\n", d.Name, d.GUID, d.Error)
		return
	}
	fmt.Fprintf(a.stdout, "device %s: guid %s, vendor %s, firmware %s\n", d.Name, d.GUID, d.Vendor, orNone(d.Firmware))
	l := d.Limits
	fmt.Fprintf(a.stdout, "  limits: %d QPs of %d work requests with %d SGEs, %d CQs of %d, %d MRs of %s, %d PDs, %d AHs, "+
		"%d reads and atomics in, %d out\n", l.MaxQP, l.MaxQPWR, l.MaxSGE, l.MaxCQ, l.MaxCQE, l.MaxMR,
		formatBytes(float64(l.MaxMRSize)), l.MaxPD, l.MaxAH, l.MaxQPRdAtom, l.MaxQPInitRdAtom)
	for _, p := range d.Ports {
		fmt.Fprintf(a.stdout, "  port %d: %s, %s, MTU %d of %d, %g Gbit/s, messages of %s\n", p.Number, p.State, p.LinkLayer,
			p.ActiveMTU, p.MaxMTU, p.Gbps, formatBytes(float64(p.MaxMessage)))
		for _, g := range p.GIDs {
			mark := " "
			if g.Chosen {
				mark = "*"
			}
			fmt.Fprintf(a.stdout, "  %s GID %d: %s, %s, %s\n", mark, g.Index, g.GID, g.Type, orNone(g.NetDev))
		}
		if p.NoGID != "" {
			fmt.Fprintf(a.stdout, "    %s\n", strings.ReplaceAll(strings.TrimSpace(p.NoGID), "\n", "\n    "))
		}
	}
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
