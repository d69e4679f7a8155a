package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weftrdma/weft/cmd/weft/internal/doctor"
	"github.com/weftrdma/weft/cmd/weft/internal/inventory"
	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/verbsrail"
	"github.com/weftrdma/weft/verbs"
)

const railHelp = "the NIC: verbs:DEVICE, or verbs for the only one of the machine; fabric:tcp or fabric:efa of " +
	"libfabric; auto for the first RDMA device, or else fabric:tcp"

// keepAlive notices a host that is gone without a word, at the latest after 15 s, also before the engines are connected.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 5}

// checkRail refuses a value of --rail that names no rail, whatever the machine has.
func checkRail(spec string) error {
	kind, device, named := strings.Cut(spec, ":")
	switch {
	case spec == "auto":
		return nil
	case kind == "sim":
		return &usageError{fmt.Errorf("--rail %s: simrail joins engines of one process, and files go to another: it is for "+
			"tests (package transferengine/simrail); give verbs:DEVICE, one of those that `weft info` lists", spec)}
	case kind != "verbs" && kind != "fabric":
		return &usageError{fmt.Errorf("--rail %s: there are verbs:DEVICE, fabric:PROVIDER and auto; `weft info` lists devices "+
			"and providers", spec)}
	case named && device == "":
		return &usageError{fmt.Errorf("--rail %s: the name behind the colon is missing", spec)}
	case kind == "fabric" && !named:
		return &usageError{fmt.Errorf("--rail %s: which provider? Give fabric:tcp, or another that `weft info` lists", spec)}
	case kind == "fabric":
		if err := fabricrail.CheckProvider(device); err != nil {
			return &usageError{fmt.Errorf("--rail %s: %w", spec, err)}
		}
	}
	return nil
}

// checkDataPort refuses a value of --data-port that the rail cannot heed.
func checkDataPort(spec string, port int) error {
	switch {
	case port < 0 || port > math.MaxUint16:
		return &usageError{fmt.Errorf("--data-port %d: from 0 to %d are possible", port, math.MaxUint16)}
	case port != 0 && spec != "fabric:tcp" && spec != "auto":
		return &usageError{fmt.Errorf("--data-port %d: only fabric:tcp has such a port, not %s", port, spec)}
	}
	return nil
}

// checkAdvertise reads a value of --advertise, empty for none.
func checkAdvertise(spec, advertise string, dataPort int) (at netip.AddrPort, err error) {
	if advertise == "" {
		return at, nil
	}
	at, err = netip.ParseAddrPort(advertise)
	switch {
	case err != nil || at.Addr().IsUnspecified() || at.Port() == 0:
		err = fmt.Errorf("--advertise %s: give the IP address and port that senders connect to, such as 192.0.2.1:7472", advertise)
	case dataPort == 0:
		err = fmt.Errorf("--advertise %s: give --data-port too, to which %v leads", advertise, at)
	case spec != "fabric:tcp":
		err = fmt.Errorf("--advertise %s: give --rail fabric:tcp too, which alone can be reached by another address", advertise)
	}
	if err != nil {
		return at, &usageError{err}
	}
	return at, nil
}

// place is where an engine takes connections.
type place struct {
	local      *net.TCPAddr   // the address of this machine that the other end reaches; its port is not looked at
	dataPort   int            // of a rail over sockets; 0 is any free one
	advertise  netip.AddrPort // as which the other end reaches address and data port, if something between translates them
	onlyCalled bool           // take no peers but those that were connected to from here
}

// openRail reads a value of --rail that checkRail has passed. It returns the rail's full name, with its device.
func openRail(spec string, at place) (name string, opener rail.Opener, err error) {
	kind, device, _ := strings.Cut(spec, ":")
	if kind == "fabric" {
		return openFabric(spec, device, at)
	}
	c, err := verbs.Open(device)
	if err != nil {
		return "", nil, diagnose(spec, fmt.Errorf("--rail %s: %w", spec, err))
	}
	device = c.Name()
	if err := c.Close(); err != nil {
		return "", nil, err
	}
	return "verbs:" + device, verbsrail.Config{Device: device, OnlyCalled: at.onlyCalled}, nil
}

// openFabric is openRail for libfabric's providers. tcp takes connections on the address by which the other end reaches this
// machine, and on no other.
func openFabric(spec, provider string, at place) (name string, opener rail.Opener, err error) {
	cfg := fabricrail.Config{Provider: provider, OnlyCalled: at.onlyCalled}
	if provider == "tcp" {
		if at.local.IP == nil || at.local.IP.IsUnspecified() {
			return "", nil, &usageError{fmt.Errorf("--rail %s needs an address of this machine that the other end reaches: give "+
				"--listen ADDRESS:PORT, not %v", spec, at.local)}
		}
		cfg.Node, cfg.Advertise = (&net.IPAddr{IP: at.local.IP, Zone: at.local.Zone}).String(), at.advertise
		if at.dataPort != 0 {
			cfg.Service = strconv.Itoa(at.dataPort)
		}
	}
	return spec, cfg, nil
}

