package kvindex_test

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/weftrdma/weft/kvindex"
)

// An index is loaded from keys that rise, or begins empty. Any number of goroutines may read and write it at once.
func Example() {
	squares := func(yield func(uint64, string) bool) {
		for k := uint64(1); k <= 5; k++ {
			if !yield(k*k, fmt.Sprintf("%d squared", k)) {
				return
			}
		}
	}
	x, err := kvindex.BulkLoad(squares, kvindex.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer x.Close()

	value, ok := x.Get(9)
	fmt.Println(value, ok)
	old, replaced := x.Put(10, "ten")
	fmt.Printf("%q %v\n", old, replaced)
	for k, v := range x.Range(5, 20) {
		fmt.Println(k, v)
	}
	key, _, _ := x.Floor(24) // the largest key that is not above 24
	fmt.Println("floor of 24:", key)
	// Output:
	// 3 squared true
	// "" false
	// 9 3 squared
	// 10 ten
	// 16 4 squared
	// floor of 24: 16
}

// A batch overlaps the cache misses of its keys: on large sets it takes a third of the time of single gets.
func ExampleIndex_GetBatch() {
	x, err := kvindex.New[int](kvindex.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer x.Close()
	for i := range 100 {
		x.PutBlind(uint64(i), 10*i)
	}
	keys := []uint64{3, 500, 42}
	values, found := make([]int, len(keys)), make([]bool, len(keys))
	x.GetBatch(keys, values, found)
	fmt.Println(values, found)
	// Output: [30 0 420] [true false true]
}

// A snapshot is the map as it was at one moment. Writes go on beside it; close it, or the index keeps what it sees.
func ExampleIndex_Snapshot() {
	x, err := kvindex.New[string](kvindex.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer x.Close()
	x.Put(1, "before")
	s := x.Snapshot()
	defer s.Close()
	x.Put(1, "after")
	then, _ := s.Get(1)
	now, _ := x.Get(1)
	fmt.Println(then, now)
	// Output: before after
}

// Addresses, strings and other keys of which 8 bytes give the order, but do not always tell two apart.
func ExampleNewAddrs() {
	owners, err := kvindex.NewAddrs[string](kvindex.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer owners.Close()
	owners.Put(netip.MustParseAddr("2001:db8::2"), "second")
	owners.Put(netip.MustParseAddr("2001:db8::1"), "first")
	owners.Put(netip.MustParseAddr("192.0.2.7"), "seventh")
	for address, owner := range owners.All() {
		fmt.Println(address, owner)
	}
	// Output:
	// 192.0.2.7 seventh
	// 2001:db8::1 first
	// 2001:db8::2 second
}

// words reads an arena the way that a remote reader does: 8 or 64 bytes at an offset. Over a network each method is one
// one-sided read.
type words []uint64

func (w words) Load64(offset uint64) (uint64, error) {
	if offset/8 >= uint64(len(w)) {
		return 0, fmt.Errorf("read 8 bytes at %d: the memory has %d", offset, 8*len(w))
	}
	return atomic.LoadUint64(&w[offset/8]), nil
}

func (w words) LoadLine(offset uint64, line *[8]uint64) error {
	for i := range line {
		word, err := w.Load64(offset + 8*uint64(i))
		if err != nil {
			return err
		}
		line[i] = word
	}
	return nil
}

// An arena keeps the index in memory of the caller's, such as registered memory, where another process or a NIC can search it.
func ExampleArena() {
	memory := make([]uint64, 64<<10)
	a, err := kvindex.NewArena(memory, kvindex.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, _, err := a.Put(7, 17); err != nil { // wraps ErrFull where the memory is too small
		fmt.Println(err)
		return
	}
	value, ok, err := kvindex.Lookup(words(memory), 7) // on any machine that can read the memory
	fmt.Println(value, ok, err)
	// Output: 17 true <nil>
}
