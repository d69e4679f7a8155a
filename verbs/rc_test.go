package verbs_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

func (n *node) queuePair(t testing.TB, typ verbs.QPType) *verbs.QP {
	t.Helper()
	qp, err := n.pd.CreateQP(verbs.QPConfig{
		Type: typ, SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 64,
	})
	require.NoError(t, err)
	closeAtEnd(t, qp)
	return qp
}

const remoteAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead

// connected returns two queue pairs of the node that are connected to each other.
func (n *node) connected(t testing.TB) (a, b *verbs.QP) {
	t.Helper()
	a, b = n.queuePair(t, verbs.RC), n.queuePair(t, verbs.RC)
	endA, err := a.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	endB, err := b.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	require.NotEqual(t, endA.PSN, endB.PSN, "packet sequence numbers are random")
	require.NoError(t, a.Connect(endB, verbs.ConnectConfig{}))
	require.NoError(t, b.Connect(endA, verbs.ConnectConfig{}))
	return a, b
}

// queuePairToItself is connected to itself.
func (n *node) queuePairToItself(t testing.TB) *verbs.QP {
	t.Helper()
	qp := n.queuePair(t, verbs.RC)
	end, err := qp.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	require.NoError(t, qp.Connect(end, verbs.ConnectConfig{}))
	return qp
}

// postTo writes to mr and waits.
func (n *node) postTo(t testing.TB, qp *verbs.QP, mr *verbs.MR) {
	t.Helper()
	n.post(t, qp, verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: mr.Addr(), RKey: mr.RKey()}, sge(mr, 0, 8))
}

func sge(mr *verbs.MR, offset, length int) verbs.SGE {
	return verbs.SGE{Addr: mr.Addr() + uint64(offset), Length: uint32(length), LKey: mr.LKey()}
}

func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i)*7 + seed
	}
}

func TestWriteSizes(t *testing.T) {
	n := newNode(t)
	a, _ := n.connected(t)
	port, err := n.ctx.QueryPort(1)
	require.NoError(t, err)
	mtu := int(port.ActiveMTU)
	size := 5 * mtu
	source, sourceMR := n.region(t, size, verbs.AccessLocalWrite)
	target, targetMR := n.region(t, size, remoteAccess)
	for i, length := range []int{0, 1, 7, mtu - 1, mtu, mtu + 1, 3*mtu + 13, size} {
		clear(target)
		fill(source, byte(i))
		_, err := a.PostSend([]verbs.SendWR{{
			ID: uint64(length), Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, NumSGE: 1,
			RemoteAddr: targetMR.Addr(), RKey: targetMR.RKey(),
		}}, []verbs.SGE{sge(sourceMR, 0, length)})
		require.NoError(t, err)
		wc := poll(t, n.cq, 1)[0]
		require.NoError(t, wc.Err())
		require.Equal(t, uint64(length), wc.ID)
		require.Equal(t, verbs.WCWrite, wc.Opcode)
		require.Equal(t, source[:length], target[:length], "%d bytes", length)
		require.Zero(t, count(target[length:]), "nothing behind the %d bytes was written", length)
	}
}

// count counts bytes that are not zero.
func count(b []byte) (n int) {
	for _, x := range b {
		if x != 0 {
			n++
		}
	}
	return n
}

func TestWriteImmediateIsInHostOrder(t *testing.T) {
	n := newNode(t)
	a, b := n.connected(t)
	_, err := b.PostRecv([]verbs.RecvWR{{ID: 1}}, nil)
	require.NoError(t, err)
	_, mr := n.region(t, 4096, remoteAccess)
	_, err = a.PostSend([]verbs.SendWR{{
		ID: 2, Opcode: verbs.OpWriteImm, Flags: verbs.SendSignaled, Imm: 0x01020304, RemoteAddr: mr.Addr(), RKey: mr.RKey(),
	}}, nil)
	require.NoError(t, err)
	for _, wc := range poll(t, n.cq, 2) {
		require.NoError(t, wc.Err())
		if wc.ID == 1 {
			require.Equal(t, verbs.WCRecvWriteImm, wc.Opcode)
			require.Equal(t, verbs.WCWithImm, wc.Flags&verbs.WCWithImm)
			require.Equal(t, uint32(0x01020304), wc.Imm)
			require.Equal(t, b.Num(), wc.QPN)
		}
	}
}

