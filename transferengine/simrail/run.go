package simrail

import (
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
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
type Run struct {
	network *Network
	random  *rand.Rand
	clock   time.Time
	turners []Turner
	hash    hash.Hash64
	rounds  int
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
	return &Run{network: n, random: rand.New(rand.NewPCG(n.config.Seed, 1)), clock: start, turners: turners,
		hash: fnv.New64a()}
}

// Add has another engine take turns from now on.
func (r *Run) Add(t Turner) { r.turners = append(r.turners, t) }

// Now is the virtual time.
func (r *Run) Now() time.Time { return r.clock }

// Advance moves the clock on.
func (r *Run) Advance(d time.Duration) { r.clock = r.clock.Add(d) }

// Round has every engine take a turn, and moves the clock to what is due next if none did anything. It returns false when
// there is nothing left to do.
func (r *Run) Round() (did bool) {
	var next time.Time
	for _, i := range r.random.Perm(len(r.turners)) {
		n, due := r.turners[i].Turn(r.clock)
		if n > 0 {
			did = true
			r.note(i, n)
		}
		if !due.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	r.rounds++
	if !did && next.After(r.clock) {
		r.clock = next
		return true
	}
	return did
}

// note adds a turn that did something to the hash.
func (r *Run) note(i, did int) {
	var b [24]byte
	binary.BigEndian.PutUint64(b[:], uint64(i))
	binary.BigEndian.PutUint64(b[8:], uint64(did))
	binary.BigEndian.PutUint64(b[16:], uint64(r.clock.UnixNano()))
	r.hash.Write(b[:])
}

// Until goes on until the condition holds. The error, when it never does, names the seed.
func (r *Run) Until(met func() bool) error {
	quiet := 0
	for range maxRounds {
		if met() {
			return nil
		}
		if quiet++; r.Round() {
			quiet = 0
		}
		if quiet == quietRounds {
			return fmt.Errorf("simrail: nothing is left to happen at %v and the condition does not hold (seed %d)",
				r.clock.Format(time.TimeOnly), r.network.Seed())
		}
	}
	return fmt.Errorf("simrail: the condition does not hold after %d rounds (seed %d)", maxRounds, r.network.Seed())
}

// Settle goes on until nothing is left to happen. The error, when that is never so, names the seed.
func (r *Run) Settle() error {
	quiet := 0
	for range maxRounds {
		if quiet++; r.Round() {
			quiet = 0
		}
		if quiet == quietRounds {
			return nil
		}
	}
	return fmt.Errorf("simrail: there is still something to do after %d rounds (seed %d)", maxRounds, r.network.Seed())
}

// Hash sums up what happened: which engine did how much, and when. Runs of one seed have the same.
func (r *Run) Hash() uint64 { return r.hash.Sum64() }
