package fabricrail

import (
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// socket is one of this process's TCP sockets.
type socket struct {
	fd            int
	local, remote netip.AddrPort // remote is invalid if it listens
}

// openFolder opens what sockets reads: once, since no descriptor may be left when it is needed.
func openFolder() (*os.File, error) { return os.Open("/proc/self/fd") }

// sockets lists the sockets of this process that are at an address. libfabric does not tell which are its own. A number stays that of
// the rail's own socket while the rail makes no call that closes it; what else has the address is a copy of one.
func sockets(folder *os.File, at netip.AddrPort) (list []socket) {
	if folder == nil {
		return nil
	}
	if _, err := folder.Seek(0, 0); err != nil {
		return nil
	}
	names, _ := folder.Readdirnames(-1) // what could be read is looked at
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		s := socket{fd: fd}
		if local, err := unix.Getsockname(fd); err != nil {
			continue
		} else if s.local = addrPort(local); s.local != at {
			continue
		}
		if remote, err := unix.Getpeername(fd); err == nil {
			s.remote = addrPort(remote)
		}
		list = append(list, s)
	}
	return list
}

// addrPort is a socket's address without its zone; the zero value for other kinds.
func addrPort(address unix.Sockaddr) netip.AddrPort {
	switch a := address.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	return netip.AddrPort{}
}

// only has a socket, and those that are accepted from it, be ready to read once so many bytes are there. Without that libfabric 1.17
// waits, in a call, for the rest of a request that does not come (rx_cm_data); the time limit bounds that where the kernel says ready
// earlier, for want of memory.
func (s socket) only(bytes int) error {
	if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 1000}); err != nil {
		return err
	}
	return unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, bytes)
}

// end ends a connection. The descriptor is libfabric's, which finds the end and closes it.
func (s socket) end() { _ = unix.Shutdown(s.fd, unix.SHUT_RDWR) } // it has ended otherwise
