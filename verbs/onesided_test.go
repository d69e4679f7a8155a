package verbs_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

// allAccess is what peers need for one-sided operations.
const allAccess = remoteAccess | verbs.AccessRemoteAtomic

// joined returns two queue pairs of the type that are connected to each other, made as cfg says.
func (n *node) joined(t testing.TB, cfg verbs.QPConfig) (a, b *verbs.QP) {
	t.Helper()
	cfg.SendCQ, cfg.RecvCQ = n.cq, n.cq
	var qps [2]*verbs.QP
	var ends [2]verbs.Endpoint
	for i := range qps {
		var err error
		qps[i], err = n.pd.CreateQP(cfg)
		require.NoError(t, err)
		closeAtEnd(t, qps[i])
		ends[i], err = qps[i].Init(n.gid, allAccess)
		require.NoError(t, err)
	}
	for i := range qps {
		require.NoError(t, qps[i].Connect(ends[1-i], verbs.ConnectConfig{}))
	}
	return qps[0], qps[1]
}

// post posts one signalled request and returns its completion, which is a success.
func (n *node) post(t testing.TB, qp *verbs.QP, wr verbs.SendWR, sges ...verbs.SGE) verbs.WC {
	t.Helper()
	wr.Flags |= verbs.SendSignaled
	wr.NumSGE = uint32(len(sges))
	_, err := qp.PostSend([]verbs.SendWR{wr}, sges)
	require.NoError(t, err)
	wc := poll(t, n.cq, 1)[0]
	require.NoError(t, wc.Err())
	require.Equal(t, wr.ID, wc.ID)
	return wc
}

func TestReadIntoManyEntries(t *testing.T) {
	n := newNode(t)
	const entries = 16
	a, _ := n.joined(t, verbs.QPConfig{Type: verbs.RC, MaxSendWR: 8, MaxSendSGE: entries})
	source, sourceMR := n.region(t, 1<<16, allAccess)
	target, targetMR := n.region(t, 1<<17, verbs.AccessLocalWrite)
	fill(source, 5)
	var into []verbs.SGE
	for i := range entries {
		into = append(into, sge(targetMR, i*8192, 1000+i)) // apart, and of lengths that do not fit packets
	}
	wc := n.post(t, a, verbs.SendWR{ID: 9, Opcode: verbs.OpRead, RemoteAddr: sourceMR.Addr(), RKey: sourceMR.RKey()}, into...)
	require.Equal(t, verbs.WCRead, wc.Opcode)
	at := 0
	for i := range entries {
		require.Equal(t, source[at:][:1000+i], target[i*8192:][:1000+i], "entry %d", i)
		require.Zero(t, count(target[i*8192+1000+i:][:100]))
		at += 1000 + i
	}
}

func TestAtomics(t *testing.T) {
	n := newNode(t)
	a, _ := n.joined(t, verbs.QPConfig{Type: verbs.RC, MaxSendWR: 8})
	require.NotEqual(t, verbs.AtomicNone, n.ctx.Attr().Atomics)
	word, wordMR := n.region(t, 64, allAccess)
	had, hadMR := n.region(t, 64, verbs.AccessLocalWrite)
	binary.NativeEndian.PutUint64(word, 100)
	atomic := func(op verbs.Opcode, compareAdd, swap uint64) (wc verbs.WC, before uint64) {
		wc = n.post(t, a, verbs.SendWR{
			Opcode: op, CompareAdd: compareAdd, Swap: swap, RemoteAddr: wordMR.Addr(), RKey: wordMR.RKey(),
		}, sge(hadMR, 8, 8))
		return wc, binary.NativeEndian.Uint64(had[8:])
	}
	wc, before := atomic(verbs.OpFetchAdd, 5, 0)
	require.Equal(t, verbs.WCFetchAdd, wc.Opcode)
	require.Equal(t, uint64(100), before)
	require.Equal(t, uint64(105), binary.NativeEndian.Uint64(word))
	wc, before = atomic(verbs.OpCompareSwap, 105, 7)
	require.Equal(t, verbs.WCCompareSwap, wc.Opcode)
	require.Equal(t, uint64(105), before)
	require.Equal(t, uint64(7), binary.NativeEndian.Uint64(word))
	_, before = atomic(verbs.OpCompareSwap, 105, 9)
	require.Equal(t, uint64(7), before)
	require.Equal(t, uint64(7), binary.NativeEndian.Uint64(word), "it was not what was compared with")
}

