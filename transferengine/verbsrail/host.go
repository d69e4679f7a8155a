package verbsrail

import "net/netip"

// AddressOf reads a rail's address, as [transferengine.Address.Rail] returns it: the IP address of its port on RoCE, which is
// invalid on InfiniBand.
func AddressOf(railAddress []byte) (netip.Addr, error) {
	a, err := parseAddress(railAddress)
	if err != nil || a.lid != 0 {
		return netip.Addr{}, err
	}
	return netip.AddrFrom16(a.gid).Unmap(), nil
}
