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
	serves func(net.Addr) bool // whether a connection's host has a seat

	folder *os.File // of the process's descriptors
	none   *os.File // what the copy is of between two looks
	copied *os.File
	seen   map[int]netip.AddrPort // connections of the last look, by number: where they come from
}

// guardDataPort looks after the port, if there is one, until the context ends, and then closes stopped.
func guardDataPort(ctx context.Context, at netip.AddrPort, serves func(net.Addr) bool) (stopped <-chan struct{}, err error) {
	done := make(chan struct{})
	if !at.IsValid() {
		close(done)
		return done, nil
	}
	d := &dataPort{at: at, serves: serves}
	if err := d.open(); err != nil {
		d.close()
		return nil, fmt.Errorf("look after the data port: %w", err)
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

// look looks at all connections to the port, and shuts down those that should not be there.
func (d *dataPort) look() {
	if _, err := d.folder.Seek(0, 0); err != nil {
		return
	}
	names, _ := d.folder.Readdirnames(-1) // what could be read is looked at
	seen := make(map[int]netip.AddrPort)
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		d.each(fd, func(copied int) {
			from, ok := d.connection(copied)
			if !ok {
				return
			}
			seen[fd] = from
			if d.seen[fd] == from && !d.mayStay(copied, from) {
				_ = unix.Shutdown(copied, unix.SHUT_RDWR) // it has ended otherwise
			}
		})
	}
	d.seen = seen
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

// connection tells where a connection to the port comes from.
func (d *dataPort) connection(fd int) (from netip.AddrPort, ok bool) {
	local, err := unix.Getsockname(fd)
	if err != nil || addrPort(local) != d.at {
		return from, false
	}
	remote, err := unix.Getpeername(fd)
	if err != nil { // a socket that listens, or a connection that has ended
		return from, false
	}
	return addrPort(remote), true
}

// mayStay tells whether a connection is one of a sender.
func (d *dataPort) mayStay(fd int, from netip.AddrPort) bool {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err != nil || info.Data_segs_out > 0 && d.serves(net.TCPAddrFromAddrPort(from))
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
