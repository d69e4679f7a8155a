package rdmatest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSeedIsDrawnOrGiven(t *testing.T) {
	t.Setenv(seedVariable, "")
	var f fakeT
	var first, second uint64
	f.do(func(t testing.TB) { first, second = Seed(t), Seed(t) })
	require.NotEqual(t, first, second)
	require.Equal(t, fmt.Sprintf("WEFT_SEED=%d replays thisWEFT_SEED=%d replays this", first, second), f.log)

	t.Setenv(seedVariable, "18446744073709551615")
	f.do(func(t testing.TB) { first = Seed(t) })
	require.EqualValues(t, uint64(1<<64-1), first)

	for _, wrong := range []string{"0", "-1", "a seed"} {
		t.Setenv(seedVariable, wrong)
		var f fakeT
		f.do(func(t testing.TB) { Seed(t) })
		require.Contains(t, f.fatal, fmt.Sprintf("WEFT_SEED is %q", wrong))
	}
}
