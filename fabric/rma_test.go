package fabric_test

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
)

func TestWriteReachesThePeersMemory(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a, b := pair(t, provider, setting{})
		for _, size := range []int{1, 8, 4096, 65536, 1 << 20} {
			from, to := a.buffer(size), b.buffer(size)
			copy(from.bytes, bytes.Repeat([]byte{1, 2, 3, 5, 7}, size/5+1))
			a.post(a.ep.Write, []fabric.Op{to.at(fabric.Op{ID: 7, NumSeg: 1, Flags: fabric.FlagDeliveryComplete}, 0)}, from.all(), b)
			a.complete(7, b)
			require.Equal(t, from.bytes, to.bytes)
		}
	})
}

func TestWriteInEveryForm(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) { writesInEveryForm(t, provider, setting{}) })
}

func writesInEveryForm(t *testing.T, provider string, s setting) {
	a, b := pair(t, provider, s)
	from, to := a.buffer(64), b.buffer(64)
	copy(from.bytes, "0123456789abcdefghijklmnopqrstuvwxyz")
	for name, c := range map[string]struct {
		flags  fabric.Flags
		segs   []fabric.Seg
		want   string
		silent bool
	}{
		"plain":              {0, []fabric.Seg{from.Seg(0, 10)}, "0123456789", false},
		"gathered":           {0, []fabric.Seg{from.Seg(10, 3), from.Seg(0, 2)}, "abc01", false},
		"with data":          {fabric.FlagRemoteCQData, []fabric.Seg{from.Seg(0, 4)}, "0123", false},
		"gathered with data": {fabric.FlagRemoteCQData, []fabric.Seg{from.Seg(10, 3), from.Seg(0, 2)}, "abc01", false},
		"inject":             {fabric.FlagInject, []fabric.Seg{from.Seg(1, 2)}, "12", true},
		"inject with data":   {fabric.FlagInject | fabric.FlagRemoteCQData, []fabric.Seg{from.Seg(1, 2)}, "12", true},
		"more to come":       {fabric.FlagMore, []fabric.Seg{from.Seg(2, 3)}, "234", false},
		"delivered":          {fabric.FlagDeliveryComplete, []fabric.Seg{from.Seg(1, 5)}, "12345", false},
		"empty with data":    {fabric.FlagRemoteCQData, nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			clear(to.bytes)
			op := to.at(fabric.Op{ID: 1, NumSeg: uint32(len(c.segs)), Flags: c.flags, Data: 0xdeadbeef}, 3)
			a.post(a.ep.Write, []fabric.Op{op}, c.segs, b)
			if !c.silent {
				a.complete(1, b)
			}
			if c.flags&fabric.FlagRemoteCQData != 0 {
				got := b.arrival(a)
				require.Equal(t, uint64(0xdeadbeef), got.Data)
				require.Zero(t, got.ID)
				require.Zero(t, got.Flags&(fabric.FlagWrite|fabric.FlagSend))
			}
			a.until(func() bool { return string(to.bytes[3:3+len(c.want)]) == c.want }, b)
			require.Empty(t, a.done)
		})
	}
}

func TestInjectTakesMemoryThatIsNotRegistered(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a, b := pair(t, provider, setting{})
		to := b.buffer(8)
		m, err := mem.Map(8)
		require.NoError(t, err)
		closeAtEnd(t, m)
		mine := m.Bytes() // free to be reused at once
		copy(mine, "abcdefgh")
		segs := []fabric.Seg{{Addr: fabric.AddressOf(mine), Length: 8}}
		op := to.at(fabric.Op{NumSeg: 1, Flags: fabric.FlagInject | fabric.FlagRemoteCQData, Data: 1}, 0)
		a.post(a.ep.Write, []fabric.Op{op}, segs, b)
		clear(mine)
		b.arrival(a)
		require.Equal(t, "abcdefgh", string(to.bytes))
	})
}

