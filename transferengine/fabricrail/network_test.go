package fabricrail

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine/rail"
)

// network carries the handshake's messages between nodes under a virtual clock, and keeps the books: which
// half exists and which other one it is connected to.
type network struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Time
	flying  []packet
	sent    int
	lastTag tag
	pairs   map[tag]*pair
	nodes   []*node

	loss, double float64
	full         float64       // how often nothing is taken
	delay        time.Duration // at most
}

type packet struct {
	at   time.Time
	to   address
	data []byte
}

// pair is a half of a connection.
type pair struct {
	half  half
	other tag // of the half that it is connected to, 0 while it is to none
}

// node is a rail's handshake and what it made happen.
type node struct {
	*handshake
	network *network
	halves  map[rail.PeerID]*pair
	ups     []rail.PeerID
	downs   map[rail.PeerID]error
	full    bool
	unheard bool  // its messages are lost
	broken  error // of connect
}

func newNetwork(t *testing.T, seed uint64) *network {
	return &network{t: t, random: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(1000, 0), pairs: map[tag]*pair{},
		lastTag: 100, delay: time.Millisecond}
}

var testTiming = timing{retry: time.Millisecond, first: 50 * time.Millisecond, most: time.Second, accept: 10 * time.Second}

func (n *network) add() *node {
	name := fmt.Sprintf("node%d", len(n.nodes)+1)
	self := address{provider: "shm", name: name, text: name, key: uint64(len(n.nodes) + 1)}
	node := n.born(self)
	n.nodes = append(n.nodes, node)
	return node
}

func (n *network) born(self address) *node {
	node := &node{network: n, halves: map[rail.PeerID]*pair{}, downs: map[rail.PeerID]error{}}
	var inc rail.Incarnation
	for i := range inc {
		inc[i] = byte(n.random.Uint32())
	}
	node.handshake = newHandshake(self, inc, testTiming, n.random.Uint64, nodeEffects{node})
	return node
}

// restart replaces a node by another incarnation at its address.
func (n *network) restart(i int) *node {
	for _, p := range n.nodes[i].halves {
		delete(n.pairs, p.half.tag)
	}
	n.nodes[i] = n.born(n.nodes[i].self)
	return n.nodes[i]
}

func (n *node) open(id rail.PeerID, _ address) (half, error) {
	require.NotContains(n.network.t, n.halves, id, "a peer has one half at a time")
	if n.full {
		return half{}, fmt.Errorf("all of 4 peers are there")
	}
	n.network.lastTag++
	p := &pair{half: half{tag: n.network.lastTag, immediates: 8, messages: 4, message: 600}}
	n.halves[id] = p
	n.network.pairs[p.half.tag] = p
	return p.half, nil
}

func (n *node) connect(now time.Time, to *node, deadline time.Duration) rail.PeerID {
	id, err := n.handshake.connect(now, to.self, now.Add(deadline))
	require.NoError(n.network.t, err)
	return id
}

type nodeEffects struct{ *node }

func (n nodeEffects) connect(id rail.PeerID, other half) error {
	require.Zero(n.network.t, n.halves[id].other, "a half is connected once")
	n.halves[id].other = other.tag
	return n.broken
}

func (n *node) abandon(id rail.PeerID) {
	require.Contains(n.network.t, n.halves, id)
	require.NotContains(n.network.t, n.ups, id)
	n.free(id)
}

func (n *node) free(id rail.PeerID) {
	if p := n.halves[id]; p != nil {
		delete(n.network.pairs, p.half.tag)
		delete(n.halves, id)
	}
}

func (n *node) up(id rail.PeerID, _ rail.Incarnation) {
	require.NotContains(n.network.t, n.ups, id, "up twice")
	require.NotContains(n.network.t, n.downs, id, "up after down")
	mine := n.halves[id]
	if theirs := n.network.pairs[mine.other]; theirs != nil { // it may be gone again, but never connected elsewhere
		require.Equal(n.network.t, mine.half.tag, theirs.other, "up, and the other half is not connected to ours")
	}
	n.ups = append(n.ups, id)
}

