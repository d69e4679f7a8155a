package fabricrail_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
)

// lent is memory of a rail that peers may read and write.
func (e *end) lent(size int, fill byte) (memory []byte, keys rail.Registration) {
	e.t.Helper()
	m, err := mem.Map(size)
	require.NoError(e.t, err)
	e.t.Cleanup(func() { require.NoError(e.t, m.Close()) })
	keys, err = e.rail.Register(m.Bytes(), rail.RemoteWrite|rail.RemoteRead)
	require.NoError(e.t, err)
	refill(m.Bytes(), fill)
	return m.Bytes(), keys
}

func refill(b []byte, fill byte) {
	for i := range b {
		b[i] = fill
	}
}

// pass has rails take turns for a time.
func pass(d time.Duration, ends ...*end) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for _, e := range ends {
			e.turn()
		}
	}
}

// TestNothingTouchesWhatWasTakenBack gives up a peer that takes no turns, or a few and then no more, with an operation in flight. It
// comes back whatever the peer does, and its memory has another use from then on: nothing of the operation is seen there, nor of
// the other use at the peer, which goes on. And the next connection is as good as the first.
func TestNothingTouchesWhatWasTakenBack(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	random := rand.New(rand.NewPCG(rdmatest.Seed(t), 0))
	cfg := local()
	cfg.DrainTimeout = 50 * time.Millisecond
	const theirs, ours, another = 0x55, 0x33, 0xaa
	for _, kind := range []rail.OpKind{rail.Write, rail.Read} {
		for _, size := range []int{64, 64 << 10, 1 << 20, 8 << 20} {
			for _, turns := range []int{0, 1 + random.IntN(10), 20 + random.IntN(80)} {
				t.Run(fmt.Sprintf("kind %d of %d bytes after %d turns", kind, size, turns), func(t *testing.T) {
					a, b := open(t, cfg, 1), open(t, cfg, 2)
					mine, source := a.lent(size, ours)
					dest, keys := b.lent(size, theirs)
					defer func() { require.NoError(t, keys.Close()) }()
					to := a.connect(b)
					n, err := a.rail.Post(to, []rail.Op{{Kind: kind, Token: 7, LocalAddr: mem.Addr(mine), LocalKey: source.LocalKey(),
						RemoteAddr: keys.RemoteAddr(), RemoteKey: keys.RemoteKey(), Length: uint64(size)}})
					require.NoError(t, err)
					require.Equal(t, 1, n)
					for range turns {
						b.turn()
						a.turn()
					}
					a.rail.Disconnect(time.Now(), to)
					done := await(rail.Completed, a)
					require.EqualValues(t, 7, done.Token)
					if turns == 0 || done.Err != nil {
						require.ErrorIs(t, done.Err, rail.ErrFlushed)
					}
					refill(mine, another)
					require.ErrorIs(t, await(rail.PeerDown, a).Err, net.ErrClosed)
					require.NoError(t, source.Close())
					pass(100*time.Millisecond, b, a)
					require.Empty(t, bytes.Trim(mine, "\xaa"), "what came back was overwritten")
					require.NotContains(t, string(dest), "\xaa", "what the memory had later was sent")
					require.Error(t, await(rail.PeerDown, b, a).Err)

					a.events, b.events = nil, nil
					to = a.connect(b)
					mine, source = a.lent(size, ours)
					defer func() { require.NoError(t, source.Close()) }()
					const many = 100
					for i, completed := 0, 0; completed < many; {
						n, err := a.rail.Post(to, []rail.Op{{Kind: []rail.OpKind{rail.Write, rail.Read}[i%2], Token: uint64(i),
							LocalAddr: mem.Addr(mine), LocalKey: source.LocalKey(), RemoteAddr: keys.RemoteAddr(),
							RemoteKey: keys.RemoteKey(), Length: uint64(min(size, 4096))}}[:min(1, many-i)])
						require.NoError(t, err)
						if i += n; n == 0 {
							require.NoError(t, await(rail.Completed, a, b).Err)
							completed++
						}
					}
				})
			}
		}
	}
}
