package railtest

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

var errPlanted = errors.New("planted")

// each changes every operation before it is posted.
func each(change func(r *buggy, o *rail.Op)) func(*buggy, rail.PeerID, []rail.Op) (int, error) {
	return func(r *buggy, peer rail.PeerID, ops []rail.Op) (int, error) {
		for i := range ops {
			change(r, &ops[i])
		}
		return r.Rail.Post(peer, ops)
	}
}

// drop forgets every n-th event of a kind; double tells of it twice.
func drop(kind rail.EventKind, n int) func(*buggy, rail.Event) []rail.Event {
	return sometimes(kind, n, func(rail.Event) []rail.Event { return nil })
}

func double(kind rail.EventKind, n int) func(*buggy, rail.Event) []rail.Event {
	return sometimes(kind, n, func(e rail.Event) []rail.Event { return []rail.Event{e, e} })
}

func sometimes(kind rail.EventKind, n int, change func(rail.Event) []rail.Event) func(*buggy, rail.Event) []rail.Event {
	return func(r *buggy, e rail.Event) []rail.Event {
		if e.Kind == kind {
			if r.count++; r.count%n == 0 {
				return change(e)
			}
		}
		return []rail.Event{e}
	}
}

// without has an error of completions become nil.
func without(r *buggy, e rail.Event) []rail.Event {
	if e.Kind == rail.Completed {
		e.Err = nil
	}
	return []rail.Event{e}
}

// hidden is the token of an operation that the engine knows nothing of.
const hidden = math.MaxUint64

// hide keeps the completions of such operations back.
func hide(_ *buggy, e rail.Event) []rail.Event {
	if e.Token == hidden {
		return nil
	}
	return []rail.Event{e}
}

// halves sends the second half of what has an immediate after it.
func halves(r *buggy, peer rail.PeerID, ops []rail.Op) (n int, err error) {
	for i := range ops {
		first, second := ops[i], ops[i]
		first.Length /= 2
		second.LocalAddr, second.RemoteAddr = second.LocalAddr+first.Length, second.RemoteAddr+first.Length
		second.Length, second.HasImm, second.Token = second.Length-first.Length, false, hidden
		if n, err = r.Rail.Post(peer, []rail.Op{first, second}); n == 0 || err != nil {
			return i, err
		}
	}
	return len(ops), nil
}

// confuse gives out the key of the registration before.
func confuse(r *buggy, memory []byte, access rail.Access) (rail.Registration, error) {
	keys, err := r.Rail.Register(memory, access)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loot = append(r.loot, keys)
	return confused{keys, r.loot[max(len(r.loot)-2, 0)].(rail.Registration)}, nil
}

type confused struct {
	rail.Registration
	before rail.Registration
}

func (c confused) RemoteKey() uint64 { return c.before.RemoteKey() }

// procrastinate posts what it was given at the next Post.
func procrastinate(r *buggy, peer rail.PeerID, ops []rail.Op) (int, error) {
	for _, late := range r.loot {
		_, _ = r.Rail.Post(peer, late.([]rail.Op))
	}
	ops = ops[:min(len(ops), r.Caps().MaxBatch)]
	r.loot = []any{ops}
	return len(ops), nil
}

// impatient gives up every peer after a second without a turn.
func impatient(r *buggy, now time.Time, events []rail.Event) (int, time.Time) {
	pause := now.Sub(r.last)
	n, next := r.Rail.Turn(now, events)
	for _, e := range events[:n] {
		if e.Kind == rail.PeerUp {
			r.loot = append(r.loot, e.Peer)
		}
	}
	for _, peer := range r.loot {
		if pause > time.Second && !r.last.IsZero() {
			r.Rail.Disconnect(now, peer.(rail.PeerID))
		}
	}
	r.last = now
	return n, next
}

