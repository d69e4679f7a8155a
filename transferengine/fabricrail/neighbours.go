package fabricrail

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weftrdma/weft/fabric"
)

// shm keeps a list of the endpoints of a process, and lets them point into one another's memory, as whoever sends to another
// makes itself known there. An endpoint that is closed leaves the others with pointers to what is no longer mapped: they fall
// over them when they post, when they take what it sent last, and when they are closed (all three seen). So a rail that is
// closed leaves its endpoint open until every neighbour, which is a rail on shm in this process, has taken what it sent and
// has removed it from its address vector: each does so in a turn of its own, or when it is closed itself. The last one closes
// the endpoint. There is one list of a process, since the library's is one.
var neighbours neighbourhood

type neighbourhood struct {
	mu   sync.Mutex
	here map[*neighbour]struct{} // whose rails are open, or were closed and whose endpoints are not
}

// neighbour is what the rails of this process know of one on shm.
type neighbour struct {
	name string // of the endpoint

	// Below the neighbourhood's lock.
	left     bool         // the rail is closed
	holders  int          // then: how many have not let go of it
	departed []*neighbour // those that left and that this one has not let go of
	close    func() error // of the endpoint, and what it stands on

	leaving atomic.Bool // there are such
}

// enter adds a rail whose endpoint has that name.
func (h *neighbourhood) enter(name string) *neighbour {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.here == nil {
		h.here = make(map[*neighbour]struct{})
	}
	n := &neighbour{name: name}
	h.here[n] = struct{}{}
	return n
}

// others are all that are here but one.
func (h *neighbourhood) others(than *neighbour) (all []*neighbour) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := range h.here {
		if n != than {
			all = append(all, n)
		}
	}
	return all
}

// departures are those that left and that n has not let go of.
func (h *neighbourhood) departures(n *neighbour) []*neighbour {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(n.departed)
}

// letGo says that n points nowhere into the memory of one that left, and closes that one's endpoint if it was the last that
// might have.
func (h *neighbourhood) letGo(n, of *neighbour) error {
	h.mu.Lock()
	n.departed = slices.DeleteFunc(n.departed, func(d *neighbour) bool { return d == of })
	n.leaving.Store(len(n.departed) > 0)
	of.holders--
	last := h.closes(of)
	h.mu.Unlock()
	if !last {
		return nil
	}
	return of.close()
}

// leave takes a rail away, which points to no other one any more. Its endpoint is closed when they have let go of it.
func (h *neighbourhood) leave(n *neighbour, closeEndpoint func() error) error {
	h.mu.Lock()
	ended := append(n.departed, n)
	for _, d := range n.departed {
		d.holders--
	}
	n.departed, n.left, n.close = nil, true, closeEndpoint
	for other := range h.here {
		if !other.left {
			n.holders++
			other.departed = append(other.departed, n)
			other.leaving.Store(true)
		}
	}
	ended = slices.DeleteFunc(ended, func(d *neighbour) bool { return !h.closes(d) })
	h.mu.Unlock()
	var errs []error
	for _, d := range ended {
		errs = append(errs, d.close())
	}
	return errors.Join(errs...)
}

// closes takes one off the list whose endpoint is to be closed now.
func (h *neighbourhood) closes(n *neighbour) bool {
	if !n.left || n.holders > 0 {
		return false
	}
	delete(h.here, n)
	return true
}

// partFromDeparted lets go of neighbours that have left. Everything that they sent has been taken.
func (r *Rail) partFromDeparted() {
	for _, d := range neighbours.departures(r.neighbour) {
		to := r.remotes[d.name]
		if to != nil && (to.users > 0 || to.sends > 0 || to.unsettled) {
			continue // until its connection is buried, or this rail is closed
		}
		if r.removeNeighbour(d) != nil {
			return // stuck
		}
		r.leftovers = errors.Join(r.leftovers, neighbours.letGo(r.neighbour, d))
	}
}

// removeNeighbour takes a neighbour out of the address vector, whether the rail put it there or it made itself known.
func (r *Rail) removeNeighbour(n *neighbour) error {
	var err error
	if to := r.remotes[n.name]; to != nil {
		delete(r.remotes, n.name)
		err = r.av.Remove(to.addr)
		_ = to.bell.close()
	} else if addrs, inserting := r.av.Insert([]byte(n.name)); inserting == nil {
		err = r.av.Remove(addrs[0])
	} else {
		err = inserting
	}
	if errors.Is(err, fabric.ErrBroken) {
		return errStuck
	}
	return nil
}
