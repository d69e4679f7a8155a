package filetransfer

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// visitor is a connection from an address.
type visitor struct {
	net.Conn
	address net.Addr
	closed  bool
}

func (v *visitor) RemoteAddr() net.Addr { return v.address }

func (v *visitor) Close() error {
	v.closed = true
	return nil
}

func visit(host string, port int) *visitor {
	return &visitor{address: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(host), uint16(port)))}
}

// TestDoorMakesRoomForNewcomers: the connection that has stood longest gives way, of the same host where that has many.
func TestDoorMakesRoomForNewcomers(t *testing.T) {
	d := door{places: doorPlaces}
	first := visit("192.0.2.1", 1)
	d.enter(first)
	var flood []*visitor
	for i := range 1000 {
		v := visit("192.0.2.2", 1+i)
		flood = append(flood, v)
		d.enter(v)
	}
	require.False(t, first.closed, "another host's flood")
	for i, v := range flood {
		require.Equal(t, i < 1000-doorPerHost, v.closed, i)
	}
	own := d.enter(visit("192.0.2.2", 2000))
	require.True(t, flood[1000-doorPerHost].closed)
	require.True(t, d.leave(own))
	require.False(t, d.leave(own))
	require.Len(t, d.guests, doorPerHost)

	for i := range doorPlaces {
		d.enter(visit(fmt.Sprintf("198.51.100.%d", i), 1))
		require.LessOrEqual(t, len(d.guests), doorPlaces)
	}
	require.True(t, first.closed, "many hosts' flood: the oldest goes")
}

// TestHostOf: a host with a network of IPv6 is one.
func TestHostOf(t *testing.T) {
	for address, host := range map[string]string{
		"192.0.2.1:7": "192.0.2.1", "[::ffff:192.0.2.1]:7": "192.0.2.1", "[2001:db8:1:2:3:4:5:6]:7": "2001:db8:1:2::",
		"[::1]:7": "::1",
	} {
		require.Equal(t, netip.MustParseAddr(host), HostOf(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))))
	}
	require.Equal(t, netip.Addr{}, HostOf(&net.UnixAddr{}))
}

// TestRoomLeavesDescriptorsForSeats: strangers cannot use up what those who are served need.
func TestRoomLeavesDescriptorsForSeats(t *testing.T) {
	for _, c := range []struct{ descriptors, seats, atDoor, inLine int }{
		{1 << 20, 8, doorPlaces, linePlaces}, {1024, 8, doorPlaces, 220}, {256, 8, 56, 28}, {64, 8, 8, 4}, {1024, 1024, 8, 4},
	} {
		atDoor, inLine := room(c.descriptors, c.seats)
		require.Equal(t, []int{c.atDoor, c.inLine}, []int{atDoor, inLine}, c)
	}
	require.Positive(t, descriptors())
}

func host(n byte) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, n}) }

func seated(w *waiter) bool {
	select {
	case <-w.turn:
		return true
	default:
		return false
	}
}

// enter is a sender that finds room, and place the place that it was told last.
func enter(t *testing.T, s *seats, n byte) *waiter {
	t.Helper()
	w, err := s.enter(host(n), nil)
	require.NoError(t, err)
	return w
}

func place(w *waiter) int {
	select {
	case p := <-w.place:
		return p
	default:
		return 0
	}
}

// TestSeatsGoToTheHostWithTheFewest: a host that takes all seats delays another host's sender by one transfer.
func TestSeatsGoToTheHostWithTheFewest(t *testing.T) {
	s := newSeats(2, linePlaces)
	a, b := enter(t, s, 1), enter(t, s, 1)
	require.True(t, seated(a))
	require.True(t, seated(b))
	third, fourth := enter(t, s, 1), enter(t, s, 1)
	require.False(t, seated(third))
	require.Equal(t, 1, place(third))
	require.Equal(t, 2, place(fourth))
	other := enter(t, s, 2)
	require.Equal(t, 1, place(other), "its host has no seat")
	require.Equal(t, 2, place(third))
	require.Equal(t, 3, place(fourth))
	require.ElementsMatch(t, []netip.Addr{host(1)}, s.hosts())

	s.leave(a)
	require.True(t, seated(other))
	require.False(t, seated(third))
	require.Equal(t, 1, place(third))
	require.ElementsMatch(t, []netip.Addr{host(1), host(2)}, s.hosts())
	s.leave(third) // it went away in line
	require.Equal(t, 1, place(fourth))
	s.leave(b)
	require.True(t, seated(fourth))
	s.leave(fourth)
	s.leave(other)
	require.Equal(t, 2, s.free)
	require.Empty(t, s.held)
	require.True(t, seated(enter(t, s, 3)))
}

// TestLineIsBounded: by host, and all together.
func TestLineIsBounded(t *testing.T) {
	s := newSeats(1, linePlaces)
	enter(t, s, 1)
	for range linePerHost {
		enter(t, s, 1)
	}
	_, err := s.enter(host(1), nil)
	require.ErrorIs(t, err, errLine)
	for i := range linePlaces - linePerHost {
		enter(t, s, byte(2+i/linePerHost))
	}
	_, err = s.enter(host(200), nil)
	require.ErrorIs(t, err, errLine)
	require.Len(t, s.line, linePlaces)
}

// TestUnusedSeatsAreTakenAway for a host that has none, from one that has several: the one that moved nothing for longest.
func TestUnusedSeatsAreTakenAway(t *testing.T) {
	const unused = 10 * time.Second
	s := newSeats(3, linePlaces)
	var ended []int
	var hogs []*waiter
	now := time.Now()
	for i := range 3 {
		w, err := s.enter(host(1), func(error) { ended = append(ended, i) })
		require.NoError(t, err)
		w.moved.Store(now.Add(time.Duration(-9-i) * time.Second).UnixNano()) // 9, 10 and 11 s ago
		hogs = append(hogs, w)
	}
	own := enter(t, s, 1)
	s.reclaim(own, now, unused)
	require.Empty(t, ended, "for its own host nothing is taken away")
	other := enter(t, s, 2)
	s.reclaim(other, now, unused)
	require.Equal(t, []int{2}, ended)
	s.leave(hogs[2])
	require.True(t, seated(other))
	s.reclaim(other, now, unused)
	require.Equal(t, []int{2}, ended, "it has a seat")
	third := enter(t, s, 3)
	hogs[1].progressed()
	s.reclaim(third, now, unused)
	require.Equal(t, []int{2}, ended, "all that are left were used")
	s.reclaim(third, now.Add(unused), unused)
	require.Equal(t, []int{2, 0}, ended)
}
