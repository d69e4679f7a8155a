//go:build linux && cgo && !noverbs && !asan

package verbsrail_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine"
)

// Under ASan what is handed to C escapes.
func TestNullWritesAllocateNothing(t *testing.T) {
	n := newOnNull(t, make([]byte, 4096))
	var transfers [64]transferengine.Transfer
	w := n.write(8)
	w.HasImm = true
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for i := range transfers {
			_ = n.engine.Write(&transfers[i], w)
		}
		n.settle()
		if !transfers[63].Done() {
			t.Fatal("a write did not complete")
		}
	}))
}
