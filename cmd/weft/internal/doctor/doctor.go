// Package doctor finds out why RDMA does not work on a machine, and what to do about it.
package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/weftrdma/weft/cmd/weft/internal/inventory"
	"github.com/weftrdma/weft/verbs"
)

// Level says how bad a finding is.
type Level string

// The levels. RDMA does not work, or not for files, where something is Broken; a Warning is about speed or about something
// that is not needed as long as the rest is well.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Broken  Level = "broken"
)

// Finding is one thing that was looked at.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"` // what to do, unless all is well
}

// System is what is looked at.
type System struct {
	// Files are those of the machine from / on.
	Files fs.FS
	// Open opens a file of the machine for reading and writing, and closes it.
	Open func(path string) error
	// Devices lists what libibverbs shows.
	Devices func() ([]inventory.Device, error)
	// Providers lists what libfabric has for rails.
	Providers func() ([]inventory.Provider, error)
}

// ThisSystem is the machine that the program runs on.
func ThisSystem() System {
	return System{Files: os.DirFS("/"), Open: openFile, Devices: inventory.Devices, Providers: inventory.Providers}
}

func openFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// examination is a look at a system.
type examination struct {
	System
	findings []Finding
}

// Examine looks at everything that RDMA needs, in the order in which it has to work.
func (s System) Examine() []Finding {
	e := &examination{System: s}
	devices, err := s.Devices()
	e.library(err)
	e.modules()
	kernel := e.names("sys/class/infiniband")
	e.kernelDevices(kernel)
	e.characterDevices()
	if err == nil {
		e.drivers(kernel, devices)
	}
	for _, d := range devices {
		e.device(d)
	}
	e.memlock()
	return e.findings
}

// Count is how many findings are of a level.
func Count(findings []Finding, level Level) (n int) {
	for _, f := range findings {
		if f.Level == level {
			n++
		}
	}
	return n
}

func (e *examination) ok(check, text string, args ...any) {
	e.findings = append(e.findings, Finding{Check: check, Level: OK, Text: fmt.Sprintf(text, args...)})
}

func (e *examination) found(level Level, check, fix, text string, args ...any) {
	e.findings = append(e.findings, Finding{Check: check, Level: level, Text: fmt.Sprintf(text, args...), Fix: fix})
}

// names lists a folder; empty if it is not there.
func (e *examination) names(dir string) (names []string) {
	entries, _ := fs.ReadDir(e.Files, dir)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// exists tells whether there is a file.
func (e *examination) exists(name string) bool {
	_, err := fs.Stat(e.Files, name)
	return err == nil
}

func (e *examination) library(err error) {
	const check = "library"
	switch {
	case err == nil:
		e.ok(check, "libibverbs can be used")
	case errors.Is(err, verbs.ErrNoLibrary):
		e.found(Broken, check, "install it: apt-get install libibverbs1 ibverbs-providers (elsewhere rdma-core)", "%v", err)
	case errors.Is(err, errors.ErrUnsupported):
		e.found(Broken, check, "build it on Linux with cgo and without the tag noverbs", "this program has no verbs: %v", err)
	default:
		e.found(Broken, check, "see what the library says", "libibverbs cannot list devices: %v", err)
	}
}

// characterDevices looks at the files by which libibverbs reaches the kernel.
func (e *examination) characterDevices() {
	for _, name := range e.names("sys/class/infiniband_verbs") {
		if !e.exists(path.Join("sys/class/infiniband_verbs", name, "ibdev")) {
			continue // abi_version
		}
		file := "/dev/infiniband/" + name
		switch err := e.Open(file); {
		case err == nil:
			e.ok("permissions", "%s can be opened", file)
		case errors.Is(err, fs.ErrNotExist):
			e.found(Broken, "permissions", "in a container, pass it in: docker run --device "+file+"; else start udev",
				"%s is missing", file)
		default:
			e.found(Broken, "permissions", "chmod 666 "+file+" (it gives no more rights than using RDMA), or for good: "+
				`KERNEL=="uverbs*", MODE="0666" in /etc/udev/rules.d`, "%v", err)
		}
	}
}

// drivers compares the devices of the kernel with those of the library.
func (e *examination) drivers(kernel []string, devices []inventory.Device) {
	for _, name := range kernel {
		if !slices.ContainsFunc(devices, func(d inventory.Device) bool { return d.Name == name }) {
			e.found(Broken, "driver", "install the drivers: apt-get install ibverbs-providers",
				"the kernel has the device %s, libibverbs does not show it", name)
		}
	}
}