// hoard accepts operations that it cannot post yet, one at a time, once much was accepted, and unload posts them.
func hoard(r *buggy, peer rail.PeerID, ops []rail.Op) (int, error) {
	n, err := r.Rail.Post(peer, ops)
	r.count += n
	if n == 1 || err != nil || r.count < 1<<11 || len(r.loot) == 1000 {
		return n, err
	}
	kept := slices.Clone(ops)
	r.loot = append(r.loot, func() bool { n, _ := r.Rail.Post(peer, kept); return n == 1 })
	return 1, nil
}

func unload(r *buggy, now time.Time, events []rail.Event) (int, time.Time) {
	for len(r.loot) > 0 && r.loot[0].(func() bool)() {
		r.loot = r.loot[1:]
	}
	return r.Rail.Turn(now, events)
}

// early reports a peer that is given up at once.
func early(r *buggy, now time.Time, peer rail.PeerID) {
	r.extra = append(r.extra, rail.Event{Kind: rail.PeerLost, Peer: peer, Err: net.ErrClosed},
		rail.Event{Kind: rail.PeerDown, Peer: peer, Err: net.ErrClosed})
	r.Rail.Disconnect(now, peer)
}

// guess says that nothing lands any more, and gives up nothing.
func guess(r *buggy, _ time.Time, peer rail.PeerID) {
	for _, o := range r.flying {
		r.extra = append(r.extra, rail.Event{Kind: rail.Completed, Peer: peer, Token: o.Token, Err: rail.ErrFlushed})
	}
	r.extra = append(r.extra, rail.Event{Kind: rail.PeerLost, Peer: peer, Err: net.ErrClosed},
		rail.Event{Kind: rail.PeerDown, Peer: peer, Err: net.ErrClosed, Proven: true})
	r.flying = nil
}

// notes keeps the operations that were accepted, of which guess tells.
func notes(r *buggy, peer rail.PeerID, ops []rail.Op) (int, error) {
	n, err := r.Rail.Post(peer, ops)
	r.flying = append(r.flying, ops[:n]...)
	return n, err
}

// silent says nothing of operations that guess told of.
func silent(r *buggy, e rail.Event) []rail.Event {
	if e.Kind == rail.Completed {
		return nil
	}
	return []rail.Event{e}
}

// plants are all bugs.
func plants() []plant {
	return slices.Concat(connectionPlants(), dataPlants(), flowPlants(), messagePlants(), refusalPlants(), endPlants(), silencePlants(), loadPlants())
}

func connectionPlants() []plant {
	return []plant{
		{clause: "describes itself", bug: "a name without a device", says: "to match", name: "buggy"},
		{clause: "describes itself", bug: "no way to notice a death", says: "Should not be zero",
			caps: func(c *rail.Caps) { c.DeathBy = 0 }},
		{clause: "connects", bug: "every Connect is another peer", says: "it is connected",
			connect: func(r *buggy, id rail.PeerID, _ []byte) (rail.PeerID, error) {
				r.count++
				return id + rail.PeerID(r.count/2)<<20, nil
			}},
		{clause: "connects", bug: "a peer is not described", says: "nothing says who it is",
			event: sometimes(rail.PeerUp, 1, func(e rail.Event) []rail.Event {
				e.Info = nil
				return []rail.Event{e}
			})},
		{clause: "connects", bug: "a peer is described as another", says: "192.0.2.2",
			event: sometimes(rail.PeerUp, 1, func(e rail.Event) []rail.Event {
				e.Info = &rail.PeerInfo{Name: "another"}
				return []rail.Event{e}
			})},
		{clause: "connects from both sides at once", bug: "both connections come up", says: "comes up twice",
			event: double(rail.PeerUp, 1)},
		{clause: "a peer that is expected", bug: "it is called", says: "nobody came",
			expect: func(r *buggy, now time.Time, address []byte, deadline time.Time) (rail.PeerID, error) {
				return r.Connect(now, address, deadline)
			}},
		{clause: "a peer that is expected", bug: "who expects it twice calls it", says: "nothing is sent",
			expect: func(r *buggy, now time.Time, address []byte, deadline time.Time) (rail.PeerID, error) {
				if r.count++; r.count == 3 {
					return r.Connect(now, address, deadline)
				}
				return r.Rail.Expect(now, address, deadline)
			}},
		{clause: "several peers", bug: "all immediates are the first one's", says: "who sent an immediate",
			event: func(r *buggy, e rail.Event) []rail.Event {
				if e.Kind == rail.PeerUp && len(r.loot) == 0 {
					r.loot = append(r.loot, e.Peer)
				}
				if e.Kind == rail.Immediate {
					e.Peer = r.loot[0].(rail.PeerID)
				}
				return []rail.Event{e}
			}},
		{clause: "loops back to itself", bug: "its own address is refused", says: "planted",
			connect: func(r *buggy, id rail.PeerID, address []byte) (rail.PeerID, error) {
				if string(address) == string(r.Address()) {
					return 0, errPlanted
				}
				return id, nil
			}},
		{clause: "nobody answers", bug: "nobody is told", says: "hold: down", event: drop(rail.PeerDown, 1)},
		{clause: "nobody answers", bug: "the error is another", says: "peer does not answer",
			event: sometimes(rail.PeerDown, 1, func(e rail.Event) []rail.Event {
				e.Err = errPlanted
				return []rail.Event{e}
			})},
	}
}

