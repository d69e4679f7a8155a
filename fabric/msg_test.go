package fabric_test

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
)

// message waits for a received message.
func (x *side) message(others ...*side) fabric.Completion {
	x.t.Helper()
	c := x.take(func(c *fabric.Completion) bool { return c.Flags&fabric.FlagRecv != 0 }, others...)
	require.NoError(x.t, x.cq.Err(&c))
	return c
}

// recv posts one buffer for a message from anyone.
func (x *side) recv(id uint64, segs []fabric.Seg) {
	x.t.Helper()
	x.post(x.ep.Recv, []fabric.Op{{ID: id, NumSeg: uint32(len(segs)), Peer: fabric.AddrUnspec}}, segs)
}

func TestSendInEveryForm(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) { sendsInEveryForm(t, provider, setting{}) })
}

func sendsInEveryForm(t *testing.T, provider string, s setting) {
	a, b := pair(t, provider, s)
	from, to := a.buffer(64), b.buffer(64)
	copy(from.bytes, "0123456789abcdefghijklmnopqrstuvwxyz")
	for name, c := range map[string]struct {
		op      fabric.Op
		segs    []fabric.Seg
		want    string
		silent  bool // no completion at the sender
		hasData bool
	}{
		"plain":     {fabric.Op{NumSeg: 1}, []fabric.Seg{from.Seg(0, 10)}, "0123456789", false, false},
		"gathered":  {fabric.Op{NumSeg: 2}, []fabric.Seg{from.Seg(10, 3), from.Seg(0, 2)}, "abc01", false, false},
		"with data": {fabric.Op{NumSeg: 1, Flags: fabric.FlagRemoteCQData, Data: 9}, []fabric.Seg{from.Seg(0, 4)}, "0123", false, true},
		"gathered with data": {fabric.Op{NumSeg: 2, Flags: fabric.FlagRemoteCQData, Data: 9},
			[]fabric.Seg{from.Seg(10, 3), from.Seg(0, 2)}, "abc01", false, true},
		"inject": {fabric.Op{NumSeg: 1, Flags: fabric.FlagInject}, []fabric.Seg{from.Seg(1, 2)}, "12", true, false},
		"inject with data": {fabric.Op{NumSeg: 1, Flags: fabric.FlagInject | fabric.FlagRemoteCQData, Data: 9},
			[]fabric.Seg{from.Seg(1, 2)}, "12", true, true},
		"inject with completion": {fabric.Op{NumSeg: 1, Flags: fabric.FlagInject | fabric.FlagCompletion},
			[]fabric.Seg{from.Seg(1, 3)}, "123", false, false},
		"more to come": {fabric.Op{NumSeg: 1, Flags: fabric.FlagMore}, []fabric.Seg{from.Seg(2, 3)}, "234", false, false},
		"delivered":    {fabric.Op{NumSeg: 1, Flags: fabric.FlagDeliveryComplete}, []fabric.Seg{from.Seg(2, 3)}, "234", false, false},
		"empty":        {fabric.Op{}, nil, "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			clear(to.bytes)
			b.recv(2, to.all())
			c.op.ID = 1
			a.post(a.ep.Send, []fabric.Op{c.op}, c.segs, b)
			got := b.message(a)
			require.Equal(t, uint64(2), got.ID)
			require.Equal(t, uint64(len(c.want)), got.Length)
			require.Equal(t, c.want, string(to.bytes[:got.Length]))
			require.Equal(t, c.hasData, got.Flags&fabric.FlagRemoteCQData != 0)
			if c.hasData {
				require.Equal(t, uint64(9), got.Data)
			}
			if !c.silent {
				a.complete(1, b)
			}
			require.Empty(t, a.done)
		})
	}
}

