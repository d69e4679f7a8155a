package handshake

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/tlv"
	"github.com/weftrdma/weft/transferengine/rail"
)

// place is an address of the tests.
type place struct{ number, key uint64 }

func (p place) String() string { return fmt.Sprintf("node%d", p.number) }

// link is a half of the tests: a connection's end of that number, and a bit in the hello's flags.
type link struct {
	tag  uint32
	wide bool
}

const (
	fieldTag     = 0x20 | tlv.Required
	fieldComment = 0x40
)

func appendPlace(b []byte, p place) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, p.number), p.key)
}

func parsePlace(b []byte) (place, error) {
	if len(b) != 16 {
		return place{}, fmt.Errorf("place of %d bytes", len(b))
	}
	return place{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, nil
}

// testWire is a wire with keys, or without.
func testWire(keyed bool) *Wire[place, link] {
	w := &Wire[place, link]{
		Hello: [4]byte{'T', 'e', 'H', 'I'}, Refusal: [4]byte{'T', 'e', 'N', 'O'}, MaxText: 50,
		AppendAddress: appendPlace, ParseAddress: parsePlace,
		Fields:     []uint16{fieldTag, fieldComment},
		AppendHalf: func(b []byte, h *link) []byte { return tlv.AppendUint32(b, fieldTag, h.tag) },
		ParseHalf: func(f *tlv.Fields, h *link, typ uint16, v []byte) {
			if typ == fieldTag {
				h.tag = f.Uint32(typ, v)
			}
		},
		CheckHalf: func(f *tlv.Format, h *link) error {
			if h.tag == 0 {
				return f.Refuse("the tag is zero")
			}
			return nil
		},
	}
	if keyed {
		w.Key = func(p place) uint64 { return p.key }
		w.Flags = func(h *link) uint8 { return map[bool]uint8{true: 0xff}[h.wide] }
		w.SetFlags = func(h *link, flags uint8) { h.wide = flags&2 != 0 }
	}
	return w
}

// eachWire runs a test on networks of both wires.
func eachWire(t *testing.T, test func(t *testing.T, n *network)) {
	for _, keyed := range []bool{false, true} {
		t.Run(fmt.Sprintf("keyed=%v", keyed), func(t *testing.T) { test(t, newNetwork(t, keyed, 1)) })
	}
}

// network carries messages between machines under a virtual clock, and keeps the books: which half exists and which other one
// it is connected to.
type network struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Time
	flying  []packet
	sent    int
	tried   int // sent, or not taken
	lastTag uint32
	pairs   map[uint32]*pair // by tag
	wire    *Wire[place, link]
	nodes   []*node

	loss, double float64
	full         float64       // how often nothing is taken
	delay        time.Duration // at most
}

type packet struct {
	at   time.Time
	to   place
	from place
	data []byte
}

// pair is a half of a connection.
type pair struct {
	half  link
	other uint32 // tag of the half that it is connected to, 0 while it is to none
}

// node is a machine and what it made happen.
type node struct {
	*Machine[place, link]
	self    place
	network *network
	halves  map[rail.PeerID]*pair
	ups     []rail.PeerID
	downs   map[rail.PeerID]error
	full    bool
	unheard bool  // its messages are lost
	newer   bool  // it is of the next version
	broken  error // of connect
}

func newNetwork(t *testing.T, keyed bool, seed uint64) *network {
	return &network{t: t, random: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(1000, 0), pairs: map[uint32]*pair{},
		lastTag: 100, delay: time.Millisecond, wire: testWire(keyed)}
}

var testTiming = Timing{Retry: time.Millisecond, First: 50 * time.Millisecond, Most: time.Second, Accept: 10 * time.Second}

func (n *network) add() *node {
	node := n.born(place{number: uint64(len(n.nodes) + 1), key: uint64(len(n.nodes) + 1)})
	n.nodes = append(n.nodes, node)
	return node
}