// A write that is fenced goes out after the read before it has brought its bytes: it sends what the read fetched.
func TestFence(t *testing.T) {
	n := newNode(t)
	a, _ := n.joined(t, verbs.QPConfig{Type: verbs.RC, MaxSendWR: 8})
	remote, remoteMR := n.region(t, 1<<17, allAccess)
	_, localMR := n.region(t, 1<<16, verbs.AccessLocalWrite)
	fill(remote[:1<<16], 3)
	key := remoteMR.RKey()
	_, err := a.PostSend([]verbs.SendWR{
		{Opcode: verbs.OpRead, NumSGE: 1, RemoteAddr: remoteMR.Addr(), RKey: key},
		{Opcode: verbs.OpWrite, NumSGE: 1, RemoteAddr: remoteMR.Addr() + 1<<16, RKey: key, Flags: verbs.SendFence | verbs.SendSignaled},
	}, []verbs.SGE{sge(localMR, 0, 1<<16), sge(localMR, 0, 1<<16)})
	require.NoError(t, err)
	require.NoError(t, poll(t, n.cq, 1)[0].Err())
	require.Equal(t, remote[:1<<16], remote[1<<16:])
}

func TestUnreliableConnection(t *testing.T) {
	n := newNode(t)
	a, b := n.joined(t, verbs.QPConfig{Type: verbs.UC, MaxSendWR: 8, MaxRecvWR: 8})
	source, sourceMR := n.region(t, 8192, verbs.AccessLocalWrite)
	target, targetMR := n.region(t, 16384, allAccess)
	fill(source, 2)
	_, err := b.PostRecv([]verbs.RecvWR{{ID: 1}, {ID: 2, NumSGE: 1}}, []verbs.SGE{sge(targetMR, 8192, 8192)})
	require.NoError(t, err)
	_, err = a.PostSend([]verbs.SendWR{
		{ID: 3, Opcode: verbs.OpWriteImm, Imm: 0x01020304, NumSGE: 1, RemoteAddr: targetMR.Addr(), RKey: targetMR.RKey(), Flags: verbs.SendSignaled},
		{ID: 4, Opcode: verbs.OpSend, NumSGE: 1, Flags: verbs.SendSignaled},
	}, []verbs.SGE{sge(sourceMR, 0, 8192), sge(sourceMR, 0, 5000)})
	require.NoError(t, err)
	for _, wc := range poll(t, n.cq, 4) {
		require.NoError(t, wc.Err())
		if wc.ID == 1 {
			require.Equal(t, uint32(0x01020304), wc.Imm)
		}
	}
	require.Equal(t, source, target[:8192])
	require.Equal(t, source[:5000], target[8192:][:5000])
	_, err = a.PostSend([]verbs.SendWR{{Opcode: verbs.OpRead, NumSGE: 1}}, []verbs.SGE{sge(sourceMR, 0, 8)})
	require.ErrorContains(t, err, "a UC queue pair has no such opcode")
	state, err := a.Query(verbs.AttrState | verbs.AttrSQPSN)
	require.NoError(t, err)
	require.Equal(t, verbs.QPRTS, state.State)
}