func TestChainOfSendsWithTwoEntriesEach(t *testing.T) {
	n := newNode(t)
	a, b := n.connected(t)
	source, sourceMR := n.region(t, 4096, verbs.AccessLocalWrite)
	target, targetMR := n.region(t, 4096, verbs.AccessLocalWrite)
	fill(source, 3)
	const chain = 20
	var recvs []verbs.RecvWR
	var sends []verbs.SendWR
	var into, from []verbs.SGE
	for i := range chain {
		recvs = append(recvs, verbs.RecvWR{ID: uint64(100 + i), NumSGE: 1})
		into = append(into, sge(targetMR, i*32, 32))
		sends = append(sends, verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSendImm, Imm: uint32(i), NumSGE: 2})
		from = append(from, sge(sourceMR, i*16, 10), sge(sourceMR, i*16+2048, 6))
	}
	sends[chain-1].Flags = verbs.SendSignaled
	accepted, err := b.PostRecv(recvs, into)
	require.NoError(t, err)
	require.Equal(t, chain, accepted)
	accepted, err = a.PostSend(sends, from)
	require.NoError(t, err)
	require.Equal(t, chain, accepted)
	received := 0
	for _, wc := range poll(t, n.cq, chain+1) { // one send is signalled
		require.NoError(t, wc.Err())
		if wc.Opcode == verbs.WCRecv {
			require.Equal(t, uint64(100+received), wc.ID)
			require.Equal(t, uint32(received), wc.Imm)
			require.Equal(t, uint32(16), wc.ByteLen)
			want := append(append([]byte{}, source[received*16:][:10]...), source[received*16+2048:][:6]...)
			require.Equal(t, want, target[received*32:][:16])
			received++
		}
	}
	require.Equal(t, chain, received)
}

// Inline bytes come from a Go slice that no region is for, and are taken during the post: what the slice holds afterwards is
// not sent.
func TestInlineSendOfAGoSlice(t *testing.T) {
	n := newNode(t)
	a, b := n.connected(t)
	target, targetMR := n.region(t, 256, verbs.AccessLocalWrite)
	data := make([]byte, 64)
	for i, op := range []verbs.Opcode{verbs.OpSend, verbs.OpSendImm} {
		fill(data, byte(i+1))
		want := append([]byte{}, data...)
		clear(target)
		_, err := b.PostRecv([]verbs.RecvWR{{NumSGE: 1}}, []verbs.SGE{sge(targetMR, 0, 256)})
		require.NoError(t, err)
		require.NoError(t, a.PostInline(verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, Imm: 0xabcd}, data))
		clear(data)
		for _, wc := range poll(t, n.cq, 2) {
			require.NoError(t, wc.Err())
			if wc.Opcode == verbs.WCRecv {
				require.Equal(t, uint32(len(want)), wc.ByteLen)
			}
		}
		require.Equal(t, want, target[:len(want)])
		require.Equal(t, make([]byte, 256-len(want)), target[len(want):])
	}
}

func TestBadWorkRequestsAreRefusedWhole(t *testing.T) {
	n := newNode(t)
	a, b := n.connected(t)
	_, mr := n.region(t, 4096, remoteAccess)
	good := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, NumSGE: 1}
	entry := sge(mr, 0, 8)
	inline := a.Caps().MaxInline
	for name, tc := range map[string]struct {
		wr    verbs.SendWR
		sges  []verbs.SGE
		limit string
	}{
		"opcode":           {verbs.SendWR{Opcode: 77}, nil, "no such opcode"},
		"too many entries": {verbs.SendWR{Opcode: verbs.OpSend, NumSGE: 99}, make([]verbs.SGE, 99), "more scatter/gather entries"},
		"missing entries":  {verbs.SendWR{Opcode: verbs.OpSend, NumSGE: 2}, []verbs.SGE{entry}, "not as many"},
		"left over":        {verbs.SendWR{Opcode: verbs.OpSend, NumSGE: 1}, []verbs.SGE{entry, entry}, "not as many"},
		"inline": {verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, NumSGE: 1}, []verbs.SGE{sge(mr, 0, inline+1)},
			fmt.Sprintf("more inline data than %d bytes", inline)},
		"too long": {verbs.SendWR{Opcode: verbs.OpSend, NumSGE: 1}, []verbs.SGE{sge(mr, 0, 1<<32-1)}, "longer than a message may be"},
	} {
		t.Run(name, func(t *testing.T) {
			accepted, err := a.PostSend([]verbs.SendWR{good, tc.wr}, append([]verbs.SGE{entry}, tc.sges...))
			require.ErrorIs(t, err, syscall.EINVAL)
			require.ErrorContains(t, err, "work request 1 of 2")
			require.ErrorContains(t, err, tc.limit)
			require.Zero(t, accepted)
		})
	}
	_, err := b.PostRecv([]verbs.RecvWR{{NumSGE: 3}}, []verbs.SGE{entry, entry, entry})
	require.ErrorIs(t, err, syscall.EINVAL)
	wcs := make([]verbs.WC, 1)
	got, err := n.cq.Poll(wcs)
	require.NoError(t, err)
	require.Zero(t, got, "nothing was posted")
}

