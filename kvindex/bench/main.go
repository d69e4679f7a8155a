// Command bench compares kvindex with google/btree, tidwall/btree and binary search in one run: every measurement takes
// all of them in turn, round after round, and what is printed are medians with the 10th and the 90th percentile.
package main

import (
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	log.SetFlags(0)
	sets := flag.String("sets", strings.Join(setNames, ","), "key sets, of "+strings.Join(setNames, " "))
	run := flag.String("run", strings.Join(benchNames(), ","), "measurements, of "+strings.Join(benchNames(), " "))
	rounds := flag.Int("rounds", 5, "rounds of each measurement")
	most := flag.Int("keys", math.MaxInt, "the most keys of a set, for a quick look whether all runs")
	one := flag.String("once", "", "run only this contender of this measurement, as get/kvindex, once and untimed")
	some := flag.Int("probes", probes, "for -once: how many keys to look for")
	flag.Parse()
	if *one != "" {
		once(*one, newInput(keySet(*sets, *most)), *some)
		return
	}
	fmt.Printf("%s, %d CPUs, %s, %d rounds; %s\n", runtime.Version(), runtime.NumCPU(), cpuName(), *rounds, loadAverage())
	for _, set := range strings.Split(*sets, ",") {
		keys := keySet(set, *most)
		fmt.Printf("\n%s, %d keys\n", set, len(keys))
		out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		for _, b := range benches {
			if slices.Contains(strings.Split(*run, ","), b.name) {
				measure(out, b, newInput(keys), *rounds)
				out.Flush()
			}
		}
		if slices.Contains(strings.Split(*run, ","), "memory") {
			in := newInput(keys)
			reportMemory(out, in)
			reportTrees(out, in)
			reportGoogle(out, in)
		}
		if slices.Contains(strings.Split(*run, ","), "stall") {
			for _, beside := range []string{"a writer", "a loop"} {
				p9999, slowest := stalls(newInput(keys), beside == "a writer")
				fmt.Fprintf(out, "stall\tkvindex, beside %s\t%v\t[%v]\tread at 99.99 %%, and the slowest\n", beside, p9999, slowest)
			}
		}
		out.Flush()
	}
	fmt.Printf("\n%s\n", loadAverage())
}

// once runs one contender without timing and without the collector, for a tool that counts what it does to the caches.
func once(name string, in *input, some int) {
	debug.SetGCPercent(-1)
	for _, b := range benches {
		for _, c := range b.contenders {
			if b.name+"/"+c.name != name {
				continue
			}
			body := c.prepare(in)
			in.probes, in.shuffle = in.probes[:min(some, len(in.probes))], in.shuffle[:min(some, len(in.shuffle))]
			body()
			return
		}
	}
	log.Fatalf("no contender %q", name)
}

// contender is one thing measured: prepare builds it and returns what is timed, which returns how many operations it did.
type contender struct {
	name    string
	prepare func(in *input) func() int
}

type bench struct {
	name       string
	unit       string
	contenders []contender
}

// slice is how many reads are timed at once. On a machine that others use, a slice of a few milliseconds often passes
// without being interrupted; the tenth percentile is then what a quiet machine would give.
const slice = 20_000

// measure runs all contenders of a benchmark in turn, and prints a line for each.
func measure(out *tabwriter.Writer, b bench, in *input, rounds int) {
	results := make([][]float64, len(b.contenders))
	allocs := make([]float64, len(b.contenders))
	bodies := make([]func() int, len(b.contenders))
	all := in.probes
	for range rounds {
		for i, c := range b.contenders {
			if bodies[i] == nil || b.fresh() {
				bodies[i] = c.prepare(in)
			}
			runtime.GC()
			parts := [][]uint64{all}
			if b.unit == "ns" {
				parts = slices.Collect(slices.Chunk(all, slice))
			}
			for _, in.probes = range parts {
				ns, a := timed(bodies[i], !strings.HasSuffix(b.unit, "CPU"))
				results[i], allocs[i] = append(results[i], ns), a
			}
			if b.fresh() {
				bodies[i] = nil
			}
		}
	}
	for i, c := range b.contenders {
		slices.Sort(results[i])
		r := results[i]
		fmt.Fprintf(out, "%s\t%s\t%.1f\t[%.1f, %.1f]\t%s\t%.3f allocs\n", b.name, c.name, r[len(r)/2], r[len(r)/10],
			r[len(r)-1-len(r)/10], b.unit, allocs[i])
	}
}

// fresh tells whether a measurement uses up what it measures.
func (b bench) fresh() bool {
	return b.name == "put" || b.name == "load" || strings.HasPrefix(b.name, "ycsb")
}

// timed gives the nanoseconds of process CPU that an operation took, the collector's included, or of wall time; and its
// allocations.
func timed(body func() int, wall bool) (ns, allocs float64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start, cpu := time.Now(), processCPU()
	n := body()
	took := processCPU() - cpu
	if wall {
		took = time.Since(start)
	}
	runtime.ReadMemStats(&after)
	return float64(took) / float64(n), float64(after.Mallocs-before.Mallocs) / float64(n)
}
