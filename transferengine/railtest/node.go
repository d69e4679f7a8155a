package railtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
)

// world is one clause at work: rails that take turns from one goroutine, with a clock.
type world struct {
	testing.TB
	suite   *Suite
	network Network
	random  *rand.Rand
	clock   time.Time // if virtual
	nodes   []*node
	token   uint64 // given out last
}

func newWorld(t testing.TB, s *Suite) *world {
	network := s.Network(t)
	if network.Seed == 0 {
		network.Seed = rdmatest.Seed(t)
	}
	return &world{TB: t, suite: s, network: network, random: rand.New(rand.NewPCG(network.Seed, 3)), clock: time.Unix(1e9, 0)}
}

func (w *world) now() time.Time {
	if w.suite.Virtual {
		return w.clock
	}
	return time.Now()
}

// node is the part of an engine that a rail needs: it takes turns, holds events against the contract and keeps them.
type node struct {
	*world
	rail       rail.Rail
	caps       rail.Caps
	memory     []byte
	keys       rail.Registration
	events     []rail.Event
	ups        []rail.PeerID
	infos      map[rail.PeerID]rail.PeerInfo // of those that came up
	losts      map[rail.PeerID]rail.Event
	downs      map[rail.PeerID]rail.Event
	flying     map[uint64]rail.PeerID // operations that were accepted and have not completed
	done       map[uint64]error
	immediates []rail.Event
	messages   []rail.Event
	onImm      func(imm uint32)
	onMessage  func()
	closed     bool
}

const (
	memorySize = 1 << 20
	everything = rail.RemoteWrite | rail.RemoteRead
)

// open opens a rail, with memory that peers may read and write.
func (w *world) open() *node { return w.openWith(memorySize, everything) }

func (w *world) openWith(size int, access rail.Access) *node {
	w.Helper()
	return w.openBy(w.network.Opener(), size, access)
}

func (w *world) openBy(opener rail.Opener, size int, access rail.Access) *node {
	w.Helper()
	r, err := opener.Open(rail.Incarnation{0: byte(len(w.nodes) + 1), 15: 0xee})
	require.NoError(w, err)
	n := newNode(w, r)
	w.nodes = append(w.nodes, n)
	n.memory = pages(size)
	n.keys, err = r.Register(n.memory, access)
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, n.close()) })
	return n
}

func newNode(w *world, r rail.Rail) *node {
	return &node{world: w, rail: r, caps: r.Caps(), events: make([]rail.Event, 32), infos: make(map[rail.PeerID]rail.PeerInfo),
		losts: make(map[rail.PeerID]rail.Event), downs: make(map[rail.PeerID]rail.Event),
		flying: make(map[uint64]rail.PeerID), done: make(map[uint64]error)}
}

// close closes the rail, if it was not closed before: the memory first, unless an operation may use it.
func (n *node) close() error {
	if n.closed {
		return nil
	}
	n.closed = true
	steps := []func() error{n.keys.Close, n.rail.Close}
	if len(n.flying) > 0 {
		slices.Reverse(steps)
	}
	return errors.Join(steps[0](), steps[1]())
}

// pages returns memory from the start of a page on.
func pages(size int) []byte {
	page := os.Getpagesize()
	b := make([]byte, size+page)
	return b[(page-int(mem.Addr(b)%uint64(page)))%page:][:size:size]
}

// turn takes a turn and returns how many events there were, and when the next turn is due.
func (n *node) turn() (did int, next time.Time) {
	did, next = n.rail.Turn(n.now(), n.events)
	for _, e := range n.events[:did] {
		if err := n.note(e); err != nil {
			n.Fatal(err)
		}
	}
	return did, next
}

// note holds an event against the contract and keeps it.
func (n *node) note(e rail.Event) error {
	isUp := slices.Contains(n.ups, e.Peer)
	if _, down := n.downs[e.Peer]; down {
		return fmt.Errorf("%+v after the peer was down", e)
	}
	switch e.Kind {
	case rail.PeerLost, rail.PeerDown:
		return n.noteEnd(e)
	case rail.PeerUp:
		if n.isLost(e.Peer) {
			return fmt.Errorf("peer %d comes up after it was lost", e.Peer)
		}
		if isUp {
			return fmt.Errorf("peer %d comes up twice", e.Peer)
		}
		if e.Info == nil {
			return fmt.Errorf("peer %d comes up and nothing says who it is", e.Peer)
		}
		n.ups = append(n.ups, e.Peer)
		n.infos[e.Peer] = *e.Info
	case rail.Immediate:
		if n.caps.ImmSource && !isUp {
			return fmt.Errorf("immediate %d of peer %d, which is not up", e.Imm, e.Peer)
		}
		n.immediates = append(n.immediates, e)
		if n.onImm != nil {
			n.onImm(e.Imm)
		}
	case rail.Message:
		if !isUp {
			return fmt.Errorf("a message of peer %d, which is not up", e.Peer)
		}
		n.messages = append(n.messages, e)
		if n.onMessage != nil {
			n.onMessage()
		}
	case rail.Completed:
		if peer, flying := n.flying[e.Token]; !flying || peer != e.Peer {
			return fmt.Errorf("operation %d of peer %d completed, which was not in flight", e.Token, e.Peer)
		}
		delete(n.flying, e.Token)
		n.done[e.Token] = e.Err
	default:
		return fmt.Errorf("unknown event %+v", e)
	}
	return nil
}

