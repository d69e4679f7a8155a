package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"runtime"

	"github.com/weftrdma/weft/kvindex"
)

// heap is what is alive after a full collection, as the allocator rounds it.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// reportMemory prints bytes a key beyond the key and its value, after load and after as many random writes as keys.
func reportMemory(out io.Writer, in *input) {
	before := heap()
	x := loaded(in)
	fmt.Fprintf(out, "memory\tkvindex, loaded\t%.2f\t\tbytes a key beyond 16\n", perKey(before, len(in.keys)))
	churn(x, in.keys)
	fmt.Fprintf(out, "memory\tkvindex, churned\t%.2f\t\tbytes a key beyond 16\n", perKey(before, x.Len()))
	if err := x.Flush(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Fprintf(out, "memory\tkvindex, churned and flushed\t%.2f\t\tbytes a key beyond 16\n", perKey(before, x.Len()))
	runtime.KeepAlive(x)
	runtime.KeepAlive(in) // or the collector takes what nothing needs any more, and the heap has grown by less
}

// reportTrees prints the same of the others.
func reportTrees(out io.Writer, in *input) {
	before := heap()
	t := tidwallMap(in.keys)
	fmt.Fprintf(out, "memory\ttidwall, loaded\t%.2f\t\tbytes a key beyond 16\n", perKey(before, len(in.keys)))
	runtime.KeepAlive(t)
	runtime.KeepAlive(in)
}

// reportGoogle too.
func reportGoogle(out io.Writer, in *input) {
	before := heap()
	g := googleTree(in.keys)
	fmt.Fprintf(out, "memory\tgoogle, loaded\t%.2f\t\tbytes a key beyond 16\n", perKey(before, len(in.keys)))
	runtime.KeepAlive(g)
	runtime.KeepAlive(in)
}

// perKey is what the heap has grown by for each key, beyond the key and the value.
func perKey(before uint64, keys int) float64 {
	return (float64(heap())-float64(before))/float64(keys) - 16
}

// churn inserts a key beside each second one, and deletes as many.
func churn(x *kvindex.Index[uint64], keys []uint64) {
	random := rand.New(rand.NewPCG(45, 0))
	for range len(keys) / 2 {
		x.Put(keys[random.IntN(len(keys))]+1, 1)
		x.Delete(keys[random.IntN(len(keys))])
	}
}
