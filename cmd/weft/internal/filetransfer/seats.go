package filetransfer

// Seats.
//
// A sender that is served has a seat: registered memory, and a peer of the engine. Senders for whom there is none wait in line.
// A seat that becomes free goes to the host that has the fewest, and among equals to the sender that came first: a host that
// takes all seats and has more senders in line delays another host's sender by one transfer, not by all of its own. Nor can it
// keep its seats without using them: while another host waits that has at least two seats less, the one that has moved nothing
// for longest, and for longer than Timeouts.Handshake, is taken away.
//
// mu guards all fields. A waiter's turn and place are channels of one element, written under mu and never full twice: place is
// emptied before it is written.

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// linePlaces is how many senders wait at a time, and linePerHost how many of them may be of one host.
	linePlaces  = 256
	linePerHost = 64
)

// errLine is the error of a sender for whom there is no place in line.
var errLine = errors.New("too many senders wait already: try again later, or start the receiver with more --seats")

// seats are the seats of a receiver.
type seats struct {
	mu     sync.Mutex
	free   int
	places int // in line
	seated map[*waiter]struct{}
	held   map[netip.Addr]int
	line   []*waiter // in the order in which they came
}

// waiter is a sender in line.
type waiter struct {
	host  netip.Addr
	turn  chan struct{} // closed when it has a seat
	place chan int      // the last place that it has not been told
	last  int           // the place that was written to it last

	end   func(error)  // ends its session
	moved atomic.Int64 // when it has moved something, or got its seat, in nanoseconds since 1970
}

// progressed notes that the sender has moved something.
func (w *waiter) progressed() { w.moved.Store(time.Now().UnixNano()) }

func newSeats(n, places int) *seats {
	return &seats{free: n, places: places, seated: make(map[*waiter]struct{}), held: make(map[netip.Addr]int)}
}

// hosts are those that have seats.
func (s *seats) hosts() []netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.held))
}

// enter takes a seat, or a place in line, for a session that end ends. The caller leaves it in any case, unless there is an error.
func (s *seats) enter(host netip.Addr, end func(error)) (*waiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &waiter{host: host, end: end, turn: make(chan struct{}), place: make(chan int, 1)}
	if s.free > 0 { // then nobody waits
		s.seat(w)
		return w, nil
	}
	of := 0
	for _, other := range s.line {
		if other.host == host {
			of++
		}
	}
	if len(s.line) >= s.places || of >= linePerHost {
		return nil, fmt.Errorf("%d of %d, %d of %d of one host: %w", len(s.line), s.places, of, linePerHost, errLine)
	}
	s.line = append(s.line, w)
	s.tell()
	return w, nil
}

// leave gives the seat back, or the place in line up.
func (s *seats) leave(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.line, w); i >= 0 {
		s.line = slices.Delete(s.line, i, i+1)
		s.tell()
		return
	}
	s.free++
	delete(s.seated, w)
	if s.held[w.host]--; s.held[w.host] == 0 {
		delete(s.held, w.host)
	}
	if len(s.line) > 0 {
		next := s.order()[0]
		s.line = slices.DeleteFunc(s.line, func(other *waiter) bool { return other == next })
		s.seat(next)
		s.tell()
	}
}

// seat gives a waiter a seat.
func (s *seats) seat(w *waiter) {
	s.free--
	s.seated[w] = struct{}{}
	s.held[w.host]++
	w.progressed()
	close(w.turn)
}

// reclaim takes a seat away for a waiter whose host has fewer, if one has not been used for that long.
func (s *seats) reclaim(w *waiter, now time.Time, unused time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var idle *waiter
	oldest := now.Add(-unused).UnixNano()
	for other := range s.seated {
		if moved := other.moved.Load(); moved <= oldest && s.held[other.host] >= s.held[w.host]+2 {
			idle, oldest = other, moved
		}
	}
	if idle != nil && slices.Contains(s.line, w) {
		idle.end(fmt.Errorf("it moved nothing for %v while other hosts wait for a seat", unused))
	}
}

// order is the line in the order in which it will be served, if all seats take equally long.
func (s *seats) order() []*waiter {
	type rank struct {
		w    *waiter
		turn int // how many seats its host will have had by then
	}
	ranks := make([]rank, 0, len(s.line))
	before := make(map[netip.Addr]int)
	for _, w := range s.line {
		ranks = append(ranks, rank{w, s.held[w.host] + before[w.host]})
		before[w.host]++
	}
	slices.SortStableFunc(ranks, func(a, b rank) int { return a.turn - b.turn })
	order := make([]*waiter, len(ranks))
	for i, r := range ranks {
		order[i] = r.w
	}
	return order
}

// tell writes to each waiter its place, where that has changed.
func (s *seats) tell() {
	for i, w := range s.order() {
		if w.last == i+1 {
			continue
		}
		w.last = i + 1
		select {
		case <-w.place:
		default:
		}
		w.place <- w.last
	}
}
