package kvindex_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"math"
	"net/netip"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/kvindex"
)

// encoded is the file of an index with some keys.
func encoded(t testing.TB, keys []uint64) []byte {
	x, err := kvindex.BulkLoad(pairs(keys, inverse), kvindex.Config{})
	require.NoError(t, err)
	x.Put(5, 6) // one write is still in its buffer
	var file bytes.Buffer
	n, err := x.WriteTo(&file)
	require.NoError(t, err)
	require.Equal(t, int64(file.Len()), n)
	return file.Bytes()
}

func TestCodec(t *testing.T) {
	keys := clusters(newRandom(t), 10000)
	file := encoded(t, keys)
	r := bytes.NewReader(append(file, "more"...))
	x, err := kvindex.ReadFrom[uint64](iotest.OneByteReader(r), small)
	require.NoError(t, err)
	require.NoError(t, x.Verify())
	require.Equal(t, 4, r.Len(), "bytes after the end stay unread")
	want := sorted(append(slices.Clone(keys), 5))
	got, values := collect(x.All())
	require.Equal(t, want, got)
	for i, k := range got {
		if k != 5 {
			require.Equal(t, ^k, values[i])
		}
	}
}

func TestCodecOfOtherTypes(t *testing.T) {
	type point struct {
		X, Y int32
		Name [3]byte
	}
	x, err := kvindex.New[point](kvindex.Config{})
	require.NoError(t, err)
	x.Put(math.MaxUint64, point{1, -2, [3]byte{'a'}})
	var file bytes.Buffer
	_, err = x.WriteTo(&file)
	require.NoError(t, err)
	y, err := kvindex.ReadFrom[point](bytes.NewReader(file.Bytes()), kvindex.Config{})
	require.NoError(t, err)
	v, ok := y.Get(math.MaxUint64)
	require.True(t, ok)
	require.Equal(t, point{1, -2, [3]byte{'a'}}, v)
	_, err = kvindex.ReadFrom[uint64](&file, kvindex.Config{})
	require.ErrorContains(t, err, "values of 11 bytes")
	texts, err := kvindex.New[string](kvindex.Config{})
	require.NoError(t, err)
	_, err = texts.WriteTo(io.Discard)
	require.ErrorContains(t, err, "no fixed size")
}

// TestCodecFindsEveryFlip flips each byte and cuts at each length.
func TestCodecFindsEveryFlip(t *testing.T) {
	file := encoded(t, []uint64{0, 7, 9, math.MaxUint64})
	for i := range file {
		bad := slices.Clone(file)
		bad[i] ^= 0x10
		_, err := kvindex.ReadFrom[uint64](bytes.NewReader(bad), kvindex.Config{})
		require.Error(t, err, "byte %d", i)
		_, err = kvindex.ReadFrom[uint64](bytes.NewReader(file[:i]), kvindex.Config{})
		require.ErrorIs(t, err, kvindex.ErrCorrupt, "%d bytes", i)
	}
}

func FuzzReadFrom(f *testing.F) {
	f.Add(encoded(f, []uint64{0, 7, 9, math.MaxUint64}))
	f.Add([]byte("weftkvx\x00"))
	f.Fuzz(func(t *testing.T, file []byte) {
		x, err := kvindex.ReadFrom[uint64](bytes.NewReader(file), kvindex.Config{})
		if err == nil {
			require.NoError(t, x.Verify())
		}
	})
}

func TestSOSD(t *testing.T) {
	file := func(words ...uint64) io.Reader {
		var b []byte
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		return bytes.NewReader(b)
	}
	keys, err := kvindex.ReadSOSD(file(3, 1, 1, math.MaxUint64))
	require.NoError(t, err)
	require.Equal(t, []uint64{1, 1, math.MaxUint64}, keys)
	for _, bad := range []io.Reader{file(), file(2, 1), file(1<<60, 1), file(1, 1, 2), file(2, 2, 1)} {
		_, err := kvindex.ReadSOSD(bad)
		require.Error(t, err)
	}
}

