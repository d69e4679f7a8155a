package main

import (
	"log"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"

	"github.com/weftrdma/weft/kvindex"
)

// Zipfian request distributions, as YCSB has them (brianfrankcooper/YCSB d9faaac; Gray et al., SIGMOD 1994).
const theta = 0.99

// zipf draws ranks below n with the frequencies of Zipf's law: "true Zipf", whose top key gets 1/zeta(n) of all requests.
type zipf struct {
	n, zetan, alpha, eta float64
	random               *rand.Rand
}

func zeta(n int) (sum float64) {
	for i := 1; i <= n; i++ {
		sum += math.Pow(float64(i), -theta)
	}
	return sum
}

func newZipf(n, zetan float64, random *rand.Rand) *zipf {
	return &zipf{n: n, zetan: zetan, alpha: 1 / (1 - theta), random: random,
		eta: (1 - math.Pow(2/n, 1-theta)) / (1 - zeta(2)/zetan)}
}

// grow makes the distribution one of n ranks, which are more than before.
func (z *zipf) grow(n int) {
	for i := int(z.n) + 1; i <= n; i++ {
		z.zetan += math.Pow(float64(i), -theta)
	}
	z.n = float64(n)
	z.eta = (1 - math.Pow(2/z.n, 1-theta)) / (1 - zeta(2)/z.zetan)
}

func (z *zipf) next() uint64 {
	u := z.random.Float64()
	switch uz := u * z.zetan; {
	case uz < 1:
		return 0
	case uz < 1+math.Pow(0.5, theta):
		return 1
	}
	return uint64(z.n * math.Pow(z.eta*u-z.eta+1, z.alpha))
}

// scrambled is YCSB's "zipfian": ranks over 10^10 items with the zeta that it has built in, hashed onto n. The top key gets
// 3.78 % of the requests whatever n is.
type scrambled struct {
	zipf *zipf
	n    uint64
}

func newScrambled(n int, random *rand.Rand) scrambled {
	return scrambled{newZipf(1e10, 26.46902820178302, random), uint64(n)}
}

func (s scrambled) next() uint64 { return fnv(s.zipf.next()) % s.n }

// fnv is YCSB's FNV-1a-like hash of the 8 bytes, made non-negative as a Java long.
func fnv(v uint64) uint64 {
	h := uint64(0xCBF29CE484222325)
	for range 8 {
		h = (h ^ v&0xff) * 1099511628211
		v >>= 8
	}
	if int64(h) < 0 {
		h = -h
	}
	return h &^ (1 << 63) // the absolute value of the least long is negative
}

// mix is a YCSB core workload: shares of a hundred.
type mix struct {
	name                            string
	read, update, insert, scan, rmw int
	latest                          bool // requests go to the newest keys
}

var mixes = []mix{
	{"A", 50, 50, 0, 0, 0, false},
	{"B", 95, 5, 0, 0, 0, false},
	{"C", 100, 0, 0, 0, 0, false},
	{"D", 95, 0, 5, 0, 0, true},
	{"E", 0, 0, 5, 95, 0, false},
	{"F", 50, 0, 0, 0, 50, false},
}

// store is what a workload needs of a contender.
type store interface {
	get(k uint64) uint64
	put(k, v uint64)
	scan(k uint64, n int) uint64
}

type indexStore struct{ x *kvindex.Index[uint64] }

func (s indexStore) get(k uint64) uint64 { v, _ := s.x.Get(k); return v }
func (s indexStore) put(k, v uint64)     { s.x.Put(k, v) }
func (s indexStore) scan(k uint64, n int) (sum uint64) {
	for _, v := range s.x.From(k) {
		sum += v
		if n--; n == 0 {
			break
		}
	}
	return sum
}

type treeStore struct{ t *btree.Map[uint64, uint64] }

func (s treeStore) get(k uint64) uint64 { v, _ := s.t.Get(k); return v }
func (s treeStore) put(k, v uint64)     { s.t.Set(k, v) }
func (s treeStore) scan(k uint64, n int) (sum uint64) {
	s.t.Ascend(k, func(_, v uint64) bool {
		sum += v
		n--
		return n > 0
	})
	return sum
}