func dataPlants() []plant {
	return []plant{
		{clause: "writes of all sizes", bug: "the last byte of an odd page", says: "1 of 1048576 bytes are wrong",
			post: each(func(_ *buggy, o *rail.Op) {
				if o.Length%4096 == 1 && o.Length > 1 {
					o.Length--
				}
			})},
		{clause: "writes of all sizes", bug: "memory is rounded to words", says: "bytes are wrong",
			post: each(func(_ *buggy, o *rail.Op) {
				o.RemoteAddr &^= 3
			})},
		{clause: "writes without bytes", bug: "nothing to write, nothing to say", says: "hold: the immediates",
			post: each(func(_ *buggy, o *rail.Op) {
				o.HasImm = o.HasImm && o.Length > 0
			})},
		{clause: "writes without bytes", bug: "every write has an immediate", says: "hold: the immediates",
			post: each(func(_ *buggy, o *rail.Op) { o.HasImm = true })},
		{clause: "large writes", bug: "lengths of 25 bits", says: "33554432 of 41943040 bytes are wrong",
			post: each(func(_ *buggy, o *rail.Op) { o.Length &= 1<<25 - 1 })},
		{clause: "immediates count once", bug: "one in 700 comes twice", says: "2002", event: double(rail.Immediate, 700)},
		{clause: "immediates count once", bug: "one in 700 is lost", says: "hold: all immediates",
			event: drop(rail.Immediate, 700)},
		{clause: "immediates count once", bug: "the top byte is lost", says: "immediate ",
			post: each(func(_ *buggy, o *rail.Op) { o.Imm &= 1<<20 - 1 })},
		{clause: "immediates come after their bytes", bug: "the second half comes after", says: "the last bytes",
			network: simrail.Config{Delay: time.Millisecond},
			post:    halves, event: hide},
		{clause: "order that is promised", bug: "there is none", says: "what was posted before the immediate",
			network: simrail.Config{Delay: time.Millisecond}, caps: func(c *rail.Caps) { c.Ordered = true }},
		{clause: "what is delivered is in place", bug: "done when it is posted", says: "have completed and are not there",
			network: simrail.Config{Delay: time.Millisecond},
			post: func(r *buggy, peer rail.PeerID, ops []rail.Op) (int, error) {
				n, err := r.Rail.Post(peer, ops)
				for _, o := range ops[:n] {
					r.extra = append(r.extra, rail.Event{Kind: rail.Completed, Peer: peer, Token: o.Token})
				}
				return n, err
			}, event: drop(rail.Completed, 1)},
		{clause: "many operations in flight", bug: "one in 900 completes twice", says: "completed, which was not in flight",
			event: double(rail.Completed, 900)},
		{clause: "many operations in flight", bug: "one in 900 never completes", says: "hold: all have completed",
			event: drop(rail.Completed, 900)},
		{clause: "many operations in flight", bug: "batches are longer than it says", says: "is not less than or equal to",
			caps: func(c *rail.Caps) { c.MaxBatch /= 2 }},
		{clause: "many operations in flight", bug: "the caller's operations are kept", says: "which was not in flight",
			post: procrastinate},
		{clause: "many operations in flight", bug: "tokens of 10 bits", says: "completed, which was not in flight",
			post: each(func(_ *buggy, o *rail.Op) { o.Token &= 1<<10 - 1 })},
	}
}

