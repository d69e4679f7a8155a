package railtest

import (
	"bytes"
	"encoding/binary"
	"os"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/transferengine/rail"
)

// sizes are around MTUs, pages and nothing.
func sizes() (all []int) {
	for _, around := range []int{0, 1, 8, 64, 256, 512, 1024, 2048, 4096, 8192, 65536, memorySize / 2} {
		for _, size := range []int{around - 1, around, around + 1} {
			if size >= 0 {
				all = append(all, size)
			}
		}
	}
	return all
}

func writesOfAllSizes(w *world) {
	a, b, atA, _ := w.pair()
	w.fill(a.memory)
	page := os.Getpagesize()
	for i, size := range sizes() {
		clear(b.memory)
		from, to := w.random.IntN(memorySize-size), w.random.IntN(memorySize-size)
		if i%3 == 0 { // up to a page's end, and from a page's start
			from = (from+size)/page*page - size
			to = min(to/page*page, memorySize-size)
		}
		from = max(from, 0)
		require.NoError(w, a.do(atA, withImm(a.op(rail.Write, from, b.remote(), to, size), uint32(i)), b))
		w.until("the immediate", func() bool { return len(b.immediates) == i+1 }, a, b)
		want := make([]byte, memorySize)
		copy(want[to:], a.memory[from:from+size])
		w.requireBytes(want, b.memory, "%d bytes from %d to %d", size, from, to)
	}
}

func writesWithoutBytes(w *world) {
	a, b, atA, _ := w.pair()
	w.fill(b.memory)
	want := bytes.Clone(b.memory)
	for _, at := range []int{0, 1, memorySize - 1} {
		o := a.op(rail.Write, 0, b.remote(), at, 0)
		o.LocalAddr, o.LocalKey = 0, 0
		require.NoError(w, a.do(atA, o, b))
		o.Token = a.op(rail.Write, 0, b.remote(), at, 0).Token
		require.NoError(w, a.do(atA, withImm(o, uint32(at)), b))
	}
	w.until("the immediates", func() bool { return len(b.immediates) == 3 }, a, b)
	w.pass(20*time.Millisecond, a, b)
	require.Equal(w, 3, len(b.immediates), "of those that asked for one")
	w.requireBytes(want, b.memory, "nothing was written")
}

func largeWrites(w *world) {
	const most = 40 << 20 // more than 25 bits of length
	size := int(min(most, w.probe().MaxLength))
	a, b := w.openWith(size, everything), w.openWith(size, everything)
	atA, _ := w.connect(a, b)
	w.fill(a.memory)
	require.NoError(w, a.do(atA, withImm(a.op(rail.Write, 0, b.remote(), 0, size), 1), b))
	w.until("the immediate", func() bool { return len(b.immediates) == 1 }, a, b)
	w.requireBytes(a.memory, b.memory, "%d bytes", size)
}

// probe is what rails of the network can do.
func (w *world) probe() rail.Caps { return w.open().caps }

func immediatesCountOnce(w *world) {
	a, b, atA, _ := w.pair()
	const many = 2000
	seen := make(map[uint32]int)
	b.onImm = func(imm uint32) { seen[imm]++ }
	for i := range uint32(many) {
		a.postAll(atA, []*node{b}, withImm(a.op(rail.Write, 0, b.remote(), 0, w.random.IntN(3)*100), i<<12|i>>20))
	}
	w.until("all immediates", func() bool { return len(b.immediates) >= many && a.idle() }, a, b)
	w.pass(20*time.Millisecond, a, b)
	require.Equal(w, many, len(b.immediates), "immediates")
	for imm, n := range seen {
		require.Equal(w, 1, n, "immediate %d", imm)
	}
	for token, err := range a.done {
		require.NoError(w, err, "operation %d", token)
	}
}

// immediatesAfterBytes writes a number to the first and the last bytes of a place, and sends it along.
func immediatesAfterBytes(w *world) {
	a, b, atA, _ := w.pair()
	const places, size = 16, memorySize / 16
	for round := range uint32(20) {
		b.onImm = func(imm uint32) {
			at := b.memory[int(imm%places)*size:][:size]
			require.Equal(w, imm, binary.BigEndian.Uint32(at), "the first bytes")
			require.Equal(w, imm, binary.BigEndian.Uint32(at[size-4:]), "the last bytes")
		}
		ops := make([]rail.Op, places)
		for i := range ops {
			imm := round*places + uint32(i)
			binary.BigEndian.PutUint32(a.memory[i*size:], imm)
			binary.BigEndian.PutUint32(a.memory[(i+1)*size-4:], imm)
			ops[i] = withImm(a.op(rail.Write, i*size, b.remote(), i*size, size), imm)
		}
		a.postAll(atA, []*node{b}, ops...)
		w.until("all immediates", func() bool { return len(b.immediates) == int(round+1)*places && a.idle() }, a, b)
	}
}