func (n *node) down(id rail.PeerID, cause error) {
	require.NotContains(n.network.t, n.downs, id, "down twice")
	require.Error(n.network.t, cause)
	n.downs[id] = cause
	n.free(id)
}

// giveUp is what a rail does when somebody disconnects a peer, or its connection breaks.
func (n *node) giveUp(id rail.PeerID) {
	n.forget(id)
	n.free(id)
	n.downs[id] = nil
}

func (n *node) send(to address, message []byte) (bool, error) {
	require.LessOrEqual(n.network.t, len(message), messageSize)
	w := n.network
	if w.random.Float64() < w.full {
		return false, nil
	}
	w.sent++
	require.Less(w.t, w.sent, 20000, "a storm")
	if n.unheard {
		return true, nil
	}
	copies := 1
	if w.random.Float64() < w.loss {
		copies = 0
	}
	if w.random.Float64() < w.double {
		copies += 1 + w.random.IntN(2)
	}
	for range copies {
		w.flying = append(w.flying, packet{at: w.now.Add(time.Duration(w.random.Int64N(int64(w.delay)))), to: to,
			data: slices.Clone(message)})
	}
	return true, nil
}

// step delivers the next packet or lets the next timer run, whichever comes first, but not after the limit. It returns
// false when nothing is left until then.
func (n *network) step(limit time.Time) bool {
	at, index := limit, -1
	for i, p := range n.flying {
		if p.at.Before(at) {
			at, index = p.at, i
		}
	}
	var timer *node
	for _, node := range n.nodes {
		if due := node.next(); !due.IsZero() && due.Before(at) {
			at, timer = due, node
		}
	}
	if at.After(n.now) {
		n.now = at
	}
	switch {
	case timer != nil:
		timer.tick(n.now)
	case index >= 0:
		p := n.flying[index]
		n.flying = slices.Delete(n.flying, index, index+1)
		for _, node := range n.nodes {
			if node.self == p.to {
				node.receive(n.now, p.data)
			}
		}
	default:
		return false
	}
	return true
}

// run lets the time pass.
func (n *network) run(d time.Duration) {
	limit := n.now.Add(d)
	for n.step(limit) {
	}
	n.now = limit
}

// breakStale does what heartbeats do: a connection whose other half is gone breaks.
func (n *network) breakStale() {
	for _, node := range n.nodes {
		for id, e := range node.byID {
			if e.state == up && n.pairs[node.halves[id].other] == nil {
				node.giveUp(id)
			}
		}
	}
}

// requireConnected checks that the two ends of a connection agree and that nothing else of it is left.
func (n *network) requireConnected(a, b *node) {
	n.t.Helper()
	ea, eb := a.ends[b.self], b.ends[a.self]
	require.NotNil(n.t, ea)
	require.NotNil(n.t, eb)
	require.Equal(n.t, up, ea.state)
	require.Equal(n.t, up, eb.state)
	ha, hb := a.halves[ea.id], b.halves[eb.id]
	require.Equal(n.t, ha.other, hb.half.tag)
	require.Equal(n.t, hb.other, ha.half.tag)
	require.Equal(n.t, b.incarnation, ea.remote.incarnation)
	require.Equal(n.t, a.incarnation, eb.remote.incarnation)
}

// requireQuiet checks that nobody sends any more and that no half is kept without need.
func (n *network) requireQuiet() {
	n.t.Helper()
	for n.step(n.now.Add(testTiming.accept)) {
	}
	before := n.sent
	n.run(time.Hour)
	require.Equal(n.t, before, n.sent, "established ends fall silent")
	for _, node := range n.nodes {
		require.Empty(n.t, node.pending)
		require.Len(n.t, node.halves, len(node.ends))
	}
}
