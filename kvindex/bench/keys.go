package main

import (
	"compress/gzip"
	"encoding/binary"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

var setNames = []string{"uniform1M", "uniform10M", "dense4x1M", "dense4x10M", "lognormal1M", "lognormal10M", "word_prefix8",
	"ip4", "ip6hi"}

// keySet makes or reads a sorted set of distinct keys, and takes its first ones if it has more than most.
func keySet(name string, most int) []uint64 {
	keys := wholeSet(name)
	return keys[:min(len(keys), most)]
}

func wholeSet(name string) []uint64 {
	random := rand.New(rand.NewPCG(42, 0))
	switch {
	case strings.HasPrefix(name, "uniform"):
		return sorted(size(name), random.Uint64)
	case strings.HasPrefix(name, "dense4x"):
		n := size(name)
		keys := make([]uint64, 0, n)
		for k := range uint64(4 * n) {
			if random.IntN(4*n-int(k)) < n-len(keys) {
				keys = append(keys, k)
			}
		}
		return keys
	case strings.HasPrefix(name, "lognormal"):
		return sorted(size(name), func() uint64 { return uint64(math.Exp(2*random.NormFloat64()) * 1e12) })
	}
	return readKeys("../../testdata/keys/" + name + ".u64.gz")
}

func size(name string) int {
	if strings.HasSuffix(name, "10M") {
		return 10_000_000
	}
	return 1_000_000
}

func sorted(n int, draw func() uint64) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = draw()
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func readKeys(name string) []uint64 {
	f, err := os.Open(name)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		log.Fatal(err)
	}
	raw, err := io.ReadAll(unpacked)
	if err != nil {
		log.Fatal(err)
	}
	keys := make([]uint64, len(raw)/8)
	for i := range keys {
		keys[i] = binary.LittleEndian.Uint64(raw[8*i:])
	}
	return keys
}

// input is what all contenders of a measurement get.
type input struct {
	keys    []uint64 // sorted
	shuffle []uint64 // the same in random order
	probes  []uint64 // keys to look for: drawn with repetition
}

const probes = 1_000_000

func newInput(keys []uint64) *input {
	random := rand.New(rand.NewPCG(43, 0))
	in := &input{keys: keys, shuffle: slices.Clone(keys), probes: make([]uint64, probes)}
	random.Shuffle(len(keys), func(i, j int) { in.shuffle[i], in.shuffle[j] = in.shuffle[j], in.shuffle[i] })
	for i := range in.probes {
		in.probes[i] = keys[random.IntN(len(keys))]
	}
	return in
}

// processCPU is the CPU time that all threads of the process took.
func processCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// loadAverage says how busy the machine is, since that decides what figures are worth.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "load average unknown"
	}
	return "load average " + strings.Join(strings.Fields(string(text))[:3], " ")
}

func cpuName() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	_, after, _ := strings.Cut(string(text), "model name\t: ")
	name, _, _ := strings.Cut(after, "\n")
	return name
}
