package fabricrail_test

import (
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/rail"
)

// TestConnectionThatBreaksIsLostAtBothEnds: at once, whether the network ends it or the provider does at one end, for an operation that
// it refuses. What is posted to a peer that is lost is refused, and nothing of it arrives.
func TestConnectionThatBreaksIsLostAtBothEnds(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	breaks := map[string]func(a, b *end, toB rail.PeerID, write rail.Op){
		"cut at the caller": func(a, _ *end, _ rail.PeerID, _ rail.Op) { require.Positive(t, a.fabric().Cut()) },
		"cut at the called": func(_, b *end, _ rail.PeerID, _ rail.Op) { require.Positive(t, b.fabric().Cut()) },
		"refused": func(a, _ *end, toB rail.PeerID, write rail.Op) {
			write.RemoteKey ^= 1
			n, err := a.rail.Post(toB, []rail.Op{write})
			require.NoError(t, err)
			require.Equal(t, 1, n)
		},
	}
	for name, broken := range breaks {
		t.Run(name, func(t *testing.T) {
			a, b := open(t, local(), 1), open(t, local(), 2)
			toB := a.connect(b)
			const toA = rail.PeerID(1)
			_, write := b.target(64)
			write.HasImm = true
			start := time.Now()
			broken(a, b, toB, write)
			await(rail.PeerLost, a, b)
			lost := await(rail.PeerLost, b, a)
			require.Less(t, time.Since(start), rdmatest.Deadline(time.Second))
			require.ErrorIs(t, lost.Err, rail.ErrPeerGone)
			_, err := a.rail.Post(toB, []rail.Op{write})
			require.ErrorIs(t, err, rail.ErrNotUp)
			_, err = b.rail.Post(toA, []rail.Op{write})
			require.ErrorIs(t, err, rail.ErrNotUp)
			await(rail.PeerDown, a, b)
			await(rail.PeerDown, b, a)
			for _, e := range b.events {
				require.NotEqual(t, rail.Immediate, e.Kind)
			}
			a.events, b.events = nil, nil
			a.connect(b)
		})
	}
}

// TestDeathIsNoticedUnderLoad kills a peer while another sends more than each turn has room for.
func TestDeathIsNoticedUnderLoad(t *testing.T) { eachTransport(t, deathUnderLoad) }

func deathUnderLoad(t *testing.T, cfg fabricrail.Config, connected bool) {
	a, b := open(t, cfg, 1), open(t, cfg, 2)
	toA := b.connect(a)
	_, write := a.target(64)
	write.HasImm, write.Imm = true, 7
	args := []string{"-"}
	if !connected {
		args = []string{"datagrams", "-"}
	}
	child := rdmatest.StartChild(t, "conformance peer", args...)
	line, err := child.ReadLine(patience)
	require.NoError(t, err)
	var text string
	_, err = fmt.Sscanf(line, "%s", &text)
	require.NoError(t, err)
	address, err := hex.DecodeString(text)
	require.NoError(t, err)
	id, err := a.rail.Connect(time.Now(), address, time.Now().Add(rdmatest.Deadline(patience)))
	require.NoError(t, err)
	for await(rail.PeerUp, a, b).Peer != id {
		continue
	}
	a.events = nil
	child.Kill()
	ops := make([]rail.Op, 32)
	for i := range ops {
		ops[i] = write
	}
	events := make([]rail.Event, 8)
	full, turns := 0, 0
	within := a.rail.Caps().DeathWithin + rdmatest.Deadline(5*time.Second)
	for start := time.Now(); time.Since(start) < within; turns++ {
		for range 4 {
			_, err := b.rail.Post(toA, ops)
			require.NoError(t, err)
			b.turn()
			b.events = b.events[:0]
		}
		n, _ := a.rail.Turn(time.Now(), events)
		if n == len(events) {
			full++
		}
		for _, e := range events[:n] {
			if e.Kind == rail.PeerLost && e.Peer == id {
				t.Logf("noticed after %v, %d of %d turns were full", time.Since(start), full, turns)
				require.Greater(t, full, turns/2, "there is a load")
				return
			}
		}
	}
	require.FailNow(t, "not noticed", "%d of %d turns were full", full, turns)
}

// TestImmediatesThatArrivedAreReported, before the peer is down, also those that were not taken when it was given up.
func TestImmediatesThatArrivedAreReported(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a, b := open(t, local(), 1), open(t, local(), 2)
	toB := a.connect(b)
	memory, write := b.target(64)
	source, keys := a.lent(64, 1)
	defer func() { require.NoError(t, keys.Close()) }()
	write.HasImm, write.LocalAddr, write.LocalKey, write.Length = true, mem.Addr(source), keys.LocalKey(), 64
	const many = 32
	ops := make([]rail.Op, many)
	for i := range ops {
		ops[i] = write
	}
	n, err := a.rail.Post(toB, ops)
	require.NoError(t, err)
	require.Equal(t, many, n)
	ctx := rdmatest.Context(t, patience)
	pass(10*time.Millisecond, a) // the network has all of them
	var call atomic.Uint64
	for !b.rail.(rail.Spinner).Spin(time.Microsecond, &call, 0) { // which takes them from the provider
		require.NoError(t, ctx.Err())
	}
	for acknowledged := 0; acknowledged < many; {
		a.turn()
		for _, e := range a.events {
			if e.Kind == rail.Completed {
				require.NoError(t, e.Err)
				acknowledged++
			}
		}
		a.events = nil
		require.NoError(t, ctx.Err(), "%d are acknowledged", acknowledged)
	}
	require.Equal(t, byte(1), memory[63])
	b.rail.Disconnect(time.Now(), 1)
	immediates := 0
	for events := make([]rail.Event, 4); ; {
		a.turn()
		n, _ := b.rail.Turn(time.Now(), events)
		for _, e := range events[:n] {
			switch e.Kind {
			case rail.Immediate:
				immediates++
			case rail.PeerDown:
				require.Equal(t, many, immediates)
				return
			}
		}
		require.NoError(t, ctx.Err())
	}
}
