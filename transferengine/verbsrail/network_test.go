package verbsrail

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/tlv"
	"github.com/weftrdma/weft/transferengine/rail"
)

// network carries the handshake's datagrams between nodes under a virtual clock, and keeps the books of a fabric: which
// queue pair exists and which other one it is connected to.
type network struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Time
	flying  []packet
	sent    int
	lastQPN uint32
	pairs   map[uint32]*pair // by number of the write queue pair
	nodes   []*node

	loss, double float64
	delay        time.Duration // at most
}

type packet struct {
	at   time.Time
	to   address
	from source
	data []byte
}

// pair is a half of a connection on the fabric.
type pair struct {
	half  half
	other uint32 // number of the write queue pair that it is connected to, 0 while it is not
}

// node is a rail's handshake and what it made happen.
type node struct {
	*handshake
	network *network
	halves  map[rail.PeerID]*pair
	ups     []rail.PeerID
	downs   map[rail.PeerID]error
	full    bool
	unheard bool  // its datagrams are lost
	newer   bool  // it is of the next version
	broken  error // of connect
}

func newNetwork(t *testing.T, seed uint64) *network {
	return &network{t: t, random: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(1000, 0), pairs: map[uint32]*pair{},
		lastQPN: 100, delay: time.Millisecond}
}

var testTiming = timing{first: 50 * time.Millisecond, most: time.Second, accept: 10 * time.Second}

func (n *network) add() *node {
	self := address{qpn: uint32(10 + len(n.nodes)), qkey: 7}
	copy(self.gid[10:], []byte{0xff, 0xff, 10, 9, 0, byte(len(n.nodes) + 1)})
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
		delete(n.pairs, p.half.writes.qpn)
	}
	n.nodes[i] = n.born(n.nodes[i].self)
	return n.nodes[i]
}

func (n *node) open(id rail.PeerID) (half, error) {
	require.NotContains(n.network.t, n.halves, id, "a peer has one half at a time")
	if n.full {
		return half{}, fmt.Errorf("all of 4 peers are there")
	}
	n.network.lastQPN += 2
	p := &pair{half: half{
		messages: queuePair{n.network.lastQPN, 1}, writes: queuePair{n.network.lastQPN + 1, 2}, mtu: 1024, immediates: 8,
		message: olderMessage,
	}}
	n.halves[id] = p
	n.network.pairs[p.half.writes.qpn] = p
	return p.half, nil
}

func (n *node) connect(now time.Time, to *node, deadline time.Duration) rail.PeerID {
	id, err := n.handshake.connect(now, to.self, now.Add(deadline))
	require.NoError(n.network.t, err)
	return id
}

type nodeEffects struct{ *node }

func (n nodeEffects) connect(id rail.PeerID, _ address, other half) error {
	require.Zero(n.network.t, n.halves[id].other, "a half is connected once")
	n.halves[id].other = other.writes.qpn
	return n.broken
}

func (n *node) abandon(id rail.PeerID) {
	require.Contains(n.network.t, n.halves, id)
	require.NotContains(n.network.t, n.ups, id)
	n.free(id)
}

func (n *node) free(id rail.PeerID) {
	if p := n.halves[id]; p != nil {
		delete(n.network.pairs, p.half.writes.qpn)
		delete(n.halves, id)
	}
}

func (n *node) up(id rail.PeerID, to address, _ rail.Incarnation) {
	require.NotContains(n.network.t, n.ups, id, "up twice")
	require.NotContains(n.network.t, n.downs, id, "up after down")
	mine := n.halves[id]
	if theirs := n.network.pairs[mine.other]; theirs != nil { // it may be gone again, but never connected elsewhere
		require.Equal(n.network.t, mine.half.writes.qpn, theirs.other, "up, and the other half is not connected to ours")
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

// nextVersion is how the next version, which understands this one, might write a message: with fields of its own, and with
// the authentication that has its place already.
func nextVersion(message []byte) []byte {
	b := slices.Clone(message)
	b[4] = 2
	b = tlv.AppendField(b, 0x7000, []byte("news"))
	b = tlv.AppendField(b, tlv.Auth, []byte("a signature"))
	return tlv.Finish(b)
}

func (n *node) send(to address, datagram []byte) error {
	if n.newer {
		datagram = nextVersion(datagram)
	}
	require.LessOrEqual(n.network.t, len(datagram), maxDatagram)
	w := n.network
	w.sent++
	require.Less(w.t, w.sent, 20000, "a storm")
	if n.unheard {
		return nil
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
			from: source{gid: n.self.gid, hasGID: true, qpn: n.self.qpn}, data: slices.Clone(datagram)})
	}
	return nil
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
				node.receive(n.now, p.from, p.data)
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

// breakStale does what reliable connections do: one whose other half is gone breaks.
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
	require.Equal(n.t, ha.other, hb.half.writes.qpn)
	require.Equal(n.t, hb.other, ha.half.writes.qpn)
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
