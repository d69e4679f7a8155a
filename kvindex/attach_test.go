package kvindex

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// views are what an index and a snapshot share.
type views interface {
	Get(k uint64) (uint64, bool)
	Floor(k uint64) (uint64, uint64, bool)
	Ceil(k uint64) (uint64, uint64, bool)
	All() iter.Seq2[uint64, uint64]
	From(lo uint64) iter.Seq2[uint64, uint64]
	Range(lo, hi uint64) iter.Seq2[uint64, uint64]
	Backward() iter.Seq2[uint64, uint64]
	Len() int
}

// said is what a view says around a key.
func said(v views, k uint64) map[string]string {
	scan := func(pairs iter.Seq2[uint64, uint64]) (text string) {
		for k, v := range pairs {
			text += fmt.Sprint(k, ":", v, " ")
		}
		return text
	}
	all := map[string]string{
		"All": scan(v.All()), "From": scan(v.From(k)), "Range": scan(v.Range(k-15, k+15)), "Backward": scan(v.Backward()),
		"Len": fmt.Sprint(v.Len()),
	}
	for near := k - 3; near <= k+3; near++ {
		for what, look := range map[string]func(uint64) (uint64, uint64, bool){"Floor": v.Floor, "Ceil": v.Ceil,
			"Get": func(k uint64) (uint64, uint64, bool) { v, ok := v.Get(k); return k, v, ok }} {
			found, value, ok := look(near)
			all[what] += fmt.Sprint(found, value, ok, " ")
		}
	}
	return all
}

// everything is what every way of reading an index says around a key.
func everything(t *testing.T, x *Index[uint64], k uint64) map[string]string {
	all := said(x, k)
	keys, values, found := []uint64{k - 1, k, k + 1}, make([]uint64, 3), make([]bool, 3)
	x.GetBatch(keys, values, found)
	all["GetBatch"] = fmt.Sprint(values, found)
	least, _, _ := x.Min()
	most, _, _ := x.Max()
	all["Min, Max"] = fmt.Sprint(least, most)
	s := x.Snapshot()
	for what, text := range said(s, k) {
		all["Snapshot."+what] = text
	}
	at, _, _ := s.At(s.Rank(k))
	all["Snapshot.Rank, At"] = fmt.Sprint(s.Rank(math.MaxUint64), at)
	require.NoError(t, s.Close())
	var file bytes.Buffer
	_, err := x.WriteTo(&file)
	require.NoError(t, err)
	read, err := ReadFrom[uint64](&file, Config{})
	require.NoError(t, err)
	all["WriteTo"] = said(read, k)["All"]
	return all
}

// TestAttachHidesNoWrite stops the goroutine that gives a leaf its buffer after each of its stores, and lets others write and read:
// every way of reading sees what was acknowledged, and a snapshot stays what it is.
func TestAttachHidesNoWrite(t *testing.T) {
	written := 0
	for _, k := range []uint64{0, 55, 1 << 40} { // the first key, one between two others, the last
		for stores := range 5 {
			x, reference := loaded(t, 20), loaded(t, 20)
			b := &buffer[uint64]{born: x.version.Load()}
			steps := x.root.Load().descend(k).attaching(b)
			for _, store := range steps[:stores] {
				store()
			}
			var aimed target
			if _, b := x.tree().aim(k, true, &aimed); b != nil { // otherwise a writer waits for the one that was stopped
				written++
				x.Put(k, 99)
				reference.Put(k, 99)
			}
			want := everything(t, reference, k)
			s := x.Snapshot()
			before := said(s, k)
			require.Equal(t, want, everything(t, x, k), "after %d stores", stores)
			for _, store := range steps[stores:] {
				store()
			}
			require.Equal(t, before, said(s, k), "after %d stores, a snapshot of then", stores)
			require.Equal(t, want, everything(t, x, k))
			require.NoError(t, s.Close())
			require.NoError(t, x.Verify())
		}
	}
	require.Equal(t, 3*3, written, "three of the states are open for writing")
}

// loaded has n keys, 10 apart, and no buffer.
func loaded(t *testing.T, n uint64) *Index[uint64] {
	x, err := BulkLoad(func(yield func(uint64, uint64) bool) {
		for k := range n {
			if !yield(k*10, k) {
				return
			}
		}
	}, Config{})
	require.NoError(t, err)
	return x
}
