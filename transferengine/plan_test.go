package transferengine_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/rail"
)

func everything(n int) int { return n }

func TestWritesCoverEveryByteOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(rdmatest.Seed(t), 0))
	for range 1000 {
		l := transferengine.Layout{Length: random.Uint64N(100000), MaxLength: 100 + random.Uint64N(30000),
			Shards: 1 + random.Uint64N(20), HasImm: random.IntN(2) == 0, Ordered: random.IntN(2) == 0}
		covered := make([]byte, l.Length)
		sent := 0
		for _, phase := range l.Writes(1+random.IntN(9), func(n int) int { return random.IntN(n + 1) }) {
			sent += immediates(phase)
			for _, w := range phase {
				if w.Length > l.MaxLength || w.LocalAddr != w.RemoteAddr || !w.HasImm && w.Length == 0 {
					t.Fatalf("%+v of %+v", w, l)
				}
				for i := range w.Length {
					covered[w.RemoteAddr+i]++
				}
			}
		}
		require.Equal(t, int(l.Length), bytes.Count(covered, []byte{1}), "bytes that are written once, of %+v", l)
		if l.HasImm {
			require.EqualValues(t, l.Shards, sent, "%+v", l)
		} else {
			require.Zero(t, sent)
		}
	}
}

func TestPagesGoWhereTheirNumbersSay(t *testing.T) {
	random := rand.New(rand.NewPCG(rdmatest.Seed(t), 0))
	for range 2000 {
		pages := random.IntN(40)
		l := transferengine.Layout{Length: 1 + random.Uint64N(300), MaxLength: 10 + random.Uint64N(200),
			Shards: 1 + random.Uint64N(8), HasImm: true, Ordered: random.IntN(2) == 0,
			LocalStride: 1000, RemoteStride: 3000, LocalPages: make([]uint32, pages), RemotePages: make([]uint32, pages)}
		for i := range pages {
			l.LocalPages[i], l.RemotePages[i] = random.Uint32(), uint32(i)
		}
		got := make([]uint64, pages)
		immediates := 0
		for _, phase := range l.Writes(1+random.IntN(9), func(n int) int { return random.IntN(n + 1) }) {
			for _, w := range phase {
				if w.HasImm {
					immediates++
				}
				if w.Length == 0 {
					continue
				}
				page, offset := w.RemoteAddr/l.RemoteStride, w.RemoteAddr%l.RemoteStride
				require.Equal(t, uint64(l.LocalPages[page])*l.LocalStride+offset, w.LocalAddr)
				got[page] += w.Length
			}
		}
		for page, n := range got {
			require.Equal(t, l.Length, n, "page %d of %+v", page, l)
		}
		require.EqualValues(t, l.Shards, immediates)
	}
}

// TestFinalsAreHeldBackWithoutOrder looks at what may be posted before the others have completed.
func TestFinalsAreHeldBackWithoutOrder(t *testing.T) {
	chunks := transferengine.Layout{Length: 1000, MaxLength: 300, Shards: 1, HasImm: true}
	phases := chunks.Writes(64, everything)
	require.Len(t, phases, 2)
	require.Equal(t, []uint64{300, 300, 300}, lengths(phases[0]))
	require.Equal(t, []uint64{100}, lengths(phases[1]))
	require.Zero(t, immediates(phases[0]))
	require.Equal(t, 1, immediates(phases[1]))

	chunks.Ordered = true
	phases = chunks.Writes(64, everything)
	require.Len(t, phases, 1)
	require.Equal(t, []uint64{300, 300, 300, 100}, lengths(phases[0]))
	require.True(t, phases[0][3].HasImm)

	// Shards that are one chunk each wait for nothing.
	shards := transferengine.Layout{Length: 2 * 4096, MaxLength: 4096, Shards: 4, HasImm: true}
	phases = shards.Writes(64, everything)
	require.Len(t, phases, 1)
	require.Equal(t, []uint64{4096, 4096, 0, 0}, lengths(phases[0]))
	require.Equal(t, 4, immediates(phases[0]))

	// Of a shard of several pages only the last carries the immediate.
	pages := transferengine.Layout{Length: 10, MaxLength: 4096, Shards: 2, HasImm: true,
		LocalPages: []uint32{0, 1, 2}, RemotePages: []uint32{0, 1, 2}, LocalStride: 10, RemoteStride: 10}
	phases = pages.Writes(64, everything)
	require.Equal(t, []uint64{10, 10}, lengths(phases[0]), "page 0, and page 2, which is alone in its shard")
	require.Equal(t, 1, immediates(phases[0]))
	require.EqualValues(t, 10, phases[1][0].RemoteAddr)
	require.Len(t, phases[1], 1)

	nothing := transferengine.Layout{MaxLength: 4096, Shards: 3}
	require.Equal(t, [][]rail.Op{nil}, nothing.Writes(64, everything))
}

func lengths(writes []rail.Op) (l []uint64) {
	for _, w := range writes {
		l = append(l, w.Length)
	}
	return l
}

func immediates(writes []rail.Op) (n int) {
	for _, w := range writes {
		if w.HasImm {
			n++
		}
	}
	return n
}
