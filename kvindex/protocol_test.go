package kvindex

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestSnapshotEndsSlowWrites lets a snapshot read while a write is between reserving and committing its slot: the write
// must not be able to come into the snapshot afterwards.
func TestSnapshotEndsSlowWrites(t *testing.T) {
	x, err := New[int](Config{})
	require.NoError(t, err)
	x.Put(1, 1)
	b := x.leafOf(2).buf.Load()
	slot, ok := b.reserve(maxBuffer)
	require.True(t, ok)
	require.True(t, b.fill(slot, 2, 2, slotPut, x.version.Load()))
	s := x.Snapshot()
	_, ok = s.Get(2)
	require.False(t, ok)
	require.False(t, b.commit(slot, slotPut), "a write of the snapshot's version committed after the snapshot was read")
	x.Put(2, 2)
	_, ok = s.Get(2)
	require.False(t, ok)
	require.NoError(t, s.Close())
}

// TestLeafReplacedWhileASnapshotCloses replaces a leaf that two snapshots see after the newer one has handed down what it
// keeps: the older one must keep it.
func TestLeafReplacedWhileASnapshotCloses(t *testing.T) {
	x, err := New[int](Config{})
	require.NoError(t, err)
	x.Put(1, 1)
	older, newer := x.Snapshot(), x.Snapshot()
	p, heir := x.snapshots.stop(newer.view.version)
	p.handDown(heir)
	x.Put(1, 2)
	x.patch(1, x.leafOf(1), nil)
	x.snapshots.remove(p)
	v, ok := older.Get(1)
	require.True(t, ok && v == 1)
	require.NoError(t, older.Close())
}

// TestPatchLeavesRetiredNodesAlone takes the moment between finding a leaf's parent and locking it, in which the parent
// was replaced.
func TestPatchLeavesRetiredNodesAlone(t *testing.T) {
	x, err := New[int](Config{})
	require.NoError(t, err)
	x.Put(1, 1)
	l := x.leafOf(1)
	x.root.Load().retired = true
	x.patch(1, l, nil)
	require.Same(t, l, x.leafOf(1))
	require.Zero(t, x.counters.patches.Load())
	x.root.Load().retired = false
	x.patch(1, l, nil)
	require.NotSame(t, l, x.leafOf(1))
}

// TestSealedBufferTakesNothing seals between a write's reservation and its commit, and before a reservation.
func TestSealedBufferTakesNothing(t *testing.T) {
	b := new(buffer[int])
	slot, ok := b.reserve(maxBuffer)
	require.True(t, ok)
	require.True(t, b.fill(slot, 1, 1, slotPut, 0))
	s := b.seal()
	require.False(t, b.commit(slot, slotPut))
	require.Equal(t, slotDead, s.kind(slot))
	_, ok = b.reserve(maxBuffer)
	require.False(t, ok)
	require.Equal(t, s, b.load())
}

// TestOldBufferTakesNoWrite has more snapshots between a buffer's birth and a write than the slot's version can tell.
func TestOldBufferTakesNoWrite(t *testing.T) {
	x, err := New[int](Config{})
	require.NoError(t, err)
	x.Put(1, 1)
	l := x.leafOf(1)
	for range maxDelta + 1 {
		require.NoError(t, x.Snapshot().Close())
	}
	s := x.Snapshot()
	x.Put(1, 2)
	require.NotSame(t, l, x.leafOf(1), "the buffer was replaced")
	v, ok := s.Get(1)
	require.True(t, ok && v == 1)
	v, ok = x.Get(1)
	require.True(t, ok && v == 2)
	require.NoError(t, s.Close())
}

// TestSearchesAgree compares the spelled-out searches of windows with the plain one, at every key and beside it.
func TestSearchesAgree(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		keys := make([]uint64, leaf18)
		for i := range keys {
			keys[i] = random.Uint64()
		}
		keys[random.IntN(leaf18)], keys[random.IntN(leaf18)] = 0, math.MaxUint64
		slices.Sort(keys)
		window := (*[leaf18]uint64)(slices.Compact(keys)[:leaf18:leaf18])
		short := 1 + random.IntN(inner10)
		r, s := newRouter(window[:], model{width: inner10, eps: 4}), newRouter(window[:short], plainModel(short))
		for _, k := range beside(window[:]) {
			want := predecessor(window[:], 0, leaf18, k)
			require.Equal(t, want, predecessor18(window, k), "key %d in %d", k, window)
			want = predecessor(window[:], 0, inner10, k)
			require.Equal(t, want, r.child(k), "key %d in %d", k, window[:inner10])
			want = predecessor(window[:], 0, short, k)
			require.Equal(t, want, s.child(k), "key %d in %d", k, window[:short])
		}
	}
}