// ycsb makes a benchmark of one mix. Keys are hashed record numbers, as YCSB's default insert order has them: records
// loaded are those of the input's size, and inserts go on from there.
func ycsb(m mix) bench {
	const operations = 1_000_000
	run := func(in *input, build func(keys []uint64) store) func() int {
		records := len(in.keys)
		keys := make([]uint64, records+operations)
		for i := range keys {
			keys[i] = fnv(uint64(i))
		}
		loadedKeys := slices.Clone(keys[:records])
		slices.Sort(loadedKeys)
		s := build(slices.Compact(loadedKeys))
		random := rand.New(rand.NewPCG(44, 0))
		request := newScrambled(records+2*operations*m.insert/100, random)
		newest := newZipf(float64(records), zeta(records), random)
		type op struct {
			kind  byte
			key   uint64
			count int
		}
		ops := make([]op, operations)
		inserted := records
		for i := range ops {
			o := op{count: 1 + random.IntN(100)}
			at := uint64(inserted)
			for !m.latest && at >= uint64(inserted) {
				at = request.next()
			}
			if m.latest {
				newest.grow(inserted)
				at = uint64(inserted-1) - newest.next()
			}
			switch p := random.IntN(100); {
			case p < m.read:
				o.kind = 'r'
			case p < m.read+m.update:
				o.kind = 'u'
			case p < m.read+m.update+m.insert:
				o.kind, at = 'u', uint64(inserted)
				inserted++
			case p < m.read+m.update+m.insert+m.scan:
				o.kind = 's'
			default:
				o.kind = 'm'
			}
			o.key = keys[at]
			ops[i] = o
		}
		return func() int {
			for _, o := range ops {
				switch o.kind {
				case 'r':
					sink += s.get(o.key)
				case 'u':
					s.put(o.key, o.key)
				case 's':
					sink += s.scan(o.key, o.count)
				default:
					s.put(o.key, s.get(o.key)+1)
				}
			}
			return len(ops)
		}
	}
	return bench{"ycsb" + m.name, "ns CPU", []contender{
		{"kvindex", func(in *input) func() int {
			return run(in, func(keys []uint64) store { return indexStore{loaded(&input{keys: keys})} })
		}},
		{"tidwall", func(in *input) func() int {
			return run(in, func(keys []uint64) store { return treeStore{tidwallMap(keys)} })
		}},
	}}
}

// shared is four readers and four writers at once: nanoseconds of wall time for each operation of any of them.
var shared = bench{"4r4w", "ns wall", []contender{
	{"kvindex", func(in *input) func() int {
		x := loaded(in)
		return func() int {
			return together(in, func(k uint64) { v, _ := x.Get(k); _ = v }, func(k uint64) { x.PutBlind(k, k) })
		}
	}},
	{"tidwall BTreeG", func(in *input) func() int {
		t := btree.NewBTreeG(less)
		for _, k := range in.keys {
			t.Load(pair{k, k})
		}
		return func() int {
			return together(in, func(k uint64) { t.Get(pair{key: k}) }, func(k uint64) { t.Set(pair{k, k}) })
		}
	}},
}}

// together runs eight goroutines over the probes and returns how many operations they did.
func together(in *input, read, write func(uint64)) int {
	const each = probes / 8
	var wg sync.WaitGroup
	for g := range 8 {
		part := in.probes[g*each : (g+1)*each]
		wg.Go(func() {
			for _, k := range part {
				if g%2 == 0 {
					read(k)
				} else {
					write(k)
				}
			}
		})
	}
	wg.Wait()
	return 8 * each
}

// stalls measures single reads beside a goroutine that writes, or beside one that only computes, whose figures are what
// the machine does to any program; and gives the slowest in ten thousand.
func stalls(in *input, write bool) (p9999, slowest time.Duration) {
	x := loaded(in)
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; !done.Load(); i++ {
			if k := in.probes[i%probes]; write {
				x.PutBlind(k+1, k)
			}
		}
	})
	took := make([]time.Duration, 500_000)
	for i := range took {
		start := time.Now()
		if _, ok := x.Get(in.probes[i]); !ok {
			log.Fatal("a loaded key is missing")
		}
		took[i] = time.Since(start)
	}
	done.Store(true)
	wg.Wait()
	slices.Sort(took)
	return took[len(took)-len(took)/10_000], took[len(took)-1]
}
