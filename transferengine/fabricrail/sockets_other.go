//go:build !linux

package fabricrail

import (
	"errors"
	"net/netip"
)

// socket is of linux alone, as libfabric is here.
type socket struct{ local, remote netip.AddrPort }

func sockets(netip.AddrPort) []socket { return nil }

func (s socket) only(int) error { return errors.ErrUnsupported }

func (s socket) end() {}