func flowPlants() []plant {
	return []plant{
		{clause: "a peer that takes no turns", bug: "a full queue drops", says: "more than it takes in",
			post: func(r *buggy, peer rail.PeerID, ops []rail.Op) (int, error) {
				_, err := r.Rail.Post(peer, ops)
				return len(ops), err
			}},
		{clause: "a peer that takes no turns", bug: "fewer than granted", says: "512",
			caps: func(c *rail.Caps) { c.MaxImmediates *= 2 }},
		{clause: "a peer that takes no turns", bug: "its queue is longer the second time", says: "more than it takes in",
			post: hoard, turn: unload},
		{clause: "a receiver that is stopped", bug: "a pause is a death", says: "peer is not up", turn: impatient},
		{clause: "a receiver that is stopped", bug: "the 5000th immediate is lost", says: "hold: all immediates",
			event: drop(rail.Immediate, 5000)},
		{clause: "events that do not fit", bug: "they are thrown away", says: "hold: all events",
			turn: func(r *buggy, now time.Time, events []rail.Event) (int, time.Time) {
				var all [64]rail.Event
				n, next := r.Rail.Turn(now, all[:])
				return copy(events, all[:n]), next
			}},
		{clause: "arming and waiting", bug: "it never notifies", says: "deadline exceeded",
			arm: func(*buggy) bool { return false }, wait: func(_ *buggy, ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}},
		{clause: "arming and waiting", bug: "it waits on when its context has ended", says: "An error is expected",
			wait: func(r *buggy, ctx context.Context) error {
				_ = r.Rail.Wait(ctx)
				return nil
			}},
		{clause: "looking without a turn", bug: "it sees nothing", says: "hold: it is seen",
			spin: func(*buggy) bool { return false }},
		{clause: "looking without a turn", bug: "it sees only once", says: "it is there until the next turn",
			spin: func(r *buggy) bool {
				r.count++
				return r.count%2 == 1
			}},
		{clause: "arming and waiting", bug: "room that comes back does not notify", says: "deadline exceeded",
			network: simrail.Config{Immediates: 4}, arm: func(r *buggy) bool {
				return r.Rail.Arm() && r.count == 0
			}, wait: func(r *buggy, ctx context.Context) error {
				if r.count > 0 { // operations that wait for room
					<-ctx.Done()
					return ctx.Err()
				}
				return r.Rail.Wait(ctx)
			}, post: func(r *buggy, peer rail.PeerID, ops []rail.Op) (int, error) {
				n, err := r.Rail.Post(peer, ops)
				r.count = len(ops) - n
				return n, err
			}},
		{clause: "arming and waiting", bug: "room for messages that comes back does not notify", says: "deadline exceeded",
			arm: func(r *buggy) bool {
				return r.Rail.Arm() && r.count == 0
			}, wait: func(r *buggy, ctx context.Context) error {
				if r.count > 0 { // messages that wait for room
					<-ctx.Done()
					return ctx.Err()
				}
				return r.Rail.Wait(ctx)
			}, send: func(r *buggy, peer rail.PeerID, m []byte) (bool, error) {
				sent, err := r.Rail.Send(peer, m)
				if r.count = 0; !sent {
					r.count = 1
				}
				return sent, err
			}},
		{clause: "reads", bug: "they are writes", says: "bytes are wrong",
			post: each(func(_ *buggy, o *rail.Op) { o.Kind = rail.Write })},
		{clause: "atomic operations", bug: "they add one too many", says: "150",
			post: each(func(_ *buggy, o *rail.Op) { o.Operand++ })},
		{clause: "atomic operations", bug: "a swap does not compare", says: "77", post: each(func(_ *buggy, o *rail.Op) {
			if o.Kind == rail.CompareSwap {
				o.Compare = 77
			}
		})},
	}
}

