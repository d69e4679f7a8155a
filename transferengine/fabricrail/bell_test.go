package fabricrail_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/rail"
)

// TestSleeperIsRungFor: whatever a peer does wakes a rail that would not look for longer than the test has patience.
func TestSleeperIsRungFor(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a, b := open(t, local("shm"), 1), open(t, local("shm"), 2)
	sleeper := b.rail.(*fabricrail.Rail)
	sleeper.SleepFor(time.Minute) // more than patience
	memory := make([]byte, 64)
	keys, err := b.rail.Register(memory, rail.RemoteWrite)
	require.NoError(t, err)
	defer func() { require.NoError(t, keys.Close()) }()

	// woken has b asleep, or every other time about to be, while somebody does something.
	times := 0
	woken := func(what string, act func(), others ...*end) {
		for b.rail.Arm() {
			b.turn()
		}
		ended := make(chan error, 1)
		ctx := rdmatest.Context(t, patience)
		go func() { ended <- b.rail.Wait(ctx) }()
		for times++; times%2 == 1 && !sleeper.Asleep(); {
			require.NoError(t, ctx.Err())
			runtime.Gosched()
		}
		act()
		for {
			for _, e := range others {
				e.turn()
			}
			select {
			case err := <-ended:
				require.NoError(t, err, what)
				return
			case <-time.After(time.Millisecond):
			}
		}
	}
	var to rail.PeerID
	woken("a call", func() {
		to, err = a.rail.Connect(time.Now(), b.rail.Address(), time.Now().Add(patience))
		require.NoError(t, err)
	}, a) // which calls again once its memory is mapped
	await(rail.PeerUp, a, b)
	back := await(rail.PeerUp, b, a).Peer
	op := rail.Op{Kind: rail.Write, HasImm: true, Imm: 5, RemoteAddr: mem.Addr(memory), RemoteKey: keys.RemoteKey()}
	for range 100 { // at various moments of falling asleep
		woken("a write", func() {
			n, err := a.rail.Post(to, []rail.Op{op})
			require.NoError(t, err)
			require.Equal(t, 1, n)
		})
		await(rail.Immediate, b, a)
		await(rail.Completed, a, b)
	}
	long := make([]byte, 1<<20) // such a write is complete when it has been taken
	longKeys, err := a.rail.Register(long, rail.RemoteWrite)
	require.NoError(t, err)
	defer func() { require.NoError(t, longKeys.Close()) }()
	source, err := b.rail.Register(long, rail.LocalOnly)
	require.NoError(t, err)
	defer func() { require.NoError(t, source.Close()) }()
	op = rail.Op{Kind: rail.Write, HasImm: true, Length: uint64(len(long)), LocalAddr: mem.Addr(long),
		LocalKey: source.LocalKey(), RemoteAddr: mem.Addr(long), RemoteKey: longKeys.RemoteKey()}
	for range 2 {
		n, err := b.rail.Post(back, []rail.Op{op})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		woken("its write's being taken", func() {}, a)
		await(rail.Immediate, a, b)
		await(rail.Completed, b, a)
	}
	woken("a message", func() {
		sent, err := a.rail.Send(to, []byte("wake up"))
		require.NoError(t, err)
		require.True(t, sent)
	})
	await(rail.Message, b, a)
	woken("a farewell", func() {
		a.rail.Disconnect(time.Now(), to)
		a.turn()
	})
	await(rail.PeerDown, b, a)
	await(rail.PeerDown, a, b)
}

// TestBellGoesWithItsRail.
func TestBellGoesWithItsRail(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	bells := func() []string {
		found, err := filepath.Glob("/dev/shm/weft-*:bell")
		require.NoError(t, err)
		return found
	}
	r, err := local("shm").Open(rail.Incarnation{1})
	require.NoError(t, err)
	during := bells()
	require.NoError(t, r.Close())
	gone := 0
	for _, path := range during {
		if _, err := os.Stat(path); os.IsNotExist(err) {
			gone++
		}
	}
	require.NotZero(t, gone)
}