func TestRecvScatters(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a, b := pair(t, provider, setting{})
		from, to := a.buffer(64), b.buffer(64)
		copy(from.bytes, "0123456789")
		b.recv(2, []fabric.Seg{to.Seg(32, 4), to.Seg(0, 20)})
		a.post(a.ep.Send, []fabric.Op{{ID: 1, NumSeg: 1}}, []fabric.Seg{from.Seg(0, 10)}, b)
		require.Equal(t, uint64(10), b.message(a).Length)
		require.Equal(t, "0123", string(to.bytes[32:36]))
		require.Equal(t, "456789", string(to.bytes[:6]))
		a.complete(1, b)
	})
}

func TestMultiRecvTakesMessageAfterMessage(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) { multiRecvs(t, provider, setting{}) })
}

func multiRecvs(t *testing.T, provider string, s setting) {
	s.hints = func(h *fabric.Hints) { h.Caps |= fabric.CapMultiRecv }
	s.ep = func(_ *side, cfg *fabric.EndpointConfig) { cfg.MinMultiRecv = 100 }
	a, b := pair(t, provider, s)
	from, to := a.buffer(64), b.buffer(256)
	b.post(b.ep.Recv, []fabric.Op{{ID: 5, NumSeg: 1, Flags: fabric.FlagMultiRecv, Peer: fabric.AddrUnspec}}, to.all())
	released := false
	for i := range 3 { // then less than that is left
		from.bytes[0] = byte(i + 1)
		a.post(a.ep.Send, []fabric.Op{{ID: 1, NumSeg: 1}}, []fabric.Seg{from.Seg(0, 64)}, b)
		c := b.message(a)
		require.Equal(t, uint64(5), c.ID)
		require.Equal(t, byte(i+1), to.bytes[c.Addr-to.Local()])
		released = c.Flags&fabric.FlagMultiRecv != 0
		a.complete(1, b)
	}
	if !released { // some providers say so in a completion of its own
		b.take(func(c *fabric.Completion) bool { return c.Flags&fabric.FlagMultiRecv != 0 }, a)
	}
}

func TestTaggedMessagesFindTheirReceives(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) { taggedMessages(t, provider, setting{}) })
}

func taggedMessages(t *testing.T, provider string, s setting) {
	s.cq.Tagged = true
	a, b := pair(t, provider, s)
	from, to := a.buffer(64), b.buffer(64)
	copy(from.bytes, "0123456789")
	b.post(b.ep.TaggedRecv, []fabric.Op{
		{ID: 1, NumSeg: 1, Peer: fabric.AddrUnspec, Tag: 0x10},
		{ID: 2, NumSeg: 1, Peer: fabric.AddrUnspec, Tag: 0x200, Ignore: 0xff},
		{ID: 3, NumSeg: 2, Peer: fabric.AddrUnspec, Tag: 0x30},
	}, []fabric.Seg{to.Seg(0, 8), to.Seg(8, 8), to.Seg(16, 1), to.Seg(24, 8)})
	a.post(a.ep.TaggedSend, []fabric.Op{
		{ID: 4, NumSeg: 2, Tag: 0x30},
		{ID: 5, NumSeg: 1, Tag: 0x242, Flags: fabric.FlagRemoteCQData, Data: 7},
		{ID: 6, NumSeg: 1, Tag: 0x10, Flags: fabric.FlagInject},
	}, []fabric.Seg{from.Seg(8, 2), from.Seg(0, 1), from.Seg(2, 3), from.Seg(5, 2)}, b)
	got := map[uint64]fabric.Completion{}
	for range 3 {
		c := b.message(a)
		got[c.ID] = c
	}
	require.Equal(t, uint64(0x10), got[1].Tag)
	require.Equal(t, uint64(0x242), got[2].Tag)
	require.Equal(t, uint64(7), got[2].Data)
	require.Equal(t, uint64(0x30), got[3].Tag)
	require.Equal(t, "56", string(to.bytes[0:2]))
	require.Equal(t, "234", string(to.bytes[8:11]))
	require.Equal(t, "8", string(to.bytes[16:17]))
	require.Equal(t, "90", string(to.bytes[24:26]))
	a.complete(4, b)
	a.complete(5, b)
}

