package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/weftrdma/weft/cmd/weft/internal/wire"
)

// A receiver says whom it has turned away, and why, but no more than sayMost of them every sayEvery: how much it writes is not
// for strangers to choose. How many went unsaid comes with the next one that is said.
const (
	sayMost  = 10
	sayEvery = time.Minute
)

// turnedAway says on out who was turned away.
type turnedAway struct {
	out io.Writer

	mu     sync.Mutex
	since  time.Time
	said   int // since then
	unsaid int
}

func (t *turnedAway) say(peer string, err error) { t.sayAt(time.Now(), peer, err) }

func (t *turnedAway) sayAt(now time.Time, peer string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.since) >= sayEvery {
		t.since, t.said = now, 0
	}
	if t.said == sayMost {
		t.unsaid++
		return
	}
	t.said++
	if t.unsaid > 0 {
		fmt.Fprintf(t.out, "weft: %d more were turned away\n", t.unsaid)
		t.unsaid = 0
	}
	fmt.Fprintf(t.out, "weft: turned away %s: %s\n", peer, wire.Printable(err.Error()))
}
