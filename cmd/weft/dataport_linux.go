package main

// Strangers at the data port.
//
// Over sockets, libfabric takes connections by itself. One that never says anything, or not enough, costs a descriptor for as
// long as it likes; enough of them cost all that the process may have. libfabric has no limit for that, so the receiver looks
// after its data port: once a second it goes through the descriptors of the process. A connection to the data port that was
// there at two looks is shut down
//
//   - if this end has sent nothing on it: libfabric answers whoever has asked properly at once;
//   - or if its host has no seat: all that a sender has to say here is said while it is served.
//
// libfabric also makes connections: to take leave of a sender whose own connection broke it calls the address that the sender's
// engine has, where anybody can keep the connection open. Nothing else here calls anybody over TCP, so that what is connected to
// neither of the receiver's ports is such a connection, and for it the second rule holds. Those that the process was started with are
// somebody else's.
//
// Shut down, not closed: the descriptor stays libfabric's, which finds the end of the connection and closes it. A number can be
// closed and used again by another thread at any time, so what is looked at, and shut down, is a copy of the descriptor. The
// copies share one number that is kept for them, since there may be no other left.

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// lookAtDataPort is the time between two looks.
const lookAtDataPort = time.Second

// dataPort is a port that libfabric listens on.
type dataPort struct {
	at     netip.AddrPort
	greets netip.AddrPort      // where senders are greeted: connections to it are not looked at
	serves func(net.Addr) bool // whether a connection's host has a seat

	folder *os.File // of the process's descriptors
	none   *os.File // what the copy is of between two looks
	copied *os.File
	seen   map[int]connection  // of the last look, by number
	others map[connection]bool // that the process was started with
}

// connection is a TCP connection of this process.
type connection struct{ local, remote netip.AddrPort }

// guardDataPort looks after the port, if there is one, until the context ends, and then closes stopped.
func guardDataPort(ctx context.Context, at netip.AddrPort, greets net.Addr, serves func(net.Addr) bool) (stopped <-chan struct{}, err error) {
	done := make(chan struct{})
	if !at.IsValid() {
		close(done)
		return done, nil
	}
	d := &dataPort{at: at, serves: serves, others: make(map[connection]bool)}
	if tcp, ok := greets.(*net.TCPAddr); ok {
		d.greets = netip.AddrPortFrom(tcp.AddrPort().Addr().Unmap().WithZone(""), uint16(tcp.Port))
	}
	if err := d.open(); err != nil {
		d.close()
		return nil, fmt.Errorf("look after the data port: %w", err)
	}
	for _, c := range d.connections(nil) {
		d.others[c] = true
	}
	go func() {
		defer close(done)
		defer d.close()
		ticker := time.NewTicker(lookAtDataPort)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				d.look()
			case <-ctx.Done():
				return
			}
		}
	}()
	return done, nil
}

func (d *dataPort) open() (err error) {
	if d.folder, err = os.Open("/proc/self/fd"); err != nil {
		return err
	}
	if d.none, err = os.Open(os.DevNull); err != nil {
		return err
	}
	d.copied, err = os.Open(os.DevNull)
	return err
}

func (d *dataPort) close() {
	for _, f := range []*os.File{d.folder, d.none, d.copied} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// look looks at all connections to the port and of libfabric's own, and shuts down those that should not be there.
func (d *dataPort) look() {
	d.seen = d.connections(func(fd, copied int, c connection) {
		if d.seen[fd] == c && !d.mayStay(copied, c) {
			_ = unix.Shutdown(copied, unix.SHUT_RDWR) // it has ended otherwise
		}
	})
}

// connections are those of libfabric, by number. Visit, unless it is nil, is called with a copy of the descriptor of each.
func (d *dataPort) connections(visit func(fd, copied int, c connection)) map[int]connection {
	seen := make(map[int]connection)
	if _, err := d.folder.Seek(0, 0); err != nil {
		return seen
	}
	names, _ := d.folder.Readdirnames(-1) // what could be read is looked at
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		d.each(fd, func(copied int) {
			c, ok := d.connection(copied)
			if !ok {
				return
			}
			seen[fd] = c
			if visit != nil {
				visit(fd, copied, c)
			}
		})
	}
	return seen
}

// each calls look with a copy of the descriptor, if it is a socket.
func (d *dataPort) each(fd int, look func(copied int)) {
	copied := int(d.copied.Fd())
	if fd == copied || unix.Dup3(fd, copied, unix.O_CLOEXEC) != nil {
		return
	}
	look(copied)
	_ = unix.Dup3(int(d.none.Fd()), copied, unix.O_CLOEXEC) // which lets go of the other
}

// connection reads a connection of libfabric's.
func (d *dataPort) connection(fd int) (c connection, ok bool) {
	local, err := unix.Getsockname(fd)
	if err != nil {
		return c, false
	}
	remote, err := unix.Getpeername(fd)
	if err != nil { // a socket that listens, or a connection that has ended
		return c, false
	}
	c = connection{addrPort(local), addrPort(remote)}
	return c, c.remote.IsValid() && !is(c.local, d.greets) && !d.others[c]
}

// is tells whether a socket's own address is that of a port, which may be on all addresses.
func is(local, port netip.AddrPort) bool {
	return local.Port() == port.Port() && (local.Addr() == port.Addr() || port.Addr().IsUnspecified())
}

// mayStay tells whether a connection is one of a sender that is served.
func (d *dataPort) mayStay(fd int, c connection) bool {
	if !d.serves(net.TCPAddrFromAddrPort(c.remote)) {
		return false
	}
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err != nil || !is(c.local, d.at) || info.Data_segs_out > 0
}

// addrPort is a socket's address without its zone; the zero value for other kinds.
func addrPort(address unix.Sockaddr) netip.AddrPort {
	switch a := address.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}