func TestFullQueueIsToldAndTakesTheFirst(t *testing.T) {
	n := newNode(t)
	a, _ := n.connected(t)
	room := a.Caps().MaxRecvWR
	// Devices may hold more than they say: rxe rounds up to a power of two.
	accepted, err := a.PostRecv(make([]verbs.RecvWR, 4*room), nil)
	require.ErrorIs(t, err, verbs.ErrQueueFull)
	require.GreaterOrEqual(t, accepted, room)
	require.ErrorContains(t, err, fmt.Sprintf("work request %d of %d", accepted, 4*room))
}

// The first error is the cause; what was posted behind it is flushed, though this kernel's rxe would leave it lying; and
// nothing more is taken.
func TestRemoteAccessErrorThenFlush(t *testing.T) {
	n := newNode(t)
	a, _ := n.connected(t)
	_, mr := n.region(t, 4096, remoteAccess)
	_, err := a.PostRecv([]verbs.RecvWR{{ID: 3}}, nil)
	require.NoError(t, err)
	wrs := make([]verbs.SendWR, 3)
	for i := range wrs {
		wrs[i] = verbs.SendWR{
			ID: uint64(10 + i), Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, NumSGE: 1,
			RemoteAddr: mr.Addr(), RKey: mr.RKey() ^ 0x100,
		}
	}
	entry := sge(mr, 0, 8)
	_, err = a.PostSend(wrs, []verbs.SGE{entry, entry, entry})
	require.NoError(t, err)
	wc := poll(t, n.cq, 1)[0]
	require.ErrorIs(t, wc.Err(), verbs.WCRemoteAccess)
	require.Equal(t, uint64(10), wc.ID)
	ids := map[uint64]bool{}
	for _, wc := range poll(t, n.cq, 3) {
		require.ErrorIs(t, wc.Err(), verbs.ErrFlushed)
		ids[wc.ID] = true
	}
	require.Equal(t, map[uint64]bool{3: true, 11: true, 12: true}, ids)

	require.Equal(t, wc.Err(), a.Err())
	_, err = a.PostSend(wrs[:1], []verbs.SGE{entry})
	require.ErrorIs(t, err, verbs.WCRemoteAccess)
	require.ErrorContains(t, err, "takes no more posts")
	_, err = a.PostRecv([]verbs.RecvWR{{}}, nil)
	require.ErrorIs(t, err, verbs.WCRemoteAccess)
	state, err := a.State()
	require.NoError(t, err)
	require.Equal(t, verbs.QPError, state)
	require.NoError(t, a.Reset())
	require.NoError(t, a.Err())
}

func TestBringUpRefuses(t *testing.T) {
	n := newNode(t)
	qp := n.queuePair(t, verbs.RC)
	require.ErrorIs(t, qp.Connect(verbs.Endpoint{}, verbs.ConnectConfig{}), syscall.EINVAL, "not initialised")
	require.ErrorIs(t, qp.Activate(1, 1), syscall.EINVAL, "not UD")
	local, err := qp.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	_, err = qp.Init(n.gid, remoteAccess)
	require.ErrorIs(t, err, syscall.EINVAL, "twice")
	for name, change := range map[string]func(*verbs.Endpoint){
		"QPN 0":        func(e *verbs.Endpoint) { e.QPN = 0 },
		"QPN too long": func(e *verbs.Endpoint) { e.QPN = 1 << 24 },
		"PSN too long": func(e *verbs.Endpoint) { e.PSN = 1 << 24 },
		"MTU":          func(e *verbs.Endpoint) { e.MTU = 1500 },
		"no address":   func(e *verbs.Endpoint) { e.GID, e.LID = verbs.GID{}, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			remote := local
			change(&remote)
			require.ErrorIs(t, qp.Connect(remote, verbs.ConnectConfig{}), syscall.EINVAL)
		})
	}
	require.ErrorIs(t, qp.Connect(local, verbs.ConnectConfig{RetryCount: 8}), syscall.EINVAL)
	require.NoError(t, qp.Connect(local, verbs.ConnectConfig{}), "to itself, after all refusals")
}