// noteEnd holds the two events in which a peer ends against the contract.
func (n *node) noteEnd(e rail.Event) error {
	before, lost := n.losts[e.Peer]
	if e.Kind == rail.PeerLost {
		switch {
		case lost:
			return fmt.Errorf("peer %d is lost twice", e.Peer)
		case e.Err == nil:
			return fmt.Errorf("peer %d is lost and nothing says why", e.Peer)
		}
		n.losts[e.Peer] = e
		return nil
	}
	if !lost {
		return fmt.Errorf("peer %d is down and was not lost", e.Peer)
	}
	for token, peer := range n.flying {
		if peer == e.Peer {
			return fmt.Errorf("peer %d is down before its operation %d completed", e.Peer, token)
		}
	}
	if e.Err == nil || e.Err.Error() != before.Err.Error() {
		return fmt.Errorf("peer %d is down for %w, and was lost for %w", e.Peer, e.Err, before.Err)
	}
	n.downs[e.Peer] = e
	return nil
}

// maxRounds is how many rounds a wait under a virtual clock has, which may stand still though there is always something to do.
const maxRounds = 1 << 22

// until has the nodes take turns until the condition holds. Under a virtual clock it does not matter how long this process has
// no processor.
func (w *world) until(what string, met func() bool, nodes ...*node) {
	w.Helper()
	end, quiet := w.now().Add(w.suite.patience()), 0
	for rounds := 0; !met(); rounds++ {
		busy := w.roundBy(end.Add(1), nodes)
		if quiet++; busy {
			quiet = 0
		}
		switch {
		case w.suite.Virtual && quiet > 10:
			w.Fatalf("nothing is left to happen, and this does not hold: %s", what)
		case w.suite.Virtual && rounds == maxRounds:
			w.Fatalf("not after %d rounds: %s", rounds, what)
		case w.now().After(end):
			w.Fatalf("not within %v: %s", w.suite.patience(), what)
		}
	}
}

// round has every node take a turn. Under a virtual clock it tells whether anything is left to happen.
func (w *world) round(nodes []*node) (busy bool) {
	return w.roundBy(w.now().Add(w.suite.patience()), nodes)
}

