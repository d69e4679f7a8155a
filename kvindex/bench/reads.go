package main

import (
	"log"
	"math/rand/v2"
	"slices"

	googlebtree "github.com/google/btree"
	"github.com/tidwall/btree"

	"github.com/weftrdma/weft/kvindex"
)

type pair struct{ key, value uint64 }

func less(a, b pair) bool { return a.key < b.key }

var benches = []bench{
	{"get", "ns", []contender{{"kvindex", getIndex}, {"google", getGoogle}, {"tidwall", getTidwall}, {"binary search", getBinary}}},
	{"latency", "ns", []contender{{"kvindex, each get after the other", getInTurn}, {"one load, each after the other", chase}}},
	{"batch64", "ns", []contender{{"kvindex", batchIndex}}},
	{"scan10", "ns", []contender{{"kvindex", scanIndex}, {"google", scanGoogle}, {"tidwall", scanTidwall}}},
	{"load", "ns CPU", []contender{{"kvindex", loadIndex}, {"tidwall", loadTidwall}}},
	{"put", "ns CPU", []contender{{"kvindex", putIndex}, {"kvindex blind", putBlindIndex}, {"google", putGoogle},
		{"tidwall", putTidwall}}},
	{"churned", "ns", []contender{{"kvindex", getChurned}}},
	shared,
	ycsb(mixes[0]), ycsb(mixes[1]), ycsb(mixes[2]), ycsb(mixes[3]), ycsb(mixes[4]), ycsb(mixes[5]),
	{"zipf", "ns", []contender{{"kvindex", zipfian(getIndex)}, {"tidwall", zipfian(getTidwall)}}},
}

func benchNames() (names []string) {
	for _, b := range benches {
		names = append(names, b.name)
	}
	return append(names, "memory", "stall")
}

// sink keeps what is read alive.
var sink uint64

func loaded(in *input) *kvindex.Index[uint64] {
	x, err := kvindex.BulkLoad(func(yield func(uint64, uint64) bool) {
		for _, k := range in.keys {
			if !yield(k, k) {
				return
			}
		}
	}, kvindex.Config{})
	if err != nil {
		log.Fatal(err)
	}
	return x
}

func googleTree(keys []uint64) *googlebtree.BTreeG[pair] {
	t := googlebtree.NewG(64, less)
	for _, k := range keys {
		t.ReplaceOrInsert(pair{k, k})
	}
	return t
}

func tidwallMap(keys []uint64) *btree.Map[uint64, uint64] {
	t := new(btree.Map[uint64, uint64])
	for _, k := range keys {
		t.Load(k, k)
	}
	return t
}

func getIndex(in *input) func() int {
	x := loaded(in)
	return func() int {
		for _, k := range in.probes {
			v, _ := x.Get(k)
			sink += v
		}
		return len(in.probes)
	}
}

// getChurned is get after random writes to every leaf.
func getChurned(in *input) func() int {
	x := loaded(in)
	churn(x, in.keys)
	return func() int {
		for _, k := range in.probes {
			v, _ := x.Get(k)
			sink += v
		}
		return len(in.probes)
	}
}

// zipfian makes a contender's reads follow a true Zipf distribution, whose ranks are spread over the keys.
func zipfian(prepare func(*input) func() int) func(*input) func() int {
	return func(in *input) func() int {
		z := newZipf(float64(len(in.keys)), zeta(len(in.keys)), rand.New(rand.NewPCG(46, 0)))
		all := make([]uint64, probes)
		for i := range all {
			all[i] = in.shuffle[min(int(z.next()), len(in.keys)-1)]
		}
		drawn, next := &input{keys: in.keys}, 0
		body := prepare(drawn)
		return func() int {
			n := len(in.probes)
			drawn.probes = all[next:][:n]
			next = (next + n) % (probes - n + 1)
			return body()
		}
	}
}

// nothing is 0, which the compiler does not know.
var nothing uint64

// getInTurn is get where each key depends on the value before, so that nothing overlaps.
func getInTurn(in *input) func() int {
	x := loaded(in)
	return func() int {
		v := uint64(0)
		for _, k := range in.probes {
			v, _ = x.Get(k ^ v&nothing)
		}
		sink += v
		return len(in.probes)
	}
}

