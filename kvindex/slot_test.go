package kvindex

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSeekBesideSet seeks in a slot whose leaf changes between one key and many all the time: what it finds is of one leaf.
func TestSeekBesideSet(t *testing.T) {
	x, err := New[uint64](Config{})
	require.NoError(t, err)
	root := x.root.Load()
	s := root.descend(0)
	leaves := [2]*leaf[uint64]{}
	for i, n := range []uint64{1, 100} {
		y, err := New[uint64](Config{LeafEpsilon: 8})
		require.NoError(t, err)
		for k := range n {
			y.Put(2*k, k)
		}
		require.NoError(t, y.Flush(t.Context()))
		leaves[i] = y.root.Load().descend(0).load()
		require.Len(t, leaves[i].keys, int(n))
	}
	s.set(leaves[0])

	var writer sync.WaitGroup
	stop := make(chan struct{})
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				s.set(&leaf[uint64]{content: leaves[i%2].content}) // a leaf that was replaced never comes back
			}
		}
	})
	for i := range looks {
		k := uint64(i % 220)
		l, keys, values, _ := root.seek(k)
		if want := len(l.keys) - l.lowerBound(k); len(keys) != want || len(values) != want {
			close(stop)
			writer.Wait()
			require.Len(t, keys, want, "look %d", i)
		}
		if len(keys) > 0 && &keys[0] != &l.keys[len(l.keys)-len(keys)] {
			close(stop)
			writer.Wait()
			require.Fail(t, "the keys are another leaf's", "look %d", i)
		}
	}
	close(stop)
	writer.Wait()
}