func refusalPlants() []plant {
	return []plant{
		{clause: "operations that cannot be posted", bug: "what is too long is cut", says: "An error is expected",
			post: each(func(r *buggy, o *rail.Op) {
				o.Length = min(o.Length, r.Rail.Caps().MaxLength)
			})},
		{clause: "operations that cannot be posted", bug: "those before it are forgotten", says: "those before it are accepted",
			post: func(r *buggy, peer rail.PeerID, ops []rail.Op) (int, error) {
				n, err := r.Rail.Post(peer, ops)
				if err != nil {
					n = 0
				}
				return n, err
			}},
		{clause: "wrong keys", bug: "nobody is told", says: "memory refused the access", event: without},
		{clause: "wrong keys", bug: "keys are not compared", says: "memory refused the access",
			post: each(func(r *buggy, o *rail.Op) { o.RemoteKey &= 0xff })},
		{clause: "out of bounds", bug: "nobody is told", says: "memory refused the access", event: without},
		{clause: "out of bounds", bug: "what fits is written", says: "something landed",
			post: func(r *buggy, peer rail.PeerID, ops []rail.Op) (int, error) {
				for i, o := range ops { // its first byte lands by another operation
					if o.HasImm && o.Length == 8 {
						first := o
						first.Length, first.HasImm, first.Token = 1, false, hidden
						_, _ = r.Rail.Post(peer, []rail.Op{first})
						ops[i] = o
					}
				}
				return r.Rail.Post(peer, ops)
			}, event: hide},
		{clause: "no right to it", bug: "nobody is told", says: "memory refused the access", event: without},
		{clause: "memory that was taken back", bug: "nobody is told", says: "memory refused the access", event: without},
		{clause: "memory of other goroutines", bug: "its keys are those of the one before", says: "to what goroutine",
			register: confuse},
		{clause: "memory that is closed in the midst", bug: "peers go on with what they had begun", says: "after it was closed",
			network: simrail.Config{Delay: 5 * time.Millisecond},
			register: func(r *buggy, memory []byte, access rail.Access) (rail.Registration, error) {
				keys, err := r.Rail.Register(memory, access)
				return lasting{keys}, err
			}},
	}
}

// lasting is memory that stays open to peers when it is closed.
type lasting struct{ rail.Registration }

func (lasting) Close() error { return nil }

