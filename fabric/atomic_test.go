package fabric_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
)

func withAtomics(h *fabric.Hints) { h.Caps |= fabric.CapAtomic }

// words are a buffer as numbers.
func (b buffer) set(at int, v uint64)    { binary.NativeEndian.PutUint64(b.bytes[8*at:], v) }
func (b buffer) get(at int) uint64       { return binary.NativeEndian.Uint64(b.bytes[8*at:]) }
func (b buffer) word(at int) fabric.Seg  { return b.Seg(8*uint64(at), 8) }
func (b buffer) words(at int) fabric.Seg { return b.Seg(8*uint64(at), 16) }

// on has an atomic work on a word of a peer's.
func (b buffer) on(at int, op fabric.AtomicOp) fabric.AtomicOp {
	op.RemoteAddr, op.RemoteKey, op.Datatype = b.Addr()+8*uint64(at), b.RKey(), fabric.Uint64
	return op
}

// atomic posts one atomic and waits until it has completed.
func (x *side) atomic(post func([]fabric.AtomicOp, []fabric.Seg) (int, error), op fabric.AtomicOp, segs []fabric.Seg, other *side) {
	x.t.Helper()
	for {
		n, err := post([]fabric.AtomicOp{op}, segs)
		if n == 1 {
			require.NoError(x.t, err)
			break
		}
		require.ErrorIs(x.t, err, fabric.ErrQueueFull)
		x.poll()
		other.poll()
	}
	if op.ID != 0 {
		x.complete(op.ID, other)
	}
}

func TestAtomicsDoWhatTheySay(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a, b := pair(t, provider, setting{hints: withAtomics})
		here, there := a.buffer(256), b.buffer(64)
		values, err := a.ep.AtomicValid(fabric.Uint64, fabric.Sum)
		require.NoError(t, err)
		require.Positive(t, values)
		there.set(0, 100)
		here.set(0, 5)
		for i, flags := range []fabric.Flags{0, fabric.FlagDeliveryComplete, fabric.FlagInject} {
			op := there.on(0, fabric.AtomicOp{ID: 1, NumSeg: 1, Operator: fabric.Sum, Flags: flags})
			if flags == fabric.FlagInject {
				op.ID = 0
			}
			a.atomic(a.ep.Atomic, op, []fabric.Seg{here.word(0)}, b)
			a.until(func() bool { return there.get(0) == 105+5*uint64(i) }, b)
		}
		for _, flags := range []fabric.Flags{0, fabric.FlagDeliveryComplete} {
			before := there.get(0)
			a.atomic(a.ep.FetchAtomic, there.on(0, fabric.AtomicOp{ID: 2, NumSeg: 1, Operator: fabric.Sum, Flags: flags}),
				[]fabric.Seg{here.word(0), here.word(1)}, b)
			require.Equal(t, before, here.get(1))
			require.Equal(t, before+5, there.get(0))
		}
		for _, flags := range []fabric.Flags{0, fabric.FlagDeliveryComplete} {
			there.set(0, 7)
			here.set(0, 9) // the new value
			here.set(2, 7) // what to compare with
			swap := there.on(0, fabric.AtomicOp{ID: 3, NumSeg: 1, Operator: fabric.CompareSwap, Flags: flags})
			segs := []fabric.Seg{here.word(0), here.word(2), here.word(1)}
			a.atomic(a.ep.CompareAtomic, swap, segs, b)
			require.Equal(t, uint64(7), here.get(1))
			require.Equal(t, uint64(9), there.get(0))
			a.atomic(a.ep.CompareAtomic, swap, segs, b)
			require.Equal(t, uint64(9), here.get(1))
			require.Equal(t, uint64(9), there.get(0), "it did not compare")
		}
	})
}

func TestAtomicsOfSeveralSegments(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a, b := pair(t, provider, setting{hints: withAtomics})
		here, there := a.buffer(256), b.buffer(64)
		for i := range 3 {
			here.set(i, uint64(i+1))
			there.set(i, 10)
		}
		lists := func(at int) []fabric.Seg { return []fabric.Seg{here.words(at), here.word(at + 2)} }
		a.atomic(a.ep.Atomic, there.on(0, fabric.AtomicOp{ID: 1, NumSeg: 2, Operator: fabric.Sum}), lists(0), b)
		a.until(func() bool { return there.get(0) == 11 && there.get(1) == 12 && there.get(2) == 13 }, b)
		a.atomic(a.ep.FetchAtomic, there.on(0, fabric.AtomicOp{ID: 2, NumSeg: 2, Operator: fabric.Sum}), append(lists(0), lists(8)...), b)
		require.Equal(t, []uint64{11, 12, 13}, []uint64{here.get(8), here.get(9), here.get(10)})
		require.Equal(t, []uint64{12, 14, 16}, []uint64{there.get(0), there.get(1), there.get(2)})
		here.set(16, 12)
		here.set(17, 0)
		here.set(18, 16)
		a.atomic(a.ep.CompareAtomic, there.on(0, fabric.AtomicOp{ID: 3, NumSeg: 2, Operator: fabric.CompareSwap}),
			append(append(lists(0), lists(16)...), lists(8)...), b)
		require.Equal(t, []uint64{12, 14, 16}, []uint64{here.get(8), here.get(9), here.get(10)})
		require.Equal(t, []uint64{1, 14, 3}, []uint64{there.get(0), there.get(1), there.get(2)})
	})
}