func (n *network) born(self place) *node {
	node := &node{network: n, self: self, halves: map[rail.PeerID]*pair{}, downs: map[rail.PeerID]error{}}
	var inc rail.Incarnation
	for i := range inc {
		inc[i] = byte(n.random.Uint32())
	}
	node.Machine = New(Config[place, link]{Wire: n.wire, Self: self, Incarnation: inc, Timing: testTiming,
		Nonce: n.random.Uint64, Effects: nodeEffects{node}})
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

// connect has a node call another.
func (n *node) connect(now time.Time, to *node, deadline time.Duration) rail.PeerID {
	id, err := n.Connect(now, to.self, now.Add(deadline))
	require.NoError(n.network.t, err)
	return id
}

// take has a node take a packet.
func (n *node) take(now time.Time, p packet) {
	n.Handle(now, p.data, func(from place) bool { return n.network.wire.Key != nil || from.number == p.from.number })
}

// nodeEffects implements [Effects].
type nodeEffects struct{ *node }

func (n nodeEffects) Open(id rail.PeerID, _ place) (link, error) {
	require.NotContains(n.network.t, n.halves, id, "a peer has one half at a time")
	if n.full {
		return link{}, fmt.Errorf("all of 4 peers are there")
	}
	n.network.lastTag++
	p := &pair{half: link{tag: n.network.lastTag, wide: n.network.wire.Flags != nil}}
	n.halves[id] = p
	n.network.pairs[p.half.tag] = p
	return p.half, nil
}

func (n nodeEffects) Connect(id rail.PeerID, _ place, other link) error {
	require.Zero(n.network.t, n.halves[id].other, "a half is connected once")
	n.halves[id].other = other.tag
	return n.broken
}

func (n nodeEffects) Abandon(id rail.PeerID) {
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

func (n nodeEffects) Up(id rail.PeerID, _ place, _ rail.Incarnation) {
	require.NotContains(n.network.t, n.ups, id, "up twice")
	require.NotContains(n.network.t, n.downs, id, "up after down")
	mine := n.halves[id]
	if theirs := n.network.pairs[mine.other]; theirs != nil { // it may be gone again, but never connected elsewhere
		require.Equal(n.network.t, mine.half.tag, theirs.other, "up, and the other half is not connected to ours")
	}
	n.ups = append(n.ups, id)
}

func (n nodeEffects) Down(id rail.PeerID, cause error) {
	require.NotContains(n.network.t, n.downs, id, "down twice")
	require.Error(n.network.t, cause)
	n.downs[id] = cause
	n.free(id)
}

// giveUp is what a rail does when somebody disconnects a peer, or its connection breaks.
func (n *node) giveUp(id rail.PeerID) {
	n.Forget(id)
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

func (n nodeEffects) Send(to place, message []byte) (bool, error) {
	if n.newer {
		message = nextVersion(message)
	}
	w := n.network
	w.tried++
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
			from: n.self, data: slices.Clone(message)})
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
		if due := node.Next(); !due.IsZero() && due.Before(at) {
			at, timer = due, node
		}
	}
	if at.After(n.now) {
		n.now = at
	}
	switch {
	case timer != nil:
		timer.Turn(n.now)
	case index >= 0:
		p := n.flying[index]
		n.flying = slices.Delete(n.flying, index, index+1)
		for _, node := range n.nodes {
			if node.self == p.to {
				node.take(n.now, p)
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

// breakStale does what reliable connections, and heartbeats, do: one whose other half is gone breaks.
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
	require.Equal(n.t, b.cfg.Incarnation, ea.remote.Incarnation)
	require.Equal(n.t, a.cfg.Incarnation, eb.remote.Incarnation)
}

// requireQuiet checks that nobody sends any more and that no half is kept without need.
func (n *network) requireQuiet() {
	n.t.Helper()
	for n.step(n.now.Add(testTiming.Accept)) {
	}
	before := n.sent
	n.run(time.Hour)
	require.Equal(n.t, before, n.sent, "established ends fall silent")
	for _, node := range n.nodes {
		require.Empty(n.t, node.pending)
		require.Len(n.t, node.halves, len(node.ends))
	}
}
