package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/verbsrail"
	"github.com/weftrdma/weft/verbs"
)

const railHelp = "the NIC: verbs:DEVICE, or verbs for the only one of the machine"

// keepAlive notices a host that is gone without a word, at the latest after 15 s, also before the engines are connected.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 5}

// openRail reads the value of --rail. It returns the rail's full name, with its device.
func openRail(spec string) (name string, opener rail.Opener, err error) {
	kind, device, named := strings.Cut(spec, ":")
	switch {
	case kind == "sim":
		return "", nil, &usageError{fmt.Errorf("--rail %s: simrail joins engines of one process, and files go to another: it "+
			"is for tests (package transferengine/simrail); give verbs:DEVICE, one of those that `weft info` lists", spec)}
	case kind != "verbs":
		return "", nil, &usageError{fmt.Errorf("--rail %s: this build has one kind of rail, verbs: give verbs:DEVICE, one of "+
			"those that `weft info` lists", spec)}
	case named && device == "":
		return "", nil, &usageError{fmt.Errorf("--rail %s: the device is missing", spec)}
	}
	c, err := verbs.Open(device)
	if err != nil {
		return "", nil, fmt.Errorf("--rail %s: %w (`weft doctor` says what to do)", spec, err)
	}
	device = c.Name()
	if err := c.Close(); err != nil {
		return "", nil, err
	}
	return "verbs:" + device, verbsrail.Config{Device: device}, nil
}

// openEngine opens an engine on the NIC of --rail.
func openEngine(spec string) (*transferengine.Engine, string, error) {
	name, opener, err := openRail(spec)
	if err != nil {
		return nil, "", err
	}
	engine, err := transferengine.Open(transferengine.Config{Rails: []rail.Opener{opener}})
	if err != nil {
		return nil, "", fmt.Errorf("%w (`weft doctor` says what to do)", err)
	}
	return engine, name, nil
}

// dial connects to a receiver.
func dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second, KeepAliveConfig: keepAlive}
	return d.DialContext(ctx, "tcp", address)
}

// listen waits for senders.
func listen(ctx context.Context, address string) (net.Listener, error) {
	c := net.ListenConfig{KeepAliveConfig: keepAlive}
	return c.Listen(ctx, "tcp", address)
}
