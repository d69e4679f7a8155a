//go:build !linux

package fabricrail

import (
	"errors"
	"net/netip"
	"os"
)

// socket is of linux alone, as libfabric is here.
type socket struct{ local, remote netip.AddrPort }

func openFolder() (*os.File, error) { return nil, errors.ErrUnsupported }

func sockets(*os.File, netip.AddrPort) []socket { return nil }

func (s socket) only(int) error { return errors.ErrUnsupported }

func (s socket) end() {}