// promisedOrder has an immediate without bytes follow many writes.
func promisedOrder(w *world) {
	a, b, atA, _ := w.pair()
	if !a.caps.Ordered {
		return
	}
	w.fill(a.memory)
	const many, size = 30, 30_000
	for round := range 20 {
		clear(b.memory)
		b.onImm = func(uint32) {
			w.requireBytes(a.memory[:many*size], b.memory[:many*size], "round %d: what was posted before the immediate", round)
		}
		ops := make([]rail.Op, many)
		for i := range ops {
			ops[i] = a.op(rail.Write, i*size, b.remote(), i*size, size)
		}
		a.postAll(atA, []*node{b}, append(ops, withImm(a.op(rail.Write, 0, b.remote(), 0, 0), 1))...)
		w.until("the immediate", func() bool { return len(b.immediates) == round+1 && a.idle() }, a, b)
	}
}

// delivered looks at the target's memory as soon as a write has completed, before the target takes another turn.
func delivered(w *world) {
	a, b, atA, _ := w.pair()
	if a.caps.Completion != rail.Delivered {
		return
	}
	w.fill(a.memory)
	for i, size := range sizes() {
		clear(b.memory)
		o := a.op(rail.Write, 0, b.remote(), 0, size)
		if i%2 == 0 {
			o = withImm(o, 1)
		}
		a.postAll(atA, []*node{b}, o)
		w.until("it completes", func() bool { return a.idle() }, b, a) // whose turn is the last
		require.NoError(w, a.done[o.Token])
		w.requireBytes(a.memory[:size], b.memory[:size], "%d bytes have completed and are not there", size)
	}
}

func reads(w *world) {
	a, b, atA, _ := w.pair()
	if !a.caps.Read {
		_, err := a.rail.Post(atA, []rail.Op{a.op(rail.Read, 0, b.remote(), 0, 8)})
		require.Error(w, err)
		return
	}
	w.fill(b.memory)
	source := bytes.Clone(b.memory)
	for _, size := range sizes() {
		clear(a.memory)
		from, to := w.random.IntN(memorySize-size), w.random.IntN(memorySize-size)
		require.NoError(w, a.do(atA, a.op(rail.Read, to, b.remote(), from, size), b))
		want := make([]byte, memorySize)
		copy(want[to:], source[from:from+size])
		w.requireBytes(want, a.memory, "%d bytes from %d to %d", size, from, to)
	}
	w.requireBytes(source, b.memory, "what was read is as it was")
	require.Zero(w, len(b.immediates), "immediates")
}

func atomics(w *world) {
	a, b := w.open(), w.openWith(memorySize, rail.RemoteAtomic|rail.RemoteWrite)
	atA, _ := w.connect(a, b)
	add := func(token, n uint64) rail.Op {
		o := a.op(rail.FetchAdd, int(token)*8, b.remote(), 64, 8)
		o.Operand = n
		return o
	}
	if !a.caps.Atomics {
		_, err := a.rail.Post(atA, []rail.Op{add(0, 1)})
		require.Error(w, err)
		return
	}
	word := func(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }
	const many = 50
	for i := range uint64(many) {
		a.postAll(atA, []*node{b}, add(i, 3))
	}
	w.until("all have completed", a.idle, a, b)
	require.EqualValues(w, 3*many, word(b.memory[64:]))
	before := make(map[uint64]bool)
	for i := range many {
		before[word(a.memory[i*8:])] = true
	}
	require.Equal(w, many, len(before), "each found another value")

	for _, compare := range []uint64{3 * many, 1} {
		swap := a.op(rail.CompareSwap, 0, b.remote(), 64, 8)
		swap.Compare, swap.Operand = compare, 77
		require.NoError(w, a.do(atA, swap, b))
		require.EqualValues(w, 77, word(b.memory[64:]))
	}
	require.EqualValues(w, 77, word(a.memory), "what the second found")
	for _, bad := range []rail.Op{a.op(rail.FetchAdd, 0, b.remote(), 4, 8), a.op(rail.CompareSwap, 0, b.remote(), 0, 4)} {
		_, err := a.rail.Post(atA, []rail.Op{bad})
		require.Error(w, err)
	}
}