func TestKeysKeepOrder(t *testing.T) {
	ints := []int64{math.MinInt64, -1, 0, 1, math.MaxInt64}
	for i, v := range ints {
		require.Equal(t, v, kvindex.KeyInt64(kvindex.Int64Key(v)))
		require.True(t, i == 0 || kvindex.Int64Key(ints[i-1]) < kvindex.Int64Key(v))
	}
	floats := []float64{math.Inf(-1), -math.MaxFloat64, -1, -math.SmallestNonzeroFloat64, math.Copysign(0, -1), 0,
		math.SmallestNonzeroFloat64, 1, math.MaxFloat64, math.Inf(1), math.NaN()}
	for i, v := range floats {
		require.Equal(t, math.Float64bits(v), math.Float64bits(kvindex.KeyFloat64(kvindex.Float64Key(v))))
		require.True(t, i == 0 || kvindex.Float64Key(floats[i-1]) < kvindex.Float64Key(v), "%v", v)
	}
	now := time.Now()
	before, err := kvindex.TimeKey(now)
	require.NoError(t, err)
	after, err := kvindex.TimeKey(now.Add(1))
	require.NoError(t, err)
	require.Less(t, before, after)
	require.True(t, kvindex.KeyTime(before).Equal(now))
	for _, year := range []int{1, 1600, 2300} {
		_, err := kvindex.TimeKey(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC))
		require.ErrorContains(t, err, "outside the years")
	}
	for a, b := range map[string]string{"": "a", "a": "b", "a\x00": "aa", "abcdefgh": "abcdefgi"} {
		require.Less(t, kvindex.StringKey(a), kvindex.StringKey(b)+1)
	}
}

func TestTies(t *testing.T) {
	x, err := kvindex.NewStrings[int](small)
	require.NoError(t, err)
	random := newRandom(t)
	m := map[string]int{}
	for i := range 3000 {
		s := []string{"", "12345678", "ab"}[random.IntN(3)]
		for range random.IntN(5) {
			s += string(rune('a' + random.IntN(3)))
		}
		want, exists := m[s]
		if random.IntN(3) == 0 {
			old, ok := x.Delete(s)
			require.Equal(t, exists, ok)
			require.Equal(t, want, old)
			delete(m, s)
			continue
		}
		old, ok := x.Put(s, i)
		require.Equal(t, exists, ok)
		require.Equal(t, want, old)
		m[s] = i
	}
	require.NoError(t, x.Verify())
	require.Equal(t, len(m), x.Len())
	var got []string
	for s, v := range x.All() {
		require.Equal(t, m[s], v)
		got = append(got, s)
	}
	require.True(t, slices.IsSorted(got))
	require.Len(t, got, len(m))
	var some []string
	for s := range x.Range("12345678a", "ab") {
		some = append(some, s)
	}
	lo, _ := slices.BinarySearch(got, "12345678a")
	hi, found := slices.BinarySearch(got, "ab")
	if found {
		hi++
	}
	require.Equal(t, got[lo:hi], some)
	require.NoError(t, x.Close())
}

func TestAddresses(t *testing.T) {
	x, err := kvindex.NewAddrs[string](kvindex.Config{})
	require.NoError(t, err)
	var addrs []netip.Addr
	for _, s := range []string{"0.0.0.0", "192.0.2.1", "255.255.255.255", "::", "::1", "::ffff:192.0.2.1", "2001:db8::1",
		"2001:db8::2", "fe80::1%eth0", "fe80::1%eth1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"} {
		a := netip.MustParseAddr(s)
		addrs = append(addrs, a)
		x.Put(a, s)
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	i := 0
	for a, s := range x.All() {
		require.Equal(t, addrs[i], a)
		require.Equal(t, s, a.String())
		i++
	}
	require.Len(t, addrs, i)
	require.NoError(t, x.Verify())
	require.Zero(t, cmp.Compare(kvindex.AddrKey(netip.Addr{}), 0))
}
