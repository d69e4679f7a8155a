package fabricrail

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

// AddressOf reads a rail's address, as [transferengine.Address.Rail] returns it: its provider, such as "tcp;ofi_rxm", and the
// IP address and port on which the rail takes connections, which are invalid for a provider that has other names.
func AddressOf(railAddress []byte) (provider string, listens netip.AddrPort, err error) {
	a, err := parseAddress(railAddress)
	if err != nil {
		return "", netip.AddrPort{}, err
	}
	listens, ok := socketAddress([]byte(a.name))
	if !ok && strings.HasPrefix(a.provider, "tcp") {
		return "", netip.AddrPort{}, fmt.Errorf("%v: its name of %d bytes is no socket address: %w", a, len(a.name), syscall.EINVAL)
	}
	return a.provider, listens, nil
}

// socketAddress reads a name that is a sockaddr_in or sockaddr_in6 of exactly that size.
func socketAddress(name []byte) (netip.AddrPort, bool) {
	const inet, inet6 = 2, 10 // AF_INET, and Linux's AF_INET6
	switch {
	case len(name) == 16 && binary.NativeEndian.Uint16(name) == inet:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(name[4:8])), binary.BigEndian.Uint16(name[2:])), true
	case len(name) == 28 && binary.NativeEndian.Uint16(name) == inet6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(name[8:24])), binary.BigEndian.Uint16(name[2:])), true
	}
	return netip.AddrPort{}, false
}

// socketName is the name of which socketAddress is the reverse.
func socketName(at netip.AddrPort) []byte {
	const inet, inet6 = 2, 10
	host := at.Addr().Unmap()
	if host.Is4() {
		name := binary.BigEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, inet), at.Port())
		return append(append(name, host.AsSlice()...), make([]byte, 8)...)
	}
	name := binary.BigEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, inet6), at.Port())
	name = append(append(name, make([]byte, 4)...), host.AsSlice()...) // flow information
	return append(name, make([]byte, 4)...)                            // scope
}