// roundBy is round for what happens by then. A virtual clock goes no further.
func (w *world) roundBy(by time.Time, nodes []*node) (busy bool) {
	var next time.Time
	for _, n := range nodes {
		did, due := n.turn()
		busy = busy || did > 0
		if !due.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	if w.suite.Virtual && !busy && next.After(w.clock) && !next.After(by) {
		w.clock = next
		return true
	}
	if !w.suite.Virtual {
		runtime.Gosched()
	}
	return busy
}

// tick lets a virtual clock go on; a real one does by itself.
func (w *world) tick(d time.Duration) {
	if w.suite.Virtual {
		w.clock = w.clock.Add(d)
	} else {
		runtime.Gosched()
	}
}

// pass has the nodes take turns for a time.
func (w *world) pass(d time.Duration, nodes ...*node) {
	end := w.now().Add(d)
	for w.now().Before(end) {
		if !w.roundBy(end, nodes) && w.suite.Virtual {
			w.clock = end
		}
	}
	w.roundBy(end, nodes)
}

// connect connects a to b and returns what each is to the other.
func (w *world) connect(a, b *node) (atA, atB rail.PeerID) {
	w.Helper()
	before := len(b.ups)
	atA = a.call(b.rail.Address())
	w.until("both ends are up", func() bool { return a.isUp(atA) && len(b.ups) > before }, a, b)
	return atA, b.ups[len(b.ups)-1]
}

// pair is two rails, connected.
func (w *world) pair() (a, b *node, atA, atB rail.PeerID) {
	w.Helper()
	a, b = w.open(), w.open()
	atA, atB = w.connect(a, b)
	return a, b, atA, atB
}

// call starts connecting.
func (n *node) call(address []byte) rail.PeerID {
	n.Helper()
	id, err := n.rail.Connect(n.now(), address, n.now().Add(n.suite.patience()))
	require.NoError(n, err)
	return id
}

func (n *node) isUp(id rail.PeerID) bool { return !n.isLost(id) && slices.Contains(n.ups, id) }

func (n *node) isLost(id rail.PeerID) bool {
	_, lost := n.losts[id]
	return lost
}

func (n *node) isDown(id rail.PeerID) bool {
	_, down := n.downs[id]
	return down
}

// remote is memory of a peer.
type remote struct{ addr, key uint64 }

// remoteOf is memory as a peer names it.
func remoteOf(keys rail.Registration) remote { return remote{keys.RemoteAddr(), keys.RemoteKey()} }

func (n *node) remote() remote { return remoteOf(n.keys) }

// op makes an operation between our memory at from and the target's at to.
func (n *node) op(kind rail.OpKind, from int, target remote, to, length int) rail.Op {
	n.token++
	return rail.Op{Kind: kind, Token: n.token, LocalAddr: mem.Addr(n.memory) + uint64(from), LocalKey: n.keys.LocalKey(),
		RemoteAddr: target.addr + uint64(to), RemoteKey: target.key, Length: uint64(length)}
}

func withImm(o rail.Op, imm uint32) rail.Op {
	o.Imm, o.HasImm = imm, true
	return o
}

// post posts operations, and returns how many were accepted.
func (n *node) post(peer rail.PeerID, ops ...rail.Op) int {
	n.Helper()
	accepted, err := n.tryPost(peer, ops)
	require.NoError(n, err)
	return accepted
}

func (n *node) tryPost(peer rail.PeerID, ops []rail.Op) (accepted int, err error) {
	n.Helper()
	ops = ops[:min(len(ops), 2*n.caps.MaxBatch)]
	given := slices.Clone(ops)
	accepted, err = n.rail.Post(peer, given)
	clear(given) // they are the caller's again
	require.LessOrEqual(n, accepted, min(len(ops), n.caps.MaxBatch))
	for _, o := range ops[:accepted] {
		n.flying[o.Token] = peer
	}
	return accepted, err
}

// postAll posts all operations, with turns between where the rail does not take them at once.
func (n *node) postAll(peer rail.PeerID, others []*node, ops ...rail.Op) {
	n.Helper()
	n.until("all operations are accepted", func() bool {
		ops = ops[n.post(peer, ops...):]
		return len(ops) == 0
	}, append([]*node{n}, others...)...)
}

// send sends a message, and tells whether it was accepted.
func (n *node) send(peer rail.PeerID, message []byte) bool {
	n.Helper()
	sent, err := n.rail.Send(peer, message)
	require.NoError(n, err)
	return sent
}

// do posts an operation and waits for its completion.
func (n *node) do(peer rail.PeerID, o rail.Op, others ...*node) error {
	n.Helper()
	n.postAll(peer, others, o)
	n.until("it completes", func() bool { _, done := n.done[o.Token]; return done }, append([]*node{n}, others...)...)
	return n.done[o.Token]
}

// idle tells whether everything that was posted has completed.
func (n *node) idle() bool { return len(n.flying) == 0 }

// fill fills memory with what can be told apart from anything else.
func (w *world) fill(b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		binary.NativeEndian.PutUint64(b, w.random.Uint64()|0x0101010101010101)
	}
	for i := range b {
		b[i] = byte(w.random.Uint32()) | 1
	}
}

// requireBytes requires memory to be as it should, and tells where it is not.
func (w *world) requireBytes(want, got []byte, format string, args ...any) {
	w.Helper()
	if bytes.Equal(want, got) {
		return
	}
	what := fmt.Sprintf(format, args...)
	if len(want) != len(got) {
		w.Fatalf("%s: %d bytes, not %d", what, len(got), len(want))
	}
	at, wrong := -1, 0
	for i := range want {
		if want[i] != got[i] {
			if wrong++; at < 0 {
				at = i
			}
		}
	}
	w.Fatalf("%s: %d of %d bytes are wrong, the first of them %#x instead of %#x at %d", what, wrong, len(want), got[at], want[at],
		at)
}

// requireLost tells whether a peer came down as one that died. The kernel may take a dying process's memory away before its
// queues.
func (w *world) requireLost(e rail.Event) {
	w.Helper()
	require.True(w, errors.Is(e.Err, rail.ErrPeerGone) || errors.Is(e.Err, rail.ErrAccess), "%v", e.Err)
}
