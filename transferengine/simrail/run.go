package simrail

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Turner is what a Run drives: an engine that was opened with Progress: transferengine.Manual.
type Turner interface {
	// Turn does a turn at the time. It returns how many things it did, and when the next one is due at the latest.
	Turn(now time.Time) (did int, next time.Time)
}

// Run drives engines of a network from one goroutine under a virtual clock. In each round every engine takes a turn, in an
// order that the network's seed decides; when nothing is left to do the clock moves to what is due next.
//
// What blocks, as an engine's Connect, is called from another goroutine while this one does rounds. If nothing was left to happen
// before the call, and Settle follows when it has returned, it does not matter how many rounds there were: the seed replays the
// run all the same.
type Run struct {
	network *Network
	random  *rand.Rand
	clock   time.Time
	turners []Turner
	order   []int // of this round, and of the next if nothing happens in this one
}

const (
	// maxRounds is how many rounds Until and Settle have patience for.
	maxRounds = 1 << 20
	// quietRounds is after how many rounds without anything nothing is left to happen: a rail may need one to see what
	// another one's turn has done.
	quietRounds = 3
)

// NewRun makes a run, whose clock stands at start.
func (n *Network) NewRun(start time.Time, turners ...Turner) *Run {
	return &Run{network: n, random: rand.New(rand.NewPCG(n.config.Seed, 1)), clock: start, turners: turners}
}

// Add has another engine take turns from now on.
func (r *Run) Add(t Turner) { r.turners, r.order = append(r.turners, t), nil }

// Now is the virtual time.
func (r *Run) Now() time.Time { return r.clock }

// Advance moves the clock on.
func (r *Run) Advance(d time.Duration) { r.clock = r.clock.Add(d) }

// Round has every engine take a turn, and moves the clock to what is due next if none did anything. It returns false when
// there is nothing left to do.
func (r *Run) Round() (did bool) {
	if r.order == nil {
		r.order = r.random.Perm(len(r.turners))
	}
	var next time.Time
	for _, i := range r.order {
		n, due := r.turners[i].Turn(r.clock)
		did = did || n > 0
		if !due.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	if did {
		r.order = nil
	} else if next.After(r.clock) {
		r.clock = next
		return true
	}
	return did
}

// Until goes on until the condition holds. The error, when it never does, names the seed.
func (r *Run) Until(met func() bool) error {
	switch holds, quiet := r.goOn(met); {
	case holds:
		return nil
	case quiet:
		return fmt.Errorf("simrail: nothing is left to happen at %v and the condition does not hold (seed %d)",
			r.clock.Format(time.TimeOnly), r.network.Seed())
	}
	return fmt.Errorf("simrail: the condition does not hold after %d rounds (seed %d)", maxRounds, r.network.Seed())
}

// Settle goes on until nothing is left to happen. The error, when that is never so, names the seed.
func (r *Run) Settle() error {
	if _, quiet := r.goOn(func() bool { return false }); !quiet {
		return fmt.Errorf("simrail: there is still something to do after %d rounds (seed %d)", maxRounds, r.network.Seed())
	}
	return nil
}

// goOn does rounds until the condition holds, or nothing is left to happen, or patience ends.
func (r *Run) goOn(met func() bool) (holds, quiet bool) {
	idle := 0
	for range maxRounds {
		if met() {
			return true, false
		}
		if idle++; r.Round() {
			idle = 0
		}
		if idle == quietRounds {
			return false, true
		}
	}
	return false, false
}
