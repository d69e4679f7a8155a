package transferengine_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/simrail"
)

// TestATimeoutWithoutEnd has transfers whose deadline is beyond what the worker's clock can say.
func TestATimeoutWithoutEnd(t *testing.T) {
	p := newPairIn(newWorld(t, simrail.Config{Delay: time.Millisecond}), 100, transferengine.Config{TransferTimeout: math.MaxInt64})
	for i, timeout := range []time.Duration{0, math.MaxInt64, math.MaxInt64 - 1e18} {
		w := p.all(uint32(i))
		w.Timeout = timeout
		var tr transferengine.Transfer
		require.NoError(t, p.a.Write(&tr, w))
		require.NoError(t, p.finish(&tr), "a timeout of %v", timeout)
	}
	require.Zero(t, p.a.Stats().DeadlinesMissed)
}

// TestGenerationsOfSlotsWrap has slots used so often that their generations begin anew.
func TestGenerationsOfSlotsWrap(t *testing.T) {
	p := newPairIn(newWorld(t, simrail.Config{Delay: time.Millisecond}), 100, transferengine.Config{})
	transfers := make([]transferengine.Transfer, 8)
	for round := range 6 {
		for i := range transfers {
			require.NoError(t, p.a.Write(&transfers[i], p.all(7)))
		}
		for i := range transfers {
			require.NoError(t, p.finish(&transfers[i]))
		}
		if round == 0 { // there are slots now
			p.a.SetGenerations(math.MaxUint32 - 2)
		}
	}
	require.Zero(t, p.a.Stats().Stray)
	p.settle()
	require.EqualValues(t, 48, p.b.Counter(7).Value())
}