func TestTaggedSendInItsOtherForms(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a, b := pair(t, provider, setting{})
		from, to := a.buffer(8), b.buffer(8)
		copy(from.bytes, "01234567")
		for i, op := range []fabric.Op{
			{Flags: fabric.FlagInject | fabric.FlagRemoteCQData, Data: 3},
			{Flags: fabric.FlagInject | fabric.FlagCompletion},
			{Flags: fabric.FlagDeliveryComplete},
		} {
			op.ID, op.Tag, op.NumSeg = uint64(i+1), uint64(i), 1
			recv := fabric.Op{NumSeg: 1, Peer: fabric.AddrUnspec, Tag: uint64(i), Flags: fabric.FlagCompletion}
			b.post(b.ep.TaggedRecv, []fabric.Op{recv}, to.all())
			a.post(a.ep.TaggedSend, []fabric.Op{op}, from.all(), b)
			require.Equal(t, op.Data, b.message(a).Data)
			require.Equal(t, from.bytes, to.bytes)
			if op.Flags&(fabric.FlagInject|fabric.FlagCompletion) != fabric.FlagInject {
				a.complete(op.ID, b)
			}
		}
	})
}

func TestPeekLooksForATaggedMessage(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		if provider == "shm" {
			return // 1.17 takes a peek for a receive
		}
		a, b := pair(t, provider, setting{cq: fabric.CQConfig{Tagged: true}})
		from := a.buffer(8)
		peek := func() fabric.Completion {
			b.post(b.ep.TaggedRecv, []fabric.Op{{ID: 1, Tag: 4, Flags: fabric.FlagPeek, Peer: 0}}, nil)
			return b.take(func(c *fabric.Completion) bool { return c.ID == 1 }, a)
		}
		c := peek()
		require.ErrorIs(t, b.cq.Err(&c), syscall.ENOMSG)
		a.post(a.ep.TaggedSend, []fabric.Op{{ID: 2, Tag: 4, NumSeg: 1}}, from.all(), b)
		a.complete(2, b)
		for c = peek(); c.Failed(); c = peek() { // it may still be on its way
			require.ErrorIs(t, b.cq.Err(&c), syscall.ENOMSG)
			a.poll()
		}
		require.Equal(t, uint64(8), c.Length)
		require.Equal(t, uint64(4), c.Tag)
	})
}

func TestSelectiveEndpointsCompleteWhatTheyAreAskedTo(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) { selectiveCompletions(t, provider, setting{}) })
}

func selectiveCompletions(t *testing.T, provider string, s setting) {
	s.ep = func(_ *side, cfg *fabric.EndpointConfig) { cfg.SelectiveTx = true }
	a, b := pair(t, provider, s)
	from, to := a.buffer(4096), b.buffer(4096)
	ops := make([]fabric.Op, 10)
	segs := make([]fabric.Seg, len(ops))
	for i := range ops {
		ops[i] = to.at(fabric.Op{ID: uint64(i + 1), NumSeg: 1}, 8*uint64(i))
		segs[i] = from.Seg(8*uint64(i), 8)
	}
	ops[9].Flags = fabric.FlagCompletion
	copy(from.bytes, bytes.Repeat([]byte{42}, 80))
	a.post(a.ep.Write, ops, segs, b)
	a.complete(10, b)
	require.Empty(t, a.done)
	b.recv(1, to.all())
	a.post(a.ep.Send, []fabric.Op{{ID: 1, NumSeg: 1}, {ID: 2, NumSeg: 1, Flags: fabric.FlagCompletion}},
		[]fabric.Seg{from.Seg(0, 8), from.Seg(0, 8)}, b)
	b.recv(2, to.all())
	a.complete(2, b)
	b.message(a)
	b.message(a)
	require.Empty(t, a.done)
	require.Equal(t, from.bytes[:8], to.bytes[:8])
}
