package railtest

import (
	"bytes"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine/rail"
)

// silentSize is so much that no queue between two rails holds it: a part is under way while the peer takes no turns. What is
// simulated has no queue.
func (w *world) silentSize() int {
	if w.suite.Virtual {
		return 8 << 10
	}
	return 8 << 20
}

// silence is a write to a peer that takes no turns, and a read from it, with what their memory had when they were posted.
type silence struct {
	a, b        *node
	atA         rail.PeerID
	size        int
	write, read rail.Op
	source, old []byte // of the write: what it sends, and what was there
}

// silence posts them and has the rail take some turns.
func (w *world) silence() *silence {
	w.Helper()
	most := w.silentSize()
	s := &silence{a: w.openWith(2*most, rail.LocalOnly), b: w.openWith(2*most, everything)}
	w.fill(s.a.memory)
	w.fill(s.b.memory)
	s.size = int(min(uint64(most), s.a.caps.MaxLength))
	s.source, s.old = bytes.Clone(s.a.memory[:s.size]), bytes.Clone(s.b.memory[:s.size])
	s.atA, _ = w.connect(s.a, s.b)
	s.write = s.a.op(rail.Write, 0, s.b.remote(), 0, s.size)
	s.read = s.a.op(rail.Read, most, s.b.remote(), most, s.size)
	s.a.postAll(s.atA, nil, s.write)
	if s.a.caps.Read {
		s.a.postAll(s.atA, nil, s.read)
	}
	for range w.random.IntN(8) {
		w.round([]*node{s.a})
	}
	return s
}

// refill gives the memory of operations that are over to something else, has the peer go on, and looks at whether anything of the
// operations happens yet.
func (s *silence) refill(goOn func(), ops ...rail.Op) {
	s.a.Helper()
	for _, o := range ops {
		s.a.fill(s.localOf(o))
	}
	had := bytes.Clone(s.a.memory)
	goOn()
	for _, o := range ops {
		if o.Kind == rail.Read {
			half := len(had) / 2
			s.a.requireBytes(had[half:], s.a.memory[half:], "memory of a read that was over changed")
			continue
		}
		for i, b := range s.b.memory[:s.size] {
			if b != s.source[i] && b != s.old[i] {
				s.a.Fatalf("byte %d at the peer is %#x: of what was in the memory once the write was over, since it was %#x, and then "+
					"%#x was sent", i, b, s.old[i], s.source[i])
			}
		}
	}
}

func (s *silence) localOf(o rail.Op) []byte {
	half := len(s.a.memory) / 2
	if o.Kind == rail.Read {
		return s.a.memory[half:]
	}
	return s.a.memory[:half]
}

// silentPeer gives up a peer that takes no turns, with operations in flight.
func silentPeer(w *world) {
	for range 3 {
		s := w.silence()
		s.a.rail.Disconnect(w.now(), s.atA)
		start := w.now()
		w.until("the peer is lost", func() bool { return s.a.isLost(s.atA) }, s.a)
		require.LessOrEqual(w, w.now().Sub(start), s.a.caps.DeathWithin+w.suite.limit(slack))
		if s.a.caps.Recalls {
			w.until("down, though the peer does nothing", func() bool { return s.a.isDown(s.atA) }, s.a)
		}
		over := slices.DeleteFunc([]rail.Op{s.write, s.read}, func(o rail.Op) bool {
			_, done := s.a.done[o.Token]
			return !done
		})
		s.refill(func() {
			w.pass(50*time.Millisecond, s.a, s.b)
			w.until("down once the peer goes on", func() bool { return s.a.isDown(s.atA) }, s.a, s.b)
		}, over...)
		require.NoError(w, s.a.close())
		require.NoError(w, s.b.close())
	}
}

// closedBesideSilence closes a rail with operations in flight to a peer that takes no turns.
func closedBesideSilence(w *world) {
	for range 3 {
		s := w.silence()
		require.NoError(w, s.a.rail.Close(), "with operations in flight, and memory registered")
		require.NoError(w, s.a.keys.Close(), "after the rail")
		s.a.closed = true
		s.refill(func() {
			w.until("the peer notices", func() bool { return len(s.b.downs) == 1 }, s.b)
			w.pass(20*time.Millisecond, s.b)
		}, s.write, s.read)
		require.NoError(w, s.b.close())
	}
}

// closedInTheMidst closes memory that a peer is writing to and reading from. What the memory has later stays as it is, and is not read.
func closedInTheMidst(w *world) {
	for begun := range 5 {
		most := w.silentSize()
		a, b := w.openWith(2*most, rail.LocalOnly), w.openWith(2*most, rail.LocalOnly)
		lent, err := b.rail.Register(b.memory, everything)
		require.NoError(w, err)
		w.fill(a.memory)
		w.fill(b.memory)
		size := int(min(uint64(most), a.caps.MaxLength))
		atA, _ := w.connect(a, b)
		a.postAll(atA, []*node{b}, a.op(rail.Write, 0, remoteOf(lent), 0, size))
		if a.caps.Read {
			a.postAll(atA, []*node{b}, a.op(rail.Read, most, remoteOf(lent), most, size))
		}
		for range w.random.IntN(1 + 8*begun) {
			w.round([]*node{a, b})
		}
		old, had := bytes.Clone(b.memory[most:]), bytes.Clone(a.memory[most:])
		require.NoError(w, lent.Close())
		if lingerer, can := lent.(rail.Lingerer); can {
			w.until("nobody uses the memory", func() bool { return !lingerer.InUse() }, a, b)
		}
		w.fill(b.memory)
		another := bytes.Clone(b.memory)
		w.pass(50*time.Millisecond, a, b)
		w.until("the operations are over", a.idle, a, b)
		w.requireBytes(another, b.memory, "memory was written to after it was closed")
		for i, x := range a.memory[most:][:size] {
			if x != old[i] && x != had[i] {
				w.Fatalf("byte %d of what was read is %#x, which came into the memory after it was closed", i, x)
			}
		}
		require.NoError(w, a.close())
		require.NoError(w, b.close())
	}
}