// beside are keys and what is next to them, and the ends.
func beside(keys []uint64) []uint64 {
	probes := []uint64{0, 1, math.MaxUint64 - 1, math.MaxUint64}
	for _, k := range keys {
		probes = append(probes, k-1, k, k+1)
	}
	return probes
}

// TestLookupsAgree compares the lookups that have no type of values with those that have one, on trees of all shapes and
// on values of several sizes.
func TestLookupsAgree(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	lookupsAgree(t, seed, func(k uint64) uint64 { return k })
	lookupsAgree(t, seed, func(k uint64) uint16 { return uint16(k) })
	lookupsAgree(t, seed, func(uint64) struct{} { return struct{}{} })
	lookupsAgree(t, seed, func(k uint64) [3]string { return [3]string{"", fmt.Sprint(k)} })
}

func lookupsAgree[V any](t *testing.T, seed uint64, value func(uint64) V) {
	random := rand.New(rand.NewPCG(seed, 0))
	for _, cfg := range []Config{{}, {Search: SearchPlain}, {LeafEpsilon: 20, InnerEpsilon: 9},
		{LeafEpsilon: 1, InnerEpsilon: 1, LeafCapacity: 8, NodeSegments: 2}, {LeafCapacity: 30, NodeSegments: 2}} {
		for _, n := range []int{0, 1, 2, 17, 18, 19, 300, Rounds(1500)} {
			shift := random.IntN(64)
			keys := make([]uint64, n)
			for i := range keys {
				keys[i] = random.Uint64() >> shift
			}
			slices.Sort(keys)
			keys = slices.Compact(keys)
			x, err := BulkLoad(func(yield func(uint64, V) bool) {
				for _, k := range keys {
					if !yield(k, value(k)) {
						return
					}
				}
			}, cfg)
			require.NoError(t, err)
			if random.IntN(2) == 0 && n > 0 {
				x.Put(keys[0], value(keys[0]))
			}
			for _, k := range beside(keys) {
				x.requireLookupsAgree(t, k, value)
			}
		}
	}
}

// requireLookupsAgree looks for one key in all ways. It compares without reflection, which would take most of the time.
func (x *Index[V]) requireLookupsAgree(t *testing.T, k uint64, value func(uint64) V) {
	root := x.root.Load()
	agree := func(what string, ok bool) {
		if !ok {
			require.Failf(t, what, "key %d", k)
		}
	}
	_, want := locate(root, k, nil).leaf.search(k)
	s := root.descend(k)
	agree("descend", goDescend(unsafe.Pointer(root), k) == unsafe.Pointer(s))
	at, slow := s.search(k)
	again, slot := root.find(k)
	agree("find", at == again && slow == (slot != nil))
	goAt, goSlow := goSearch(unsafe.Pointer(s), k, unsafe.Sizeof(*at))
	agree("search", unsafe.Pointer(at) == goAt && slow == (goSlow != nil))
	agree("presence", slow || want == (at != nil))
	l, keys, values, b := root.seek(k)
	agree("seek", s.load() == l && slices.Equal(l.keys[l.lowerBound(k):], keys) && len(keys) == len(values) && l.buf.Load() == b)
	var p, goP spot
	agree("seek", seek(unsafe.Pointer(root), k, unsafe.Sizeof(*at), &p) == nil)
	goSeek(unsafe.Pointer(root), k, &goP)
	agree("spot", goP == p)
	var aimed, goAimed target
	agree("aim", aim(unsafe.Pointer(root), k, k%2 == 0, &aimed) == nil)
	goAim(unsafe.Pointer(root), k, &goAimed)
	agree("target", goAimed == aimed)
	agree("hit", aimed.n == 0 || goHit(&aimed, k) == hit(&aimed, k))
	if at != nil && any(value(k)) != any(*at) {
		require.Equal(t, value(k), *at)
	}
}

// TestMatchesComparesWholeKeys has keys in a buffer that differ in one half only, and some twice.
func TestMatchesComparesWholeKeys(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		b := new(buffer[uint64])
		for i := range b.keys {
			b.keys[i] = random.Uint64N(3)<<32 | random.Uint64N(3)
		}
		k, among := random.Uint64N(3)<<32|random.Uint64N(3), random.Uint32()&lower
		want := uint32(0)
		for i := range b.keys {
			if b.keys[i] == k {
				want |= 1 << (slotBits * i) & among
			}
		}
		require.Equal(t, want, b.matches(k, among), "key %#x in %#x", k, b.keys)
		require.Equal(t, want, goMatches(unsafe.Pointer(b), k, among))
	}
}