// The smaller MTU of the two ends is used: a connection whose ends disagree loses every full packet.
func TestSmallerMTUWins(t *testing.T) {
	n := newNode(t)
	a, b := n.queuePair(t, verbs.RC), n.queuePair(t, verbs.RC)
	endA, err := a.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	endB, err := b.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	endB.MTU = 256
	require.NoError(t, a.Connect(endB, verbs.ConnectConfig{}))
	endA.MTU = 256
	require.NoError(t, b.Connect(endA, verbs.ConnectConfig{}))
	source, sourceMR := n.region(t, 64<<10, verbs.AccessLocalWrite)
	target, targetMR := n.region(t, 64<<10, remoteAccess)
	fill(source, 9)
	before := sentPackets(t, n.ctx.Name())
	_, err = a.PostSend([]verbs.SendWR{{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, NumSGE: 1, RemoteAddr: targetMR.Addr(), RKey: targetMR.RKey()}},
		[]verbs.SGE{sge(sourceMR, 0, 64<<10)})
	require.NoError(t, err)
	require.NoError(t, poll(t, n.cq, 1)[0].Err())
	require.Equal(t, source, target)
	if before >= 0 { // the kernel renews its counters every 10 ms
		require.Eventually(t, func() bool { return sentPackets(t, n.ctx.Name())-before >= (64<<10)/256 },
			rdmatest.Deadline(10*time.Second), 10*time.Millisecond)
	}
}

// sentPackets reads rxe's counter; −1 on devices that have none.
func sentPackets(t testing.TB, device string) (n int) {
	t.Helper()
	text, err := os.ReadFile("/sys/class/infiniband/" + device + "/ports/1/hw_counters/sent_pkts")
	if err != nil {
		return -1
	}
	_, err = fmt.Sscan(string(text), &n)
	require.NoError(t, err)
	return n
}

func TestEventWakesAWaiter(t *testing.T) {
	n := newNode(t)
	a, b := n.connected(t)
	_, mr := n.region(t, 64, remoteAccess)
	for i := range 5 {
		_, err := b.PostRecv([]verbs.RecvWR{{ID: uint64(i)}}, nil)
		require.NoError(t, err)
		require.NoError(t, n.cq.Arm())
		_, err = a.PostSend([]verbs.SendWR{{Opcode: verbs.OpWriteImm, RemoteAddr: mr.Addr(), RKey: mr.RKey()}}, nil)
		require.NoError(t, err)
		require.NoError(t, n.cq.Wait(rdmatest.Context(t, 20*time.Second)))
		wc := poll(t, n.cq, 1)[0]
		require.NoError(t, wc.Err())
		require.Equal(t, uint64(i), wc.ID)
	}
}

func TestPostingAndPollingAllocateNothing(t *testing.T) {
	n := newNode(t)
	a, _ := n.connected(t)
	_, mr := n.region(t, 4096, remoteAccess)
	var wcs [16]verbs.WC
	require.Zero(t, testing.AllocsPerRun(100, func() {
		var wrs [4]verbs.SendWR
		var sges [4]verbs.SGE
		for i := range wrs {
			wrs[i] = verbs.SendWR{Opcode: verbs.OpWrite, NumSGE: 1, RemoteAddr: mr.Addr(), RKey: mr.RKey()}
			sges[i] = sge(mr, 0, 8)
		}
		wrs[3].Flags = verbs.SendSignaled
		if _, err := a.PostSend(wrs[:], sges[:]); err != nil {
			panic(err)
		}
		for n0 := 0; n0 == 0; {
			n0, _ = n.cq.PollSpin(wcs[:], verbs.MaxSpin)
		}
	}))
}
