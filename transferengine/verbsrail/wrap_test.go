//go:build linux && cgo && !noverbs

package verbsrail_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/verbsrail"
)

// TestPositionsWrap fills the queue of a connection again and again while the positions of its operations begin anew, at depths that
// are powers of two and that are not.
func TestPositionsWrap(t *testing.T) {
	for _, depth := range []int{4, 256, 300, 1000} {
		for _, position := range []uint32{1<<16 - 3, math.MaxUint32 - 2, uint32(-depth / 2)} {
			t.Run(fmt.Sprintf("depth %d from %#x", depth, position), func(t *testing.T) {
				b := newBare(t, verbsrail.Config{WriteDepth: depth})
				id := b.adopt(0)
				b.rail.SetPosition(id, position)
				for range 4 {
					b.events = b.events[:0]
					b.null.Hold()
					require.Equal(t, depth, b.post(id, 1<<40, 2*depth), "as many as the configuration says")
					b.null.Release()
					b.settle()
					var tokens []uint64
					for _, e := range b.events {
						require.Equal(t, rail.Completed, e.Kind)
						require.NoError(t, e.Err)
						tokens = append(tokens, e.Token)
					}
					require.Len(t, tokens, depth)
					for i, token := range tokens {
						require.Equal(t, uint64(1<<40+i), token)
					}
				}
			})
		}
	}
}

// TestMessagePositionsWrap sends messages while their positions begin anew, and says farewell by the last one before and after that.
func TestMessagePositionsWrap(t *testing.T) {
	for _, position := range []uint32{1<<16 - 3, math.MaxUint32 - 20} {
		for messages := range 40 {
			b := newBare(t, verbsrail.Config{})
			id := b.adopt(0)
			b.rail.SetPosition(id, position)
			for range messages {
				sent, err := b.rail.Send(id, []byte("hello"))
				require.NoError(t, err)
				require.True(t, sent)
				b.settle()
			}
			b.rail.Disconnect(b.now, id)
			for range 10 { // and no time passes: the farewell is seen to arrive
				b.turn()
			}
			require.Equal(t, 1, b.count(rail.PeerDown, id), "%d messages from %#x", messages, position)
		}
	}
}

// TestGenerationsWrap has a rail make connections, and reset its datagram queue pair, while their generations begin anew.
func TestGenerationsWrap(t *testing.T) {
	for _, generation := range []uint32{1<<24 - 3, math.MaxUint32 - 2} {
		b := newBare(t, verbsrail.Config{})
		b.rail.SetGeneration(generation)
		for i := range uint32(6) {
			require.NoError(t, b.rail.ResetDatagrams())
			ignored := b.rail.Ignored()
			require.NoError(t, b.datagram())
			b.settle()
			require.Equal(t, ignored+1, b.rail.Ignored(), "what arrives after the reset is looked at")
			id := b.adopt(i)
			require.Equal(t, 1, b.post(id, 7, 1))
			require.NoError(t, b.immediate(id, 9))
			b.settle()
			require.Equal(t, 1, b.count(rail.Completed, id))
			require.Equal(t, 1, b.count(rail.Immediate, id))
			b.rail.Disconnect(b.now, id)
			for range 10 {
				b.turn()
			}
			require.Equal(t, 1, b.count(rail.PeerDown, id))
		}
	}
}