// TestChangingSlots reads through slots that somebody has been stopped from changing, with another leaf's words in them.
// Whoever believes these words may go round in circles.
func TestChangingSlots(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const most = 3000
	x, err := New[uint64](Config{})
	require.NoError(t, err)
	for range 2000 {
		k := random.Uint64N(most)
		x.Put(k, ^k)
	}
	want, _ := x.answers(most)
	keys, values, found := make([]uint64, most), make([]uint64, most), make([]bool, most)
	x.root.Load().walkSlots(func(s, next *slot[uint64]) {
		s.shown, s.keys, s.values, s.buffer, s.slope = nil, next.keys, next.values, next.buffer, next.slope
	})
	var got string
	var crashed bool
	ends(t, "gets, floors and a scan through slots that are being changed", func() { got, crashed = x.answers(most) })
	require.False(t, crashed)
	require.Equal(t, want, got)
	for k := range keys {
		keys[k] = uint64(k)
	}
	ends(t, "GetBatch through slots that are being changed", func() { x.GetBatch(keys, values, found) })
	for k := range keys {
		v, ok := x.Get(uint64(k))
		require.Equal(t, ok, found[k])
		require.Equal(t, v, values[k])
	}
	ends(t, "puts through slots that are being changed", func() {
		for k := range uint64(most) {
			x.Put(k, k)
		}
	})
	require.Equal(t, most, x.Len())
	for k := range uint64(most) {
		v, ok := x.Get(k)
		require.True(t, ok && v == k)
	}
}

// ends fails the test where a call that takes milliseconds has not returned in 20 s, and says what it is.
func ends(t testing.TB, what string, call func()) {
	t.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		call()
	}()
	select {
	case <-over:
	case <-time.After(20 * time.Second):
		require.FailNow(t, "still waiting for "+what)
	}
}

// walkSlots visits the slots of leaves with their neighbours.
func (n *inner[V]) walkSlots(visit func(s, next *slot[V])) {
	for i := range n.count {
		seg := &n.segs[i]
		for j := range seg.leaves {
			visit(&seg.leaves[j], &seg.leaves[(j+1)%len(seg.leaves)])
		}
		for j := range seg.nodes {
			seg.nodes[j].Load().walkSlots(visit)
		}
	}
}

// TestSteeperNearAndFar compares slopes around the distance from which products take two words.
func TestSteeperNearAndFar(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 20000 {
		draw := func() point {
			return point{1 + random.Uint64()>>(1+random.IntN(63)), int64(random.IntN(480)) - 240}
		}
		b, d := draw(), draw()
		if random.IntN(2) == 0 { // nearly as steep
			d = point{b.x * 2, b.y * 2}
			d.x += random.Uint64N(3) - 1
		}
		r, s := rise{int64(b.x), b.y / 2}, rise{int64(d.x), d.y / 2}
		if b.x|d.x < 1<<55 {
			require.Equal(t, r.steeper(s, true), r.steeper(s, false))
		}
	}
}

// TestUpperBound compares it with a plain search.
func TestUpperBound(t *testing.T) {
	keys := make([]uint64, 0, maxCapacity)
	for n := range uint64(maxCapacity) {
		for k := range 3*n + 2 {
			want := slices.IndexFunc(keys, func(key uint64) bool { return key > k })
			if want < 0 {
				want = len(keys)
			}
			require.Equal(t, want, upperBound(keys, k))
		}
		require.Equal(t, len(keys), upperBound(keys, math.MaxUint64))
		keys = append(keys, 3*n)
	}
}

// TestSortedBuffers compares the order of a full buffer with that of any, with keys that come several times.
func TestSortedBuffers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		b := new(buffer[uint64])
		b.born = 7
		most := 1 + random.Uint64N(40)
		for i := range maxBuffer {
			slot, ok := b.reserve(maxBuffer)
			require.True(t, ok && slot == i)
			k := random.Uint64N(most) * (math.MaxUint64 / most)
			require.True(t, b.fill(slot, k, 0, slotPut, b.born+random.Uint64N(3)))
			require.True(t, b.commit(slot, slotPut+random.Uint64N(2)))
		}
		want, got := b.collect(b.load(), maxBuffer, latest, whole), b.sorted()
		require.Equal(t, want.slots[:want.n], got.slots[:got.n], "keys %d", b.keys)
		require.Equal(t, want.n, got.n)
		require.Equal(t, want.version, got.version)
	}
}

// TestWrittenSlots asks for some slots of a buffer whose next ones are in all states.
func TestWrittenSlots(t *testing.T) {
	for n := range maxBuffer + 1 {
		for missing := range n + 1 { // n: none
			for next := range slotDead + 1 {
				s := slots(maxBuffer) << reservedShift
				for i := range maxBuffer {
					switch kind := slots(slotPut + uint64(i)%2); {
					case i >= n:
						s |= slots(next) << (slotBits * i)
					case i != missing:
						s |= kind << (slotBits * i)
					}
				}
				require.Equal(t, missing == n, s.written(n), "slots %#x, the first %d", uint64(s), n)
			}
		}
	}
}