func TestSharedReceiveQueue(t *testing.T) {
	n := newNode(t)
	srq, err := n.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 32})
	require.NoError(t, err)
	closeAtEnd(t, srq)
	cfg := verbs.QPConfig{Type: verbs.RC, MaxSendWR: 8, SRQ: srq}
	a, b := n.joined(t, cfg)
	c, d := n.joined(t, cfg)
	target, targetMR := n.region(t, 4096, verbs.AccessLocalWrite)
	source, sourceMR := n.region(t, 4096, verbs.AccessLocalWrite)
	fill(source, 4)
	var recvs []verbs.RecvWR
	var into []verbs.SGE
	for i := range 4 {
		recvs = append(recvs, verbs.RecvWR{ID: uint64(100 + i), NumSGE: 1})
		into = append(into, sge(targetMR, i*1024, 1024))
	}
	require.NoError(t, srq.SetLimit(2))
	_, err = srq.PostRecv(recvs, into)
	require.NoError(t, err)
	for i, from := range []*verbs.QP{a, c, a} {
		_, err := from.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, NumSGE: 1}}, []verbs.SGE{sge(sourceMR, i*1024, 1024)})
		require.NoError(t, err)
		wc := poll(t, n.cq, 1)[0]
		require.NoError(t, wc.Err())
		require.Equal(t, uint64(100+i), wc.ID, "in the order of the queue, whoever they come to")
		require.Equal(t, map[*verbs.QP]uint32{a: b.Num(), c: d.Num()}[from], wc.QPN)
		require.Equal(t, source[i*1024:][:1024], target[i*1024:][:1024])
	}
	// One receive is left: the limit of two was passed.
	select {
	case event := <-n.ctx.Events():
		require.Equal(t, verbs.AsyncEvent{Type: verbs.EventSRQLimitReached, SRQ: srq}, event)
	case <-rdmatest.Context(t, 20e9).Done():
		t.Fatal("no event")
	}
	require.Error(t, srq.Close(), "queue pairs take from it")
}

// A window opens part of a region to a peer, and is taken back by a send of that peer.
func TestMemoryWindow(t *testing.T) {
	n := newNode(t)
	if n.ctx.Attr().Flags&verbs.DeviceMemWindowType == 0 {
		_, err := n.pd.AllocMW(verbs.MWType2)
		require.Error(t, err)
		return
	}
	a, b := n.joined(t, verbs.QPConfig{Type: verbs.RC, MaxSendWR: 16, MaxRecvWR: 4})
	mem, mr := n.region(t, 8192, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessMWBind)
	_, sourceMR := n.region(t, 64, verbs.AccessLocalWrite)
	mw, err := n.pd.AllocMW(verbs.MWType2)
	require.NoError(t, err)
	closeAtEnd(t, mw)
	key, err := b.BindMW(mw, verbs.BindConfig{ID: 1, MR: mr, Addr: mr.Addr() + 4096, Length: 64, Access: verbs.AccessRemoteWrite, Flags: verbs.SendSignaled})
	require.NoError(t, err)
	wc := poll(t, n.cq, 1)[0]
	require.NoError(t, wc.Err())
	require.Equal(t, verbs.WCBindMW, wc.Opcode)
	source := sge(sourceMR, 0, 64)
	fill(mem, 0)
	clear(mem[4096:][:64])
	n.post(t, a, verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: mr.Addr() + 4096, RKey: key}, source)
	_, err = b.PostRecv([]verbs.RecvWR{{ID: 2}}, nil)
	require.NoError(t, err)
	_, err = a.PostSend([]verbs.SendWR{{ID: 3, Opcode: verbs.OpSendInv, RKey: key, Flags: verbs.SendSignaled}}, nil)
	require.NoError(t, err)
	for _, wc := range poll(t, n.cq, 2) {
		require.NoError(t, wc.Err())
		if wc.ID == 2 && wc.Flags&verbs.WCWithInv != 0 {
			require.Equal(t, key, wc.Imm)
		}
	}
	_, err = a.PostSend([]verbs.SendWR{{ID: 4, Opcode: verbs.OpWrite, RemoteAddr: mr.Addr() + 4096, RKey: key, NumSGE: 1, Flags: verbs.SendSignaled}}, []verbs.SGE{source})
	require.NoError(t, err)
	require.ErrorIs(t, poll(t, n.cq, 1)[0].Err(), verbs.WCRemoteAccess, "the key was taken back")
}

