package fabricrail

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/weftrdma/weft/fabric"
)

// Strangers at the port.
//
// libfabric takes connections by itself, and keeps one that sends nothing, or not enough, for as long as its other end likes. So the
// rail looks at its own sockets. A connection that no whole request came on is a stranger's: it is ended after strangerTimeout, and
// sooner, the oldest first, where there are more than maxStrangers, or maxPerAddress from one address. A peer's request comes within
// a round trip, so the oldest is hardly a peer's. One read of the event queue takes at most one connection. Hence at most
// looksPerScan strangers come between two looks at the sockets, however many call.
//
// Requests that are whole and have the rail's key may be without a connection, too: from somebody who was told the address and says no
// hello. The links made for these have the same limits, and linkTimeout.
const (
	strangerTimeout = 2 * time.Second
	maxStrangers    = 64
	maxPerAddress   = 16
	looksPerScan    = 32
	scanInterval    = 250 * time.Millisecond

	// requestBytes is the whole of the provider's message: its struct ofi_ctrl_hdr, and the rail's request.
	requestBytes = 32 + requestSize
)

// strangers is what is known of them.
type strangers struct {
	at      netip.AddrPort
	folder  *os.File                     // of the process's descriptors
	seen    map[netip.AddrPort]time.Time // when each was seen first
	looks   int                          // at events, since the sockets were looked at
	scanned time.Time
}

// open finds the socket of a listener.
func (s *strangers) open(name []byte) error {
	at, ok := socketAddress(name)
	if !ok {
		return fmt.Errorf("the listener's name of %d bytes is no socket address", len(name))
	}
	s.at, s.seen = at, make(map[netip.AddrPort]time.Time)
	var err error
	if s.folder, err = openFolder(); err != nil {
		return fmt.Errorf("look at this process's sockets: %w", err)
	}
	for _, own := range sockets(s.folder, at) {
		if !own.remote.IsValid() {
			return own.only(requestBytes)
		}
	}
	return errors.New("the listener's socket is not among those of this process")
}

func (s *strangers) close() error {
	if s.folder == nil {
		return nil
	}
	return s.folder.Close()
}

// admit makes the socket of a peer's endpoint, which has sent a whole request, an ordinary one.
func (s *strangers) admit(ep *fabric.Endpoint) (from netip.AddrPort, err error) {
	name, err := ep.Peer()
	if err != nil {
		return from, err
	}
	from, ok := socketAddress(name)
	if ok {
		for _, its := range sockets(s.folder, s.at) {
			if its.remote == from {
				return from, its.only(1)
			}
		}
	}
	return from, errors.New("its socket is not among those of this process")
}

// due tells whether the sockets are to be looked at, and when otherwise.
func (s *strangers) due(now time.Time) (due bool, next time.Time) {
	if s.looks == 0 && len(s.seen) == 0 {
		return false, next
	}
	next = s.scanned.Add(scanInterval)
	return s.looks >= looksPerScan || !now.Before(next), next
}

// scan looks at the sockets, and ends those of strangers that are too many or have had their time.
func (s *strangers) scan(now time.Time, known func(netip.AddrPort) bool) {
	s.scanned, s.looks = now, 0
	var list []socket
	seen := make(map[netip.AddrPort]time.Time)
	for _, its := range sockets(s.folder, s.at) {
		if !its.remote.IsValid() || known(its.remote) {
			continue
		}
		since, before := s.seen[its.remote]
		if !before {
			since = now
		}
		seen[its.remote] = since
		list = append(list, its)
	}
	s.seen = seen
	slices.SortFunc(list, func(a, b socket) int { return cmp.Compare(seen[b.remote].UnixNano(), seen[a.remote].UnixNano()) })
	from := make(map[netip.Addr]int)
	for i, its := range list { // the newest first
		address := its.remote.Addr().Unmap()
		from[address]++
		if i >= maxStrangers || from[address] > maxPerAddress || now.Sub(seen[its.remote]) >= strangerTimeout {
			its.end()
		}
	}
}

// crowded tells whether there are enough links from an address that serve nothing.
func (t *connected) crowded(from netip.AddrPort) bool {
	all, its := 0, 0
	for _, l := range t.all {
		if l.users == 0 && !l.called && !l.loop {
			all++
			if l.from.Addr() == from.Addr() {
				its++
			}
		}
	}
	return all >= maxStrangers || its >= maxPerAddress
}

// known tells of a remote end whether a link, or a request that waits, is its.
func (t *connected) known(remote netip.AddrPort) bool {
	for _, l := range t.all {
		if l.from == remote {
			return true
		}
	}
	for _, w := range t.requests {
		if from, ok := socketAddress(w.event.Info.DestAddr); ok && from == remote {
			return true
		}
	}
	return false
}