// choice is what --rail auto takes, and why.
type choice struct{ rail, why string }

// chooseRail takes an RDMA device where there is one that works, and tcp over libfabric elsewhere.
func chooseRail() (choice, error) {
	devices, err := inventory.Devices()
	why := "there is no RDMA device"
	if err != nil {
		why = err.Error()
	}
	for _, d := range devices {
		for _, p := range d.Ports {
			if p.Active && p.NoGID == "" {
				return choice{"verbs:" + d.Name, fmt.Sprintf("port %d of it is active, %s, %g Gbit/s", p.Number, p.LinkLayer, p.Gbps)}, nil
			}
		}
		why = fmt.Sprintf("no port of %s can be used", d.Name)
		if d.Error != "" {
			why = d.Error
		}
	}
	if version, err := fabric.LibraryVersion(); err != nil {
		return choice{}, diagnose("auto", fmt.Errorf("--rail auto: %s; and %w", why, err))
	} else {
		return choice{"fabric:tcp", fmt.Sprintf("%s; libfabric %v is there: sockets of the kernel, without RDMA", why, version)}, nil
	}
}

// diagnose adds to an error of a rail the first thing that the doctor finds broken about it, and what to do. Where the doctor
// finds nothing the error stands alone.
func diagnose(spec string, err error) error {
	findings, unknown := examine(doctor.ThisSystem(), spec)
	at := slices.IndexFunc(findings, func(f doctor.Finding) bool { return f.Level == doctor.Broken })
	if unknown != nil || at < 0 {
		return err
	}
	f := findings[at]
	if !strings.Contains(err.Error(), f.Text) {
		err = fmt.Errorf("%w (%s: %s)", err, f.Check, f.Text)
	}
	return fmt.Errorf("%w. What to do: %s (`weft doctor --rail %s` has everything that was looked at)", err, f.Fix, spec)
}

// explainListen says what to do about an address that cannot be listened on.
func explainListen(address string, err error) error {
	if f := doctor.Listening(address, err); f.Level == doctor.Broken {
		return fmt.Errorf("--listen %s: %s. What to do: %s", address, f.Text, f.Fix)
	}
	return fmt.Errorf("--listen %s: %w", address, err)
}

// openEngine opens an engine on the NIC of --rail, which checkRail has passed, and says what auto has chosen.
func (a *app) openEngine(spec string, at place) (*transferengine.Engine, string, error) {
	if spec == "auto" {
		c, err := chooseRail()
		if err != nil {
			return nil, "", err
		}
		fmt.Fprintf(a.stderr, "weft: --rail auto: %s, since %s\n", c.rail, c.why)
		spec = c.rail
	}
	name, opener, err := openRail(spec, at)
	if err != nil {
		return nil, "", err
	}
	engine, err := transferengine.Open(transferengine.Config{NoSpin: true, Rails: []rail.Opener{opener}})
	if at.dataPort != 0 && errors.Is(err, syscall.EADDRINUSE) {
		f := doctor.Listening(net.JoinHostPort(at.local.IP.String(), strconv.Itoa(at.dataPort)), err)
		return nil, "", fmt.Errorf("--data-port %d: %s. What to do: %s", at.dataPort, f.Text, f.Fix)
	}
	if err != nil {
		return nil, "", diagnose(name, err)
	}
	return engine, name, nil
}

// hostTowards is the address of this machine from which packets go to another. Nothing is sent.
func hostTowards(address string) (*net.TCPAddr, error) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return nil, explainDial(address, err)
	}
	local := net.TCPAddrFromAddrPort(conn.LocalAddr().(*net.UDPAddr).AddrPort())
	local.Port = 0
	return local, conn.Close()
}

// inner is the cause of an error of the network, without the addresses that are named beside it.
func inner(err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op.Err
	}
	return err
}

// dial connects to a receiver.
func dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second, KeepAliveConfig: keepAlive}
	conn, err := d.DialContext(ctx, "tcp", address)
	if ctx.Err() != nil && err != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, explainDial(address, err)
	}
	return conn, nil
}

// explainDial says what is wrong with a receiver that cannot be connected to.
func explainDial(address string, err error) error {
	var unknown *net.DNSError
	var network net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nobody listens on %s (connection refused): start weft recv --listen %[1]s there", address)
	case errors.As(err, &unknown):
		return fmt.Errorf("%s: no host of that name is known here: give its IP address", unknown.Name)
	case errors.As(err, &network) && network.Timeout(): // net has several
		return fmt.Errorf("%s does not answer: the host is down, or a firewall lies between", address)
	}
	return fmt.Errorf("connect to %s: %w", address, inner(err))
}

// listen waits for senders.
func listen(ctx context.Context, address string) (net.Listener, error) {
	c := net.ListenConfig{KeepAliveConfig: keepAlive}
	return c.Listen(ctx, "tcp", address)
}
