package fabricrail

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNeighboursCloseWhenNobodyHoldsThem has rails come, let go of others and leave in any order: each endpoint is closed once,
// after all that were there when its rail left have let go of it, and none is left over.
func TestNeighboursCloseWhenNobodyHoldsThem(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			var h neighbourhood
			var open []*neighbour
			holds := map[*neighbour]map[*neighbour]bool{} // of those that left: who has not let go
			closed := map[*neighbour]int{}
			letGo := func(n, of *neighbour) {
				delete(holds[of], n)
				require.NoError(t, h.letGo(n, of))
			}
			step := func(grow bool) {
				switch i := r.IntN(3); {
				case i == 0 && grow || len(open) == 0:
					open = append(open, h.enter(fmt.Sprint(len(open))))
				case i == 1 && grow:
					n := open[r.IntN(len(open))]
					for _, d := range h.departures(n) {
						if r.IntN(2) == 0 {
							letGo(n, d)
						}
					}
				default:
					at := r.IntN(len(open))
					n := open[at]
					open = append(open[:at:at], open[at+1:]...)
					holds[n] = map[*neighbour]bool{}
					for _, other := range open {
						holds[n][other] = true
					}
					for _, held := range holds {
						delete(held, n)
					}
					require.NoError(t, h.leave(n, func() error {
						require.Empty(t, holds[n], "somebody points to it")
						closed[n]++
						return nil
					}))
				}
				for n, held := range holds {
					require.Equal(t, len(held) == 0, closed[n] == 1)
				}
				for _, n := range open {
					require.Equal(t, len(h.departures(n)) > 0, n.leaving.Load())
				}
			}
			for range 60 {
				step(true)
			}
			for len(open) > 0 {
				step(false)
			}
			require.Empty(t, h.here)
		})
	}
}

// TestLastNeighbourReportsTheError of closing an endpoint that it was the last to hold.
func TestLastNeighbourReportsTheError(t *testing.T) {
	var h neighbourhood
	a, b := h.enter("a"), h.enter("b")
	broken := errors.New("broken")
	require.NoError(t, h.leave(a, func() error { return broken }))
	require.ErrorIs(t, h.leave(b, func() error { return nil }), broken)
	require.Empty(t, h.here)
}