func endPlants() []plant {
	return []plant{
		{clause: "disconnecting", bug: "the peer is not told", says: "peer closed the connection",
			event: func(_ *buggy, e rail.Event) []rail.Event {
				if errors.Is(e.Err, rail.ErrPeerClosed) {
					e.Err = rail.ErrPeerGone
				}
				return []rail.Event{e}
			}},
		{clause: "disconnecting", bug: "nobody is told that it is lost", says: "down and was not lost", event: drop(rail.PeerLost, 1)},
		{clause: "disconnecting", bug: "it is lost twice", says: "lost twice", event: double(rail.PeerLost, 1)},
		{clause: "disconnecting with operations in flight", bug: "they never complete", says: "is down before its operation",
			event: drop(rail.Completed, 3)},
		{clause: "disconnecting with operations in flight", bug: "the peer is down before them",
			says:    "is down before its operation",
			network: simrail.Config{Delay: time.Millisecond},
			leave:   early},
		{clause: "proof that nothing lands", bug: "the proof is a guess", says: "something landed",
			network: simrail.Config{Delay: 5 * time.Millisecond}, leave: guess, post: notes, event: silent},
		{clause: "proof that nothing lands", bug: "there is none", says: "the peer is alive",
			event: func(_ *buggy, e rail.Event) []rail.Event {
				e.Proven = false
				return []rail.Event{e}
			}},
		{clause: "nothing lands at who is done with a peer", bug: "it is only said to be done", says: "something landed",
			network: simrail.Config{Delay: 5 * time.Millisecond}, leave: guess},
		{clause: "closing", bug: "memory that is registered matters", says: "device or resource busy",
			close: func(*buggy) error { return syscall.EBUSY }},
		{clause: "closing", bug: "the peer notices nothing", says: "hold: the peer notices", event: drop(rail.PeerDown, 1)},
		{clause: "a peer is killed", bug: "an operation never completes", says: "is down before its operation",
			network: simrail.Config{Delay: time.Millisecond}, event: drop(rail.Completed, 400)},
		{clause: "a peer is killed", bug: "it can never be connected to again", says: "planted",
			connect: func(r *buggy, id rail.PeerID, _ []byte) (rail.PeerID, error) {
				if r.count++; r.count > 1 {
					return 0, errPlanted
				}
				return id, nil
			}},
		{clause: "a peer is killed while both wait", bug: "nobody is told", says: "hold: down", event: drop(rail.PeerDown, 1)},
		{clause: "a peer is killed while both wait", bug: "later than promised", says: "is not less than or equal to",
			caps: func(c *rail.Caps) { c.DeathWithin = -time.Hour }},
		{clause: "a peer is started again at its address", bug: "it is taken for the one before", says: "it is another one",
			event: func(r *buggy, e rail.Event) []rail.Event {
				if e.Kind == rail.PeerUp {
					r.loot = append(r.loot, e.Info)
					e.Info = r.loot[0].(*rail.PeerInfo)
				}
				return []rail.Event{e}
			}},
		{clause: "nothing leaks", bug: "a descriptor for each peer", says: "descriptors",
			connect: func(r *buggy, id rail.PeerID, _ []byte) (rail.PeerID, error) {
				f, err := os.Open(os.DevNull)
				r.loot = append(r.loot, f)
				return id, err
			}},
		{clause: "nothing leaks", bug: "a thread for each peer", says: "threads",
			connect: func(r *buggy, id rail.PeerID, _ []byte) (rail.PeerID, error) {
				started := make(chan struct{})
				go func() {
					runtime.LockOSThread()
					close(started)
					<-r.plant.ended
				}()
				<-started
				return id, nil
			}},
		{clause: "nothing leaks", bug: "a goroutine for each peer", says: "goroutines",
			connect: func(r *buggy, id rail.PeerID, _ []byte) (rail.PeerID, error) {
				started := make(chan struct{})
				go func() { close(started); <-r.plant.ended }()
				<-started
				return id, nil
			}},
		{clause: "nothing leaks", bug: "memory for each peer", says: "bytes of heap",
			connect: func(r *buggy, id rail.PeerID, _ []byte) (rail.PeerID, error) {
				r.loot = append(r.loot, make([]byte, 1<<14))
				return id, nil
			}},
		{clause: "a target that computes", bug: "it is asleep", says: "deadline exceeded",
			arm: func(*buggy) bool { return false }, wait: func(_ *buggy, ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}, network: simrail.Config{TargetDriven: true}},
		{clause: "a receiver whose sender dies", bug: "later than promised", says: "told too late",
			caps: func(c *rail.Caps) { c.DeathWithin = -time.Hour }},
		{clause: "a receiver whose sender dies", bug: "nobody is told", says: "deadline exceeded",
			event: func(_ *buggy, e rail.Event) []rail.Event {
				if e.Kind == rail.PeerLost || e.Kind == rail.PeerDown {
					return nil
				}
				return []rail.Event{e}
			}},
	}
}