func TestTemplate(t *testing.T) {
	n := newNode(t)
	const peers = 3
	source, sourceMR := n.region(t, 1<<16, verbs.AccessLocalWrite)
	target, targetMR := n.region(t, 1<<16, allAccess)
	fill(source, 6)
	var parts []verbs.TemplatePart
	for i := range peers {
		a, b := n.joined(t, verbs.QPConfig{Type: verbs.RC, MaxSendWR: 8, MaxRecvWR: 2})
		_, err := b.PostRecv([]verbs.RecvWR{{ID: uint64(100 + i)}, {ID: uint64(100 + i)}}, nil)
		require.NoError(t, err)
		parts = append(parts, verbs.TemplatePart{QP: a, LKey: sourceMR.LKey(), WRs: []verbs.SendWR{
			{Opcode: verbs.OpWrite, RKey: targetMR.RKey()},
			{ID: uint64(i), Opcode: verbs.OpWriteImm, Imm: uint32(i), RKey: targetMR.RKey(), Flags: verbs.SendSignaled},
		}})
	}
	template, err := verbs.NewTemplate(parts...)
	require.NoError(t, err)
	closeAtEnd(t, template)
	for round := range 2 { // the same requests, to other places
		var patches []verbs.Patch
		for i := range 2 * peers {
			at := uint64(round*1<<15 + i*1024)
			patches = append(patches, verbs.Patch{Addr: sourceMR.Addr() + at, RemoteAddr: targetMR.Addr() + at, Length: uint32(1024 - i), Index: uint32(i)})
		}
		accepted, err := template.Post(patches)
		require.NoError(t, err)
		require.Equal(t, 2*peers, accepted)
		for _, wc := range poll(t, n.cq, 2*peers) {
			require.NoError(t, wc.Err())
			if wc.Opcode == verbs.WCRecvWriteImm {
				require.Equal(t, wc.ID-100, uint64(wc.Imm))
			}
		}
		for i := range 2 * peers {
			at := round*1<<15 + i*1024
			require.Equal(t, source[at:][:1024-i], target[at:][:1024-i])
			require.Zero(t, count(target[at+1024-i:][:i]))
		}
	}
	require.Equal(t, uint64(2), template.Crossings())
}

// A peer that posts no receive: the retries run out, and the error says so.
func TestPeerWithoutReceives(t *testing.T) {
	n := newNode(t)
	a, b := n.queuePair(t, verbs.RC), n.queuePair(t, verbs.RC)
	endA, err := a.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	endB, err := b.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	require.NoError(t, a.Connect(endB, verbs.ConnectConfig{RNRRetry: 1}))
	require.NoError(t, b.Connect(endA, verbs.ConnectConfig{MinRNRTimer: 10}))
	_, err = a.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}}, nil)
	require.NoError(t, err)
	require.ErrorIs(t, poll(t, n.cq, 1)[0].Err(), verbs.WCRNRRetryExceeded)
	require.ErrorIs(t, a.Err(), verbs.WCRNRRetryExceeded)
}

// The header takes its room in a receive of a shared queue as in any other.
func TestDatagramsIntoASharedReceiveQueue(t *testing.T) {
	n := newNode(t)
	srq, err := n.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 8})
	require.NoError(t, err)
	closeAtEnd(t, srq)
	b, err := n.pd.CreateQP(verbs.QPConfig{Type: verbs.UD, SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: 4, SRQ: srq})
	require.NoError(t, err)
	closeAtEnd(t, b)
	require.NoError(t, b.Activate(1, qkey))
	a := n.datagrams(t)
	ah, err := n.pd.CreateAH(verbs.AHConfig{Port: 1, GIDIndex: n.gid.Index, RemoteGID: n.gid.GID})
	require.NoError(t, err)
	closeAtEnd(t, ah)
	source, sourceMR := n.region(t, 4096, verbs.AccessLocalWrite)
	target, targetMR := n.region(t, 4096, verbs.AccessLocalWrite)
	fill(source, 1)
	_, err = srq.PostRecv([]verbs.RecvWR{{ID: 5, NumSGE: 1}}, []verbs.SGE{sge(targetMR, 0, verbs.GRHSize+100)})
	require.NoError(t, err)
	_, err = a.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, NumSGE: 1, AH: ah.Ref(), RemoteQPN: b.Num(), RemoteQKey: qkey}},
		[]verbs.SGE{sge(sourceMR, 0, 100)})
	require.NoError(t, err)
	wc := poll(t, n.cq, 1)[0]
	require.NoError(t, wc.Err())
	require.Equal(t, uint64(5), wc.ID)
	require.Equal(t, uint32(verbs.GRHSize+100), wc.ByteLen)
	require.Equal(t, source[:100], target[verbs.GRHSize:][:100])
	from, ok := verbs.SourceGID(&wc, target)
	require.True(t, ok)
	require.Equal(t, n.gid.GID, from)
}
