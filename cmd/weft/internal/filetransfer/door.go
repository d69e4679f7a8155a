package filetransfer

// Strangers at the door.
//
// Anybody can connect. Until a sender has said who it is, its connection is at the door: it holds a descriptor, a goroutine and
// a few KiB, no seat and no registered memory, and for Timeouts.Greeting at most. Each host has doorPerHost places there and all
// together have doorPlaces, or fewer where the process may have few descriptors: those of the seats are not for strangers. When one is missing the connection that has stood there longest gives way, first among those of the
// same host: an honest greeting takes two round trips, so what stands long is idle, and a flood of idle connections, even from
// its own host, does not keep an honest sender out.

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
)

const (
	doorPerHost = 32
	doorPlaces  = 256
)

// What a receiver needs of its descriptors: for itself, and for each seat (a connection, two of the rail's, folders and a file).
const (
	ownDescriptors  = 64
	seatDescriptors = 10
)

// room is how many connections without a seat there may be at the door and in line, of so many descriptors.
func room(descriptors, seats int) (atDoor, inLine int) {
	spare := max(descriptors-ownDescriptors-seatDescriptors*seats, 16)
	return min(doorPlaces, spare/2), min(linePlaces, spare/4)
}

// descriptors is how many this process may have.
func descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 256 // what every system allows
	}
	return int(min(limit.Cur, 1<<20))
}

// door is where connections stand that have not said who they are.
type door struct {
	places int
	mu     sync.Mutex
	guests []*guest // in the order in which they came
}

// guest is a connection at the door.
type guest struct {
	conn net.Conn
	host netip.Addr
}

// enter takes a connection in. Whoever gives way for it finds its own closed.
func (d *door) enter(conn net.Conn) *guest {
	g := &guest{conn: conn, host: HostOf(conn.RemoteAddr())}
	d.mu.Lock()
	defer d.mu.Unlock()
	if oldest, n := d.of(g.host); n >= doorPerHost {
		d.remove(oldest)
		_ = oldest.conn.Close()
	} else if len(d.guests) >= d.places {
		oldest := d.guests[0]
		d.remove(oldest)
		_ = oldest.conn.Close()
	}
	d.guests = append(d.guests, g)
	return g
}

// of returns the guest of a host that came first, and how many the host has.
func (d *door) of(host netip.Addr) (oldest *guest, n int) {
	for _, g := range d.guests {
		if g.host == host {
			if n++; n == 1 {
				oldest = g
			}
		}
	}
	return oldest, n
}

// leave takes a guest off the door. False: it has given way to another one, and its connection is closed.
func (d *door) leave(g *guest) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.remove(g)
}

func (d *door) remove(g *guest) bool {
	i := slices.Index(d.guests, g)
	if i >= 0 {
		d.guests = slices.Delete(d.guests, i, i+1)
	}
	return i >= 0
}

// HostOf is what limits count by: the address without the port, and of IPv6 the network of 64 bits, in which a host can have
// as many addresses as it likes.
func HostOf(address net.Addr) netip.Addr {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	host := tcp.AddrPort().Addr().Unmap().WithZone("")
	if host.Is6() && !host.IsLoopback() {
		network, _ := host.Prefix(64) // 64 bits are in range
		return network.Addr()
	}
	return host
}
