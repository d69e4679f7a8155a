//go:build linux && cgo && !noverbs

package verbsrail_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/verbsrail"
	"github.com/weftrdma/weft/verbs"
)

// bare is a rail on the null provider without an engine. Its time stands still unless the test moves it.
type bare struct {
	t      testing.TB
	null   *cgotest.Null
	rail   *verbsrail.Rail
	now    time.Time
	room   []rail.Event // of a turn
	events []rail.Event // all that there were
}

func newBare(t testing.TB, config verbsrail.Config) *bare {
	t.Helper()
	null, err := cgotest.OpenNull()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, null.Close()) })
	null.SetPort(1, cgotest.Port{State: 4, MTU: 3, MaxMessage: 8 << 20, LinkLayer: 2})
	config.Context, err = verbs.ImportContext(null.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, config.Context.Close()) })
	r, err := config.Open(rail.Incarnation{1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return &bare{t: t, null: null, rail: r.(*verbsrail.Rail), now: time.Unix(1e9, 0), room: make([]rail.Event, 64)}
}

// turn takes one turn and returns how many events it had.
func (b *bare) turn() int {
	n, _ := b.rail.Turn(b.now, b.room)
	b.events = append(b.events, b.room[:n]...)
	return n
}

// settle takes turns until one has no events.
func (b *bare) settle() {
	for b.turn() > 0 {
	}
}

// adopt makes the i-th peer, which does not exist, and takes it up.
func (b *bare) adopt(i uint32) rail.PeerID {
	b.t.Helper()
	id, err := b.rail.AdoptOne(b.now, i)
	require.NoError(b.t, err)
	b.settle()
	require.Equal(b.t, 1, b.count(rail.PeerUp, id))
	return id
}

// count is how many events of a kind a peer had.
func (b *bare) count(kind rail.EventKind, id rail.PeerID) (n int) {
	for _, e := range b.events {
		if e.Kind == kind && e.Peer == id {
			n++
		}
	}
	return n
}

// find returns the place of a peer's first event of a kind among all, or -1.
func (b *bare) find(kind rail.EventKind, id rail.PeerID) int {
	return slices.IndexFunc(b.events, func(e rail.Event) bool { return e.Kind == kind && e.Peer == id })
}

// write is an operation that the null provider carries out by doing nothing.
func write(token uint64) rail.Op {
	return rail.Op{Kind: rail.Write, Token: token, RemoteAddr: 1 << 40, RemoteKey: 7}
}

// post posts operations with tokens from first on, a few at a time, until the rail takes no more, and returns how many it took.
func (b *bare) post(id rail.PeerID, first uint64, most int) (n int) {
	b.t.Helper()
	for n < most {
		ops := make([]rail.Op, min(7, most-n))
		for i := range ops {
			ops[i] = write(first + uint64(n+i))
		}
		took, err := b.rail.Post(id, ops)
		require.NoError(b.t, err)
		if n += took; took < len(ops) {
			break
		}
	}
	return n
}

// immediate lets an immediate of a peer arrive.
func (b *bare) immediate(id rail.PeerID, imm uint32) error {
	_, writes := b.rail.Queues(id)
	return b.null.Complete(b.rail.Queue().Raw(), cgotest.Completion{Opcode: uint32(verbs.WCRecvWriteImm), Flags: uint32(verbs.WCWithImm), Imm: imm,
		QPN: writes.Num(), Receive: true})
}

// datagram lets a datagram arrive that is no message of the handshake.
func (b *bare) datagram() error {
	return b.null.Complete(b.rail.Queue().Raw(), cgotest.Completion{Opcode: uint32(verbs.WCRecv), ByteLen: verbs.GRHSize + 8,
		QPN: b.rail.Datagrams().Num(), Receive: true})
}
