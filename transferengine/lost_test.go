package transferengine_test

import (
	"bytes"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/simrail"
)

// lostPeer is a sender that has given up a receiver which takes no turns, on rails that cannot take operations back.
type lostPeer struct {
	*world
	a, b  *transferengine.Engine
	toB   *transferengine.Peer
	local *transferengine.Region
	dest  transferengine.Descriptor
}

func newLostPeer(t *testing.T, size int) *lostPeer {
	t.Helper()
	l := &lostPeer{world: newWorld(t, simrail.Config{TargetDriven: true, NoRecall: true})}
	l.a, l.b = l.open(transferengine.Config{CloseTimeout: 10 * time.Millisecond}), l.open(transferengine.Config{})
	l.toB, _ = l.connect(l.a, l.b)
	var err error
	l.local, err = l.a.Register(pattern(l.random, size), transferengine.LocalOnly)
	require.NoError(t, err)
	l.dest = register(t, l.b, pattern(l.random, size)).Descriptor()
	return l
}

// pass has the sender alone take turns for so long.
func (l *lostPeer) pass(d time.Duration) {
	for end := l.Now().Add(d); l.Now().Before(end); l.Advance(time.Millisecond) {
		l.a.Turn(l.Now())
	}
}

// read gives up the peer with a read in flight.
func (l *lostPeer) read() *transferengine.Transfer {
	l.t.Helper()
	t := new(transferengine.Transfer)
	require.NoError(l.t, l.a.Read(t, transferengine.Read{Peer: l.toB, Source: &l.dest, Dest: l.local, Length: l.dest.Length(),
		Timeout: 5 * time.Millisecond}))
	l.pass(100 * time.Millisecond)
	return t
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestALostPeerKeepsMemory until its operations have come back.
func TestALostPeerKeepsMemory(t *testing.T) {
	l := newLostPeer(t, 1<<16)
	read := l.read()
	var failed *transferengine.TransferError
	require.ErrorAs(t, read.Err(), &failed)
	require.ErrorIs(t, failed, os.ErrDeadlineExceeded)
	require.True(t, failed.InFlight)
	require.ErrorContains(t, failed, "still in flight")
	require.True(t, isClosed(l.toB.Done()), "nothing more can be sent")
	require.False(t, isClosed(l.toB.Down()), "it may write yet")
	err := l.local.Close()
	require.ErrorIs(t, err, syscall.EBUSY)
	require.ErrorContains(t, err, "operations to lost peers that may use it (of 1 transfers)")

	l.settle() // the peer goes on
	require.True(t, isClosed(l.toB.Down()))
	require.NoError(t, l.local.Close())
	require.Zero(t, l.a.Stats().Stray)
	again, _ := l.connect(l.a, l.b)
	require.NotSame(t, l.toB, again)
}

// TestWhatALostPeerKeepsIsNobodyElses: other transfers go on, by other slots, and a lost peer's operations count for nobody.
func TestWhatALostPeerKeepsIsNobodyElses(t *testing.T) {
	l := newLostPeer(t, 64)
	l.read()
	c := l.open(transferengine.Config{})
	toC, _ := l.connect(l.a, c)
	l.until(func() bool { return isClosed(l.toB.Down()) }) // the receiver takes turns
	there := register(t, c, make([]byte, 64))
	descriptor := there.Descriptor()
	var write transferengine.Transfer
	require.NoError(t, l.a.Write(&write, transferengine.Write{Peer: toC, Source: l.local, Dest: &descriptor, Length: 64}))
	l.settle()
	require.NoError(t, write.Err())
	require.Equal(t, l.local.Bytes(), there.Bytes())
	require.NoError(t, l.local.Close())
}

// TestCloseEndsWhatALostPeerKeeps: closing the engine is the only way to have memory back that a peer keeps which never goes on.
func TestCloseEndsWhatALostPeerKeeps(t *testing.T) {
	l := newLostPeer(t, 1<<16)
	l.read()
	require.ErrorIs(t, l.a.Close(), syscall.EBUSY, "nobody has asked for the region to be closed")
	require.ErrorIs(t, l.local.Close(), syscall.EBUSY)
	other, err := l.a.Register(make([]byte, 8), transferengine.LocalOnly)
	require.NoError(t, err)
	require.ErrorIs(t, l.a.Close(), syscall.EBUSY, "another region is open")
	require.NoError(t, other.Close(), "nothing has changed")
	require.NoError(t, l.a.Close())
	require.NoError(t, l.local.Close())
	require.True(t, isClosed(l.toB.Down()))
	clear(l.local.Bytes())
	for range 100 {
		l.Advance(time.Millisecond)
		l.b.Turn(l.Now())
	}
	require.Equal(t, make([]byte, 1<<16), l.local.Bytes(), "nothing came of the read any more")
	require.NoError(t, l.a.Close(), "again")
}

// TestShutdownBesideALostPeer ends, and tells that nothing is wrong: what is kept is in the regions' answers.
func TestShutdownBesideALostPeer(t *testing.T) {
	l := newLostPeer(t, 64)
	l.read()
	require.NoError(t, l.a.Shutdown(soon(t)))
	require.ErrorIs(t, l.local.Close(), syscall.EBUSY)
	require.NoError(t, l.a.Close())
	require.NoError(t, l.local.Close())
}

// TestAScatterToALostPeer says which target keeps the memory.
func TestAScatterToALostPeer(t *testing.T) {
	l := newLostPeer(t, 64)
	c := l.open(transferengine.Config{})
	toC, _ := l.connect(l.a, c)
	there := register(t, c, make([]byte, 64)).Descriptor()
	var scatter transferengine.Transfer
	require.NoError(t, l.a.Scatter(&scatter, transferengine.Scatter{Source: l.local, Timeout: 5 * time.Millisecond,
		Targets: []transferengine.ScatterTarget{{Peer: toC, Dest: &there, Length: 64}, {Peer: l.toB, Dest: &l.dest, Length: 64}}}))
	for range 100 {
		l.Advance(time.Millisecond)
		l.a.Turn(l.Now())
		c.Turn(l.Now())
	}
	var failed *transferengine.ScatterError
	require.ErrorAs(t, scatter.Err(), &failed)
	require.Len(t, failed.Failed, 1)
	require.Equal(t, 1, failed.Failed[0].Target)
	require.True(t, failed.Failed[0].Err.InFlight)
	require.ErrorIs(t, l.local.Close(), syscall.EBUSY)
	l.settle()
	require.NoError(t, l.local.Close())
}

// TestImmediatesBetweenLostAndDown count, and waits that miss them have ended by then.
func TestImmediatesBetweenLostAndDown(t *testing.T) {
	s := &sink{}
	p := toRail(t, s, false)
	wait := p.a.Counter(7).StartWait(2, p.toB)
	require.False(t, wait.Met())
	s.events = append(s.events, rail.Event{Kind: rail.PeerLost, Peer: sinkPeer, Err: rail.ErrPeerGone})
	p.settle1(p.a)
	require.True(t, wait.Met())
	require.True(t, isClosed(p.toB.Done()))
	require.False(t, isClosed(p.toB.Down()))
	require.Empty(t, p.a.Peers())
	for range 3 {
		s.events = append(s.events, rail.Event{Kind: rail.Immediate, Peer: sinkPeer, Imm: 7})
	}
	s.events = append(s.events, rail.Event{Kind: rail.PeerDown, Peer: sinkPeer, Err: rail.ErrPeerGone})
	p.settle1(p.a)
	require.EqualValues(t, 3, p.a.Counter(7).Value(p.toB))
	took, err := p.a.Counter(7).TryTake(3, p.toB)
	require.NoError(t, err)
	require.True(t, took)
	require.True(t, isClosed(p.toB.Down()))
	require.Zero(t, p.a.Stats().Stray)
	s.up = false
}

// TestMemoryOfAFailedTransferIsFree where the rail takes operations back: whatever the peer does later, what is put there stays.
func TestMemoryOfAFailedTransferIsFree(t *testing.T) {
	p, write, turn := stuck(t, transferengine.Config{TransferTimeout: 5 * time.Millisecond})
	turn()
	var failed *transferengine.TransferError
	require.ErrorAs(t, write.Err(), &failed)
	require.False(t, failed.InFlight)
	require.True(t, isClosed(p.toB.Down()))
	before := bytes.Clone(p.dest.Bytes())
	clear(p.source.Bytes())
	p.settle()
	require.Equal(t, before, p.dest.Bytes())
}
