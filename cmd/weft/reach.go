package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/verbsrail"
)

// reach is which engines a receiver serves. A sender says where its engine is; a receiver that believed that could be made to
// answer to anybody, in its own name.
type reach struct {
	kind, provider string         // of the receiver's rail
	listens        netip.AddrPort // where it takes connections, if it does so by IP
	advertised     netip.AddrPort // where senders are told that it does, if that is elsewhere
	anyHost        bool
}

// newReach reads what the receiver's own engine has, which is at a place.
func newReach(own transferengine.Address, at place, anyHost bool) (*reach, error) {
	if address, err := own.Rail("fabric"); err == nil {
		r := &reach{kind: "fabric", anyHost: anyHost}
		if r.provider, r.listens, err = fabricrail.AddressOf(address); at.advertise.IsValid() {
			host := at.local.AddrPort().Addr().Unmap().WithZone("")
			r.advertised, r.listens = r.listens, netip.AddrPortFrom(host, uint16(at.dataPort))
		}
		return r, err
	}
	return &reach{kind: "verbs", anyHost: anyHost}, nil
}

// check refuses an engine that the receiver's rail cannot reach, or that is on another host than the one that asks.
func (r *reach) check(from net.Addr, engine transferengine.Address) error {
	address, err := engine.Rail(r.kind)
	if err != nil {
		return fmt.Errorf("the rails differ, give both ends the same --rail: the receiver has %s, and %w", r.name(), err)
	}
	var host netip.Addr
	if r.kind == "fabric" {
		var provider string
		var listens netip.AddrPort
		if provider, listens, err = fabricrail.AddressOf(address); err == nil && provider != r.provider {
			return fmt.Errorf("the rails differ, give both ends the same --rail: the receiver has %s, the sender fabric:%s",
				r.name(), provider)
		}
		host = listens.Addr()
	} else {
		host, err = verbsrail.AddressOf(address)
	}
	if err != nil {
		return err
	}
	if !host.IsValid() || r.anyHost { // InfiniBand and EFA: nobody is reached there by an IP address
		return nil
	}
	return r.checkHost(from, host)
}

// where says where the files' bytes are taken.
func (r *reach) where(rail string) string {
	if r.advertised.IsValid() {
		return fmt.Sprintf("on %v, which senders reach as %v, by %s", r.listens, r.advertised, rail)
	}
	if r.listens.IsValid() {
		return fmt.Sprintf("on %v by %s", r.listens, rail)
	}
	return "by " + rail
}

func (r *reach) name() string {
	if r.provider == "" {
		return r.kind
	}
	return r.kind + ":" + r.provider
}

// checkHost refuses a host that is not the one that asks. The addresses of this machine are one host.
func (r *reach) checkHost(from net.Addr, host netip.Addr) error {
	tcp, ok := from.(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("a request from %v, which has no IP address", from)
	}
	asks := tcp.AddrPort().Addr().Unmap().WithZone("")
	if host = host.Unmap().WithZone(""); asks == host {
		return nil
	}
	here, err := isHere(asks)
	if err == nil && here {
		here, err = isHere(host)
	}
	if err != nil {
		return err
	}
	if !here {
		return errors.New("the request comes from another address than its engine has: start the receiver with --any-host if senders " +
			"have one network for requests and another for data")
	}
	return nil
}

// isHere tells whether an address is one of this machine's.
func isHere(host netip.Addr) (bool, error) {
	if host.IsLoopback() {
		return true, nil
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false, fmt.Errorf("list the addresses of this machine: %w", err)
	}
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(network.IP); ok && ip.Unmap() == host {
				return true, nil
			}
		}
	}
	return false, nil
}