// TestInjectTakesTheBytesOfAGoSlice: a stack may move and be used again as soon as the call has returned.
func TestInjectTakesTheBytesOfAGoSlice(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a, b := pair(t, provider, setting{cq: fabric.CQConfig{Tagged: true}})
		to := b.buffer(16)
		inject := func(kind fabric.OpKind, op fabric.Op) {
			t.Helper()
			ctx := rdmatest.Context(t, patience)
			for {
				here := [16]byte{'i', 'n', 'j', 'e', 'c', 't'}
				err := a.ep.Inject(kind, op, here[:6])
				clear(here[:])
				if err == nil {
					return
				}
				require.ErrorIs(t, err, fabric.ErrQueueFull)
				require.NoError(t, ctx.Err())
				a.poll()
				b.poll()
			}
		}
		arrived := func() {
			t.Helper()
			a.until(func() bool { return string(to.bytes[:6]) == "inject" }, b)
			clear(to.bytes)
		}
		b.recv(1, to.all())
		inject(fabric.OpSend, fabric.Op{Flags: fabric.FlagRemoteCQData, Data: 8})
		c := b.message(a)
		require.Equal(t, []uint64{1, 8, 6}, []uint64{c.ID, c.Data, c.Length})
		arrived()
		b.post(b.ep.TaggedRecv, []fabric.Op{{ID: 2, NumSeg: 1, Tag: 77, Peer: fabric.AddrUnspec}}, to.all())
		inject(fabric.OpTaggedSend, fabric.Op{Tag: 77})
		require.Equal(t, uint64(77), b.message(a).Tag)
		arrived()
		inject(fabric.OpWrite, to.at(fabric.Op{}, 0))
		arrived()
		inject(fabric.OpWrite, to.at(fabric.Op{ID: 3, Flags: fabric.FlagCompletion}, 0))
		a.complete(3, b)
		arrived()
		require.NoError(t, a.ep.Inject(fabric.OpWrite, to.at(fabric.Op{Flags: fabric.FlagRemoteCQData, Data: 9}, 0), nil))
		require.Equal(t, uint64(9), b.arrival(a).Data)
		require.Empty(t, a.done)

		most := make([]byte, a.info.Tx.InjectSize+1)
		err := a.ep.Inject(fabric.OpWrite, to.at(fabric.Op{}, 0), most)
		require.ErrorIs(t, err, syscall.EINVAL)
		require.ErrorContains(t, err, "longer than FlagInject takes")
		require.ErrorIs(t, a.ep.Inject(fabric.OpRead, to.at(fabric.Op{}, 0), most[:1]), syscall.EINVAL)
		require.ErrorContains(t, a.ep.Inject(fabric.OpWrite, fabric.Op{Peer: 9}, most[:1]), "address vector")
	})
}

func TestReadFetchesThePeersMemory(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a, b := pair(t, provider, setting{})
		for _, size := range []int{2, 4096, 1 << 20} {
			here, there := a.buffer(size), b.buffer(size)
			copy(there.bytes, bytes.Repeat([]byte{1, 2, 3, 5, 7}, size/5+1))
			half := uint64(size / 2)
			a.post(a.ep.Read, []fabric.Op{there.at(fabric.Op{ID: 7, NumSeg: 1}, 0)}, here.all(), b)
			a.complete(7, b)
			require.Equal(t, there.bytes, here.bytes)
			clear(here.bytes)
			segs := []fabric.Seg{here.Seg(half, half), here.Seg(0, half)}
			a.post(a.ep.Read, []fabric.Op{there.at(fabric.Op{ID: 8, NumSeg: 2}, 0)}, segs, b)
			a.complete(8, b)
			require.Equal(t, there.bytes[:half], here.bytes[half:])
			require.Equal(t, there.bytes[half:], here.bytes[:half])
			a.post(a.ep.Read, []fabric.Op{there.at(fabric.Op{ID: 9, NumSeg: 1, Flags: fabric.FlagCompletion}, 0)}, here.all(), b)
			a.complete(9, b)
			require.Equal(t, there.bytes, here.bytes)
		}
	})
}

func TestBatchCrossesOnce(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) { batches(t, provider, setting{}) })
}

func batches(t *testing.T, provider string, s setting) {
	a, b := pair(t, provider, s)
	from, to := a.buffer(4096), b.buffer(4096)
	for i := range from.bytes {
		from.bytes[i] = byte(i * 7)
	}
	ops, segs := make([]fabric.Op, 64), make([]fabric.Seg, 64)
	for i := range ops {
		ops[i] = to.at(fabric.Op{ID: uint64(i + 1), NumSeg: 1}, 64*uint64(i))
		segs[i] = from.Seg(64*uint64(i), 64)
	}
	a.post(a.ep.Write, []fabric.Op{to.at(fabric.Op{ID: 100, NumSeg: 1}, 0)}, []fabric.Seg{from.Seg(0, 1)}, b) // connects
	a.complete(100, b)
	before := a.ep.Crossings()
	n, err := a.ep.Write(ops, segs)
	require.NoError(t, err)
	require.Equal(t, 64, n)
	require.Equal(t, before+1, a.ep.Crossings())
	for i := range ops {
		a.complete(uint64(i+1), b)
	}
	require.Equal(t, from.bytes, to.bytes)
}

func TestPostAndPollIsBothInOneCrossing(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) { postsAndPolls(t, provider, setting{}) })
}

