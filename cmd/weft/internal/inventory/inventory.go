// Package inventory lists what this machine and this build have for RDMA: devices with their ports and GIDs, and libraries.
package inventory

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weftrdma/weft/verbs"
)

// Device is an RDMA device as libibverbs shows it.
type Device struct {
	Name     string `json:"name"`
	GUID     string `json:"guid"`
	Firmware string `json:"firmware,omitempty"`
	Vendor   string `json:"vendor,omitempty"` // number and part, in hexadecimal
	Ports    []Port `json:"ports"`
	Limits   Limits `json:"limits"`
	// Error is why the device cannot be opened or asked; the fields after GUID are then empty.
	Error string `json:"error,omitempty"`
}

// Port is a port of a device.
type Port struct {
	Number     int     `json:"port"`
	State      string  `json:"state"`
	Active     bool    `json:"active"` // whether it carries data
	LinkLayer  string  `json:"link_layer"`
	ActiveMTU  int     `json:"active_mtu"` // bytes: the path MTU, unless the other end's is less
	MaxMTU     int     `json:"max_mtu"`    // bytes
	LID        int     `json:"lid,omitempty"`
	Gbps       float64 `json:"gbit_per_second"`
	MaxMessage uint64  `json:"max_message"` // bytes
	GIDs       []GID   `json:"gids"`
	// NoGID is why none of the GIDs is chosen.
	NoGID string `json:"no_gid,omitempty"`
}

// GID is an entry of a port's GID table.
type GID struct {
	Index  int    `json:"index"`
	Type   string `json:"type"`
	GID    string `json:"gid"`
	NetDev string `json:"netdev,omitempty"`
	Chosen bool   `json:"chosen"` // by default, for connections from this port
	// Routable tells whether packets to it can leave the link.
	Routable bool `json:"routable"`
}

// Limits are what a device can have of each object.
type Limits struct {
	MaxMRSize       uint64 `json:"max_mr_size"` // bytes
	MaxMR           int    `json:"max_mr"`
	MaxPD           int    `json:"max_pd"`
	MaxQP           int    `json:"max_qp"`
	MaxQPWR         int    `json:"max_qp_wr"` // work requests in one queue
	MaxSGE          int    `json:"max_sge"`
	MaxCQ           int    `json:"max_cq"`
	MaxCQE          int    `json:"max_cqe"` // completions in one queue
	MaxAH           int    `json:"max_ah"`
	MaxQPRdAtom     int    `json:"max_qp_rd_atom"`
	MaxQPInitRdAtom int    `json:"max_qp_init_rd_atom"`
}

// Devices lists the devices. Errors are those of [verbs.Devices].
func Devices() ([]Device, error) {
	listed, err := verbs.Devices()
	if err != nil {
		return nil, err
	}
	devices := make([]Device, len(listed))
	for i, d := range listed {
		devices[i] = Device{Name: d.Name, GUID: d.GUID.String()}
		if err := devices[i].ask(); err != nil {
			devices[i].Error = err.Error()
		}
	}
	return devices, nil
}

// ask opens the device and fills in what it says.
func (d *Device) ask() (err error) {
	c, err := verbs.Open(d.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	a := c.Attr()
	d.Firmware, d.Vendor = a.FirmwareVersion, fmt.Sprintf("%#06x:%d", a.VendorID, a.VendorPartID)
	d.Limits = Limits{MaxMRSize: a.MaxMRSize, MaxMR: a.MaxMR, MaxPD: a.MaxPD, MaxQP: a.MaxQP, MaxQPWR: a.MaxQPWR,
		MaxSGE: a.MaxSGE, MaxCQ: a.MaxCQ, MaxCQE: a.MaxCQE, MaxAH: a.MaxAH, MaxQPRdAtom: a.MaxQPRdAtom,
		MaxQPInitRdAtom: a.MaxQPInitRdAtom}
	table, err := c.GIDTable()
	if err != nil {
		return err
	}
	for number := 1; number <= a.Ports; number++ {
		attr, err := c.QueryPort(uint8(number))
		if err != nil {
			return err
		}
		d.Ports = append(d.Ports, newPort(number, attr, table))
	}
	return nil
}

// newPort takes the port's entries out of the device's GID table.
func newPort(number int, a verbs.PortAttr, table []verbs.GIDEntry) Port {
	p := Port{Number: number, State: a.State.String(), Active: a.State == verbs.PortActive, LinkLayer: a.LinkLayer.String(),
		ActiveMTU: int(a.ActiveMTU), MaxMTU: int(a.MaxMTU), LID: int(a.LID), Gbps: a.Gbps(),
		MaxMessage: uint64(a.MaxMessage), GIDs: []GID{}}
	chosen, err := verbs.SelectGID(table, uint8(number))
	if err != nil {
		p.NoGID = err.Error()
	}
	for _, e := range table {
		if int(e.Port) != number {
			continue
		}
		p.GIDs = append(p.GIDs, GID{Index: e.Index, Type: e.Type.String(), GID: e.GID.String(), NetDev: e.NetDev,
			Chosen: err == nil && e == chosen, Routable: !e.GID.Addr().IsLinkLocalUnicast()})
	}
	return p
}

// Library is a C library that a binding opens when it is first used.
type Library struct {
	Name    string `json:"name"`
	Path    string `json:"path,omitempty"`
	Version string `json:"version,omitempty"` // its own, as far as it tells
	// Error is why it is not there.
	Error string `json:"error,omitempty"`
}

// Verbs describes libibverbs, which [Devices] has just opened, or failed to open with the error. It has no function that tells
// its version; its file is named by the version of its interface and, behind that, of rdma-core.
func Verbs(err error) Library {
	l, numbers := found("libibverbs", err, verbs.ErrNoLibrary)
	if parts := strings.Split(numbers, "."); len(parts) == 4 { // 1.14.44.0
		l.Version = strings.Join(parts[2:], ".")
	}
	return l
}

// found describes a library that was just opened, or not. The numbers are those behind the name of its file.
func found(name string, err, missing error) (l Library, numbers string) {
	l = Library{Name: name}
	if err != nil && (errors.Is(err, missing) || errors.Is(err, errors.ErrUnsupported)) {
		l.Error = err.Error()
		return l, ""
	}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		l.Path, numbers = findLibrary(string(maps), l.Name)
	}
	return l, numbers
}

// findLibrary finds a library among a process's mappings (proc(5), /proc/pid/maps).
func findLibrary(maps, name string) (path, numbers string) {
	for line := range strings.Lines(maps) {
		start := strings.IndexByte(line, '/')
		if start < 0 {
			continue
		}
		path := strings.TrimSuffix(line[start:], "\n")
		if version, ok := strings.CutPrefix(filepath.Base(path), name+".so."); ok {
			return path, version
		}
	}
	return "", ""
}