// chase follows a random cycle through as much memory as keys and values take, a load for each line: what one cache miss
// costs that nothing overlaps. A get that is not in any cache takes at least one: keys have to be read before it is known
// which value is.
func chase(in *input) func() int {
	const line = 8
	lines := max(2*len(in.keys)/line, 2)
	memory := make([]uint64, lines*line)
	order := rand.New(rand.NewPCG(47, 0)).Perm(lines)
	for i, at := range order {
		memory[at*line] = uint64(order[(i+1)%lines] * line)
	}
	at := uint64(0)
	return func() int {
		for range in.probes {
			at = memory[at]
		}
		sink += at
		return len(in.probes)
	}
}

func getGoogle(in *input) func() int {
	t := googleTree(in.keys)
	return func() int {
		for _, k := range in.probes {
			v, _ := t.Get(pair{key: k})
			sink += v.value
		}
		return len(in.probes)
	}
}

func getTidwall(in *input) func() int {
	t := tidwallMap(in.keys)
	return func() int {
		for _, k := range in.probes {
			v, _ := t.Get(k)
			sink += v
		}
		return len(in.probes)
	}
}

func getBinary(in *input) func() int {
	values := slices.Clone(in.keys)
	return func() int {
		for _, k := range in.probes {
			i, _ := slices.BinarySearch(in.keys, k)
			sink += values[i]
		}
		return len(in.probes)
	}
}

func batchIndex(in *input) func() int {
	x := loaded(in)
	values, found := make([]uint64, 64), make([]bool, 64)
	return func() int {
		for p := in.probes; len(p) >= 64; p = p[64:] {
			x.GetBatch(p[:64], values, found)
			sink += values[0]
		}
		return len(in.probes)
	}
}

const scanned = 10

func scanIndex(in *input) func() int {
	x := loaded(in)
	return func() int {
		for _, k := range in.probes {
			n := 0
			for _, v := range x.From(k) {
				sink += v
				if n++; n == scanned {
					break
				}
			}
		}
		return len(in.probes)
	}
}

func scanGoogle(in *input) func() int {
	t := googleTree(in.keys)
	return func() int {
		for _, k := range in.probes {
			n := 0
			t.AscendGreaterOrEqual(pair{key: k}, func(p pair) bool {
				sink += p.value
				n++
				return n < scanned
			})
		}
		return len(in.probes)
	}
}

func scanTidwall(in *input) func() int {
	t := tidwallMap(in.keys)
	return func() int {
		for _, k := range in.probes {
			n := 0
			t.Ascend(k, func(_, v uint64) bool {
				sink += v
				n++
				return n < scanned
			})
		}
		return len(in.probes)
	}
}

func loadIndex(in *input) func() int {
	return func() int {
		loaded(in)
		return len(in.keys)
	}
}

func loadTidwall(in *input) func() int {
	return func() int {
		tidwallMap(in.keys)
		return len(in.keys)
	}
}

func putIndex(in *input) func() int {
	x, err := kvindex.New[uint64](kvindex.Config{})
	if err != nil {
		log.Fatal(err)
	}
	return func() int {
		for _, k := range in.shuffle {
			x.Put(k, k)
		}
		return len(in.shuffle)
	}
}

func putBlindIndex(in *input) func() int {
	x, err := kvindex.New[uint64](kvindex.Config{})
	if err != nil {
		log.Fatal(err)
	}
	return func() int {
		for _, k := range in.shuffle {
			x.PutBlind(k, k)
		}
		return len(in.shuffle)
	}
}

func putGoogle(in *input) func() int {
	t := googlebtree.NewG(64, less)
	return func() int {
		for _, k := range in.shuffle {
			t.ReplaceOrInsert(pair{k, k})
		}
		return len(in.shuffle)
	}
}

func putTidwall(in *input) func() int {
	var t btree.Map[uint64, uint64]
	return func() int {
		for _, k := range in.shuffle {
			t.Set(k, k)
		}
		return len(in.shuffle)
	}
}