func postsAndPolls(t *testing.T, provider string, s setting) {
	a, b := pair(t, provider, s)
	from, to := a.buffer(4096), b.buffer(4096)
	for i := range from.bytes {
		from.bytes[i] = byte(i * 5)
	}
	ops, segs := make([]fabric.Op, 64), make([]fabric.Seg, 64)
	for i := range ops {
		ops[i] = to.at(fabric.Op{ID: uint64(i + 1), NumSeg: 1}, 64*uint64(i))
		segs[i] = from.Seg(64*uint64(i), 64)
	}
	var completions [100]fabric.Completion
	seen := map[uint64]bool{}
	ctx := rdmatest.Context(t, patience)
	for posted := 0; len(seen) < len(ops); b.poll() {
		require.NoError(t, ctx.Err())
		before := a.ep.Crossings()
		accepted, n, err := a.ep.PostPoll(fabric.OpWrite, ops[posted:], segs[posted:], completions[:], fabric.MaxSpin)
		require.Equal(t, before+1, a.ep.Crossings())
		if posted += accepted; posted < len(ops) {
			require.ErrorIs(t, err, fabric.ErrQueueFull)
		} else {
			require.NoError(t, err)
		}
		for i := range completions[:n] {
			require.NoError(t, a.cq.Err(&completions[i]))
			require.False(t, seen[completions[i].ID])
			seen[completions[i].ID] = true
		}
	}
	a.until(func() bool { return bytes.Equal(from.bytes, to.bytes) }, b)
	b.recv(7, to.all())
	a.post(a.ep.Send, []fabric.Op{{ID: 8, NumSeg: 1}}, []fabric.Seg{from.Seg(0, 8)}, b)
	for n := 0; n == 0; { // receives have a queue of their own
		var err error
		_, n, err = b.ep.PostPoll(fabric.OpRecv, nil, nil, completions[:], fabric.MaxSpin)
		require.NoError(t, err)
		require.NoError(t, ctx.Err())
		a.poll()
	}
	require.Equal(t, uint64(7), completions[0].ID)
	ops[1].NumSeg = 2
	accepted, n, err := a.ep.PostPoll(fabric.OpWrite, ops[:2], segs[:2], completions[:], 0)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.Zero(t, accepted)
	require.Zero(t, n)
	_, _, err = a.ep.PostPoll(77, ops[:1], segs[:1], completions[:], 0)
	require.ErrorIs(t, err, syscall.EINVAL)
}

func TestWriteToAKeyThatIsNoneFails(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		if provider == "shm" {
			return // CMA writes where it is told; the key decides nothing
		}
		a, b := pair(t, provider, setting{})
		from, to := a.buffer(4096), b.buffer(4096)
		op := to.at(fabric.Op{ID: 3, NumSeg: 1, Flags: fabric.FlagDeliveryComplete}, 0)
		op.RemoteKey ^= 0x5555
		a.post(a.ep.Write, []fabric.Op{op}, from.all(), b)
		c := a.take(func(c *fabric.Completion) bool { return c.ID == 3 }, b)
		require.True(t, c.Failed())
		var failed *fabric.CompletionError
		require.ErrorAs(t, a.cq.Err(&c), &failed)
		require.NotEmpty(t, failed.Text)
		require.Equal(t, uint64(3), failed.ID)
		t.Log(failed)
	})
}

func TestFullQueueIsBackPressure(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a, b := pair(t, provider, setting{})
		from, to := a.buffer(1<<16), b.buffer(1<<16)
		ops, segs := make([]fabric.Op, 16), make([]fabric.Seg, 16)
		for i := range ops {
			ops[i] = to.at(fabric.Op{ID: 1, NumSeg: 1, Flags: fabric.FlagRemoteCQData, Data: uint64(i)}, 0)
			segs[i] = from.Seg(0, 1<<16)
		}
		posted := 0
		for { // the target does nothing
			n, err := a.ep.Write(ops, segs)
			posted += n
			if err != nil {
				require.ErrorIs(t, err, fabric.ErrQueueFull)
				require.ErrorIs(t, err, syscall.EAGAIN)
				require.Less(t, n, 16)
				require.ErrorContains(t, err, "RDM endpoint of ")
				break
			}
			require.Less(t, posted, 1<<20, "it never fills")
		}
		for range posted { // what was accepted arrives, each once
			b.arrival(a)
		}
		a.post(a.ep.Write, ops[:1], segs[:1], b)
		b.arrival(a)
		for range posted + 1 {
			a.complete(1, b)
		}
		require.Empty(t, a.done)
		require.Empty(t, b.done)
	})
}
