//go:build !linux

package main

import (
	"context"
	"net"
	"net/netip"
)

// guardDataPort does nothing where there is no rail over sockets.
func guardDataPort(context.Context, netip.AddrPort, net.Addr, func(net.Addr) bool) (stopped <-chan struct{}, err error) {
	done := make(chan struct{})
	close(done)
	return done, nil
}