func TestBadAtomicsPostNothing(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a, b := pair(t, provider, setting{hints: withAtomics})
		here, there := a.buffer(256), b.buffer(64)
		for name, c := range map[string]struct {
			op   fabric.AtomicOp
			segs []fabric.Seg
			want string
		}{
			"half a value":    {fabric.AtomicOp{NumSeg: 1, Operator: fabric.Sum}, []fabric.Seg{here.Seg(0, 12)}, "no such atomic"},
			"no value":        {fabric.AtomicOp{NumSeg: 1, Operator: fabric.Sum}, []fabric.Seg{here.Seg(0, 0)}, "no such atomic"},
			"no segment":      {fabric.AtomicOp{Operator: fabric.Sum}, nil, "more segments than"},
			"segments left":   {fabric.AtomicOp{NumSeg: 1, Operator: fabric.Sum}, []fabric.Seg{here.word(0), here.word(1)}, "not as many"},
			"an operator":     {fabric.AtomicOp{NumSeg: 1, Operator: 99}, []fabric.Seg{here.word(0)}, "no such atomic"},
			"one of others":   {fabric.AtomicOp{NumSeg: 1, Operator: fabric.CompareSwap}, []fabric.Seg{here.word(0)}, "no such atomic"},
			"a wrong key":     {fabric.AtomicOp{NumSeg: 1, Operator: fabric.Sum}, []fabric.Seg{{Addr: here.Local(), Length: 8}}, "LKey"},
			"out of bounds":   {fabric.AtomicOp{NumSeg: 1, Operator: fabric.Sum}, []fabric.Seg{here.Seg(256, 8)}, "not within"},
			"an unknown peer": {fabric.AtomicOp{NumSeg: 1, Operator: fabric.Sum, Peer: 5}, []fabric.Seg{here.word(0)}, "address vector"},
			"a flag": {fabric.AtomicOp{NumSeg: 1, Operator: fabric.Sum, Flags: fabric.FlagPeek}, []fabric.Seg{here.word(0)},
				"flags"},
		} {
			n, err := a.ep.Atomic([]fabric.AtomicOp{there.on(0, fabric.AtomicOp{NumSeg: 1, Operator: fabric.Sum, ID: 1}), there.on(0, c.op)},
				append([]fabric.Seg{here.word(0)}, c.segs...))
			require.Zero(t, n, name)
			require.ErrorContains(t, err, c.want, name)
		}
		bad := there.on(0, fabric.AtomicOp{NumSeg: 1, Operator: fabric.Sum})
		bad.Datatype = 77
		n, err := a.ep.FetchAtomic([]fabric.AtomicOp{bad}, []fabric.Seg{here.word(0), here.word(1)})
		require.Zero(t, n)
		require.ErrorContains(t, err, "no such atomic")
		a.poll()
		require.Empty(t, a.done)
	})
}

func TestValidAtomicsAreTold(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		x := open(t, provider, setting{hints: withAtomics})
		n, err := x.ep.AtomicValid(fabric.Double, fabric.Max)
		require.NoError(t, err)
		require.Positive(t, n)
		n, err = x.ep.FetchAtomicValid(fabric.Double, fabric.AtomicRead)
		require.NoError(t, err)
		require.Positive(t, n)
		n, err = x.ep.CompareAtomicValid(fabric.Int32, fabric.CompareSwapLT)
		require.NoError(t, err)
		require.Positive(t, n)
		_, err = x.ep.AtomicValid(fabric.Double, fabric.BitAnd)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		n, size, err := x.domain.QueryAtomic(fabric.Uint64, fabric.Sum)
		require.NoError(t, err)
		require.Positive(t, n)
		require.Equal(t, 8, size)
		require.Equal(t, "FI_UINT64", fabric.Uint64.String())
		require.Equal(t, "FI_SUM", fabric.Sum.String())
	})
}
