//go:build linux && cgo && !noverbs

package verbs_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/verbs"
)

// builder is a queue pair whose work requests are built, connected to itself.
func (n *nullNode) builder(t *testing.T, typ verbs.QPType) *verbs.QP {
	t.Helper()
	qp, err := n.pd.CreateQP(verbs.QPConfig{
		Type: typ, SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 3, MaxInline: 64, Builders: true,
	})
	require.NoError(t, err)
	closeAtEnd(t, qp)
	if typ == verbs.UD {
		require.NoError(t, qp.Activate(1, qkey))
		return qp
	}
	end, err := qp.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	require.NoError(t, qp.Connect(end, verbs.ConnectConfig{}))
	return qp
}

// Each opcode is built with what it is made of, and a whole chain is rung for once.
func TestBuiltRequests(t *testing.T) {
	n := newNull(t, nil)
	qp := n.builder(t, verbs.RC)
	require.Equal(t, 64, qp.Caps().MaxInline)
	entry := verbs.SGE{Addr: 0x1000, Length: 8, LKey: 7}
	want := cgotest.Built{ID: 1, Flags: 2, NumSGE: 1, Addr: 0x1000, Length: 8, LKey: 7}
	far := verbs.SendWR{ID: 1, Flags: verbs.SendSignaled, NumSGE: 1, RemoteAddr: 0x2000, RKey: 9, Imm: 0x01020304, CompareAdd: 5, Swap: 6}
	for op, change := range map[verbs.Opcode]func(*cgotest.Built){
		verbs.OpSend:        func(*cgotest.Built) {},
		verbs.OpSendImm:     func(b *cgotest.Built) { b.Imm = far.Imm },
		verbs.OpWrite:       func(b *cgotest.Built) { b.RemoteAddr, b.RKey = far.RemoteAddr, far.RKey },
		verbs.OpWriteImm:    func(b *cgotest.Built) { b.RemoteAddr, b.RKey, b.Imm = far.RemoteAddr, far.RKey, far.Imm },
		verbs.OpRead:        func(b *cgotest.Built) { b.RemoteAddr, b.RKey = far.RemoteAddr, far.RKey },
		verbs.OpFetchAdd:    func(b *cgotest.Built) { b.RemoteAddr, b.RKey, b.Compare = far.RemoteAddr, far.RKey, 5 },
		verbs.OpCompareSwap: func(b *cgotest.Built) { b.RemoteAddr, b.RKey, b.Compare, b.Swap = far.RemoteAddr, far.RKey, 5, 6 },
	} {
		wr, built := far, want
		wr.Opcode, built.Opcode = op, uint32(op)
		change(&built)
		accepted, err := qp.PostSend([]verbs.SendWR{wr}, []verbs.SGE{entry})
		require.NoError(t, err, op)
		require.Equal(t, 1, accepted)
		require.Equal(t, []cgotest.Built{built}, cgotest.BuiltBy(qp.Raw()), op)
		require.Len(t, n.take(t), 1)
	}
	starts := n.null.Calls("wr_start")
	_, err := qp.PostSend(sends(5), nil)
	require.NoError(t, err)
	require.Equal(t, starts+1, n.null.Calls("wr_start"))
	for i, built := range cgotest.BuiltBy(qp.Raw()) {
		require.Equal(t, cgotest.Built{ID: uint64(i), Opcode: uint32(verbs.OpSend), Flags: 2}, built)
	}
	require.Len(t, n.take(t), 5)

	// Several entries, and bytes that are inline: of one entry, of several, from a Go slice.
	_, err = qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, NumSGE: 3}}, []verbs.SGE{entry, entry, entry})
	require.NoError(t, err)
	require.Equal(t, uint32(3), cgotest.BuiltBy(qp.Raw())[0].NumSGE)
	data := make([]byte, 48)
	fill(data, 5)
	require.NoError(t, qp.PostInline(verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}, data))
	require.Equal(t, data, n.null.Inlined())
	require.Equal(t, cgotest.Built{Opcode: uint32(verbs.OpSend), Flags: 2, Inlined: 48}, cgotest.BuiltBy(qp.Raw())[0],
		"how the bytes are given says that they are inline")
	mr, err := n.pd.RegMR(data, verbs.AccessLocalWrite)
	require.NoError(t, err)
	closeAtEnd(t, mr)
	_, err = qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled | verbs.SendInline, NumSGE: 2}},
		[]verbs.SGE{sge(mr, 40, 8), sge(mr, 0, 16)})
	require.NoError(t, err)
	require.Equal(t, append(append([]byte{}, data[40:]...), data[:16]...), n.null.Inlined())
}

// A post by builders is taken whole or not at all; what the checks refuse is not begun.
func TestBuiltPostsAreWhole(t *testing.T) {
	n := newNull(t, func(null *cgotest.Null) { null.SetLimits(ampleLimits) }) // without memory windows
	qp := n.builder(t, verbs.RC)
	n.null.Hold()
	_, err := qp.PostSend(sends(6), nil)
	require.NoError(t, err)
	accepted, err := qp.PostSend(sends(3), nil)
	require.ErrorIs(t, err, verbs.ErrQueueFull)
	require.Zero(t, accepted)
	accepted, err = qp.PostSend(sends(2), nil)
	require.NoError(t, err)
	require.Equal(t, 2, accepted)
	n.null.Release()
	require.Len(t, n.take(t), 8)
	n.null.Fail("wr_complete", 0, int(syscall.EIO), 0)
	accepted, err = qp.PostSend(sends(2), nil)
	require.ErrorIs(t, err, syscall.EIO)
	require.Zero(t, accepted)
	starts := n.null.Calls("wr_start")
	bad := sends(2)
	bad[1].Opcode = 77
	_, err = qp.PostSend(bad, nil)
	require.ErrorIs(t, err, syscall.EINVAL)
	bad[1].Opcode = verbs.OpSendInv // it was made without
	_, err = qp.PostSend(bad, nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.Equal(t, starts, n.null.Calls("wr_start"))

	template, err := verbs.NewTemplate(verbs.TemplatePart{QP: qp, LKey: 3, WRs: []verbs.SendWR{
		{ID: 4, Opcode: verbs.OpWrite, RKey: 9}, {ID: 5, Opcode: verbs.OpWrite, RKey: 9, Flags: verbs.SendSignaled}}})
	require.NoError(t, err)
	closeAtEnd(t, template)
	_, err = template.Post([]verbs.Patch{{Addr: 0x1000, Length: 8, RemoteAddr: 0x2000}, {Index: 1, RemoteAddr: 0x3000}})
	require.NoError(t, err)
	require.Equal(t, []cgotest.Built{
		{ID: 4, NumSGE: 1, Addr: 0x1000, Length: 8, LKey: 3, RemoteAddr: 0x2000, RKey: 9},
		{ID: 5, Flags: 2, RemoteAddr: 0x3000, RKey: 9},
	}, cgotest.BuiltBy(qp.Raw()))
}

func TestBuiltWindows(t *testing.T) {
	n := newNull(t, nil)
	qp := n.builder(t, verbs.RC)
	mr, err := n.pd.RegMR(make([]byte, 4096), remoteAccess|verbs.AccessMWBind)
	require.NoError(t, err)
	closeAtEnd(t, mr)
	mw, err := n.pd.AllocMW(verbs.MWType2)
	require.NoError(t, err)
	closeAtEnd(t, mw)
	key, err := qp.BindMW(mw, verbs.BindConfig{
		ID: 5, MR: mr, Addr: mr.Addr() + 64, Length: 64, Access: verbs.AccessRemoteRead, Flags: verbs.SendSignaled,
	})
	require.NoError(t, err)
	require.Equal(t, []cgotest.Built{{ID: 5, Opcode: 8, Flags: 2, RemoteAddr: mr.Addr() + 64, RKey: key}}, cgotest.BuiltBy(qp.Raw()))
	require.Len(t, n.take(t), 1)
	for _, op := range []verbs.Opcode{verbs.OpLocalInv, verbs.OpSendInv} {
		_, err = qp.PostSend([]verbs.SendWR{{Opcode: op, RKey: key, Flags: verbs.SendSignaled}}, nil)
		require.NoError(t, err)
		require.Equal(t, []cgotest.Built{{Opcode: uint32(op), Flags: 2, RKey: key}}, cgotest.BuiltBy(qp.Raw()))
		require.Len(t, n.take(t), 1)
	}
}

func TestBuiltDatagrams(t *testing.T) {
	n := newNull(t, nil)
	qp := n.builder(t, verbs.UD)
	ah, err := n.pd.CreateAH(verbs.AHConfig{Port: 1, GIDIndex: 1, RemoteGID: n.gid.GID})
	require.NoError(t, err)
	closeAtEnd(t, ah)
	_, err = qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSendImm, Imm: 8, Flags: verbs.SendSignaled, AH: ah.Ref(), RemoteQPN: 5, RemoteQKey: qkey}}, nil)
	require.NoError(t, err)
	require.Equal(t, []cgotest.Built{{Opcode: uint32(verbs.OpSendImm), Flags: 2, Imm: 8, HasAH: true, RemoteQPN: 5, RemoteQKey: qkey}},
		cgotest.BuiltBy(qp.Raw()))
}

// EFA's SRD is made by its driver's own call, and wrapped: a write or read names a peer by its address handle, and the peer's
// memory. Requests reach it only by builders.
func TestSRDNamesPeerAndMemory(t *testing.T) {
	n := newNull(t, nil)
	raw := n.null.NewSRD(n.pd.Raw(), n.cq.Raw(), 8, 8)
	defer cgotest.DestroyQP(raw)
	qp, err := n.pd.WrapQP(raw)
	require.NoError(t, err)
	defer func() { require.NoError(t, qp.Close()) }()
	require.Equal(t, verbs.SRD, qp.Type())
	require.Equal(t, "SRD", qp.Type().String())
	require.NoError(t, qp.Activate(1, qkey))
	ah, err := n.pd.CreateAH(verbs.AHConfig{Port: 1, GIDIndex: 1, RemoteGID: n.gid.GID})
	require.NoError(t, err)
	closeAtEnd(t, ah)
	wr := verbs.SendWR{
		ID: 3, Flags: verbs.SendSignaled, NumSGE: 1, RemoteAddr: 0x2000, RKey: 9, Imm: 0x01020304, AH: ah.Ref(), RemoteQPN: 5,
		RemoteQKey: qkey,
	}
	entry := verbs.SGE{Addr: 0x1000, Length: 8, LKey: 7}
	want := cgotest.Built{ID: 3, Flags: 2, NumSGE: 1, Addr: 0x1000, Length: 8, LKey: 7, HasAH: true, RemoteQPN: 5, RemoteQKey: qkey}
	for op, change := range map[verbs.Opcode]func(*cgotest.Built){
		verbs.OpSend:     func(*cgotest.Built) {},
		verbs.OpSendImm:  func(b *cgotest.Built) { b.Imm = wr.Imm },
		verbs.OpWrite:    func(b *cgotest.Built) { b.RemoteAddr, b.RKey = wr.RemoteAddr, wr.RKey },
		verbs.OpWriteImm: func(b *cgotest.Built) { b.RemoteAddr, b.RKey, b.Imm = wr.RemoteAddr, wr.RKey, wr.Imm },
		verbs.OpRead:     func(b *cgotest.Built) { b.RemoteAddr, b.RKey = wr.RemoteAddr, wr.RKey },
	} {
		one, built := wr, want
		one.Opcode, built.Opcode = op, uint32(op)
		change(&built)
		_, err := qp.PostSend([]verbs.SendWR{one}, []verbs.SGE{entry})
		require.NoError(t, err, op)
		require.Equal(t, []cgotest.Built{built}, cgotest.BuiltBy(raw), op)
		require.Len(t, n.take(t), 1)
		template, err := verbs.NewTemplate(verbs.TemplatePart{QP: qp, LKey: 7, WRs: []verbs.SendWR{one}})
		require.NoError(t, err)
		_, err = template.Post([]verbs.Patch{{Addr: entry.Addr, Length: entry.Length, RemoteAddr: wr.RemoteAddr}})
		require.NoError(t, err)
		require.Equal(t, []cgotest.Built{built}, cgotest.BuiltBy(raw), op)
		require.Len(t, n.take(t), 1)
		require.NoError(t, template.Close())
	}
	wr.Opcode, wr.AH = verbs.OpWrite, 0
	_, err = qp.PostSend([]verbs.SendWR{wr}, []verbs.SGE{entry})
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "address handle")
	wr.Opcode = verbs.OpFetchAdd
	_, err = qp.PostSend([]verbs.SendWR{wr}, []verbs.SGE{entry})
	require.ErrorIs(t, err, syscall.EINVAL, "SRD has no atomics")
	_, err = n.pd.CreateQP(verbs.QPConfig{Type: verbs.SRD, SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: 4})
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "wrap")
}

func TestBuildersThatAreRefused(t *testing.T) {
	n := newNull(t, nil)
	cfg := verbs.QPConfig{Type: verbs.RC, SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: 4, Builders: true}
	live, reserved := n.null.Live(), n.cq.Reserved()
	n.null.Fail("create_qp_ex", 0, 0, syscall.EOPNOTSUPP)
	_, err := n.pd.CreateQP(cfg)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.Equal(t, live, n.null.Live())
	require.Equal(t, reserved, n.cq.Reserved())
	soft := newNull(t, func(null *cgotest.Null) { null.SetVendor(0xffffff) })
	cfg.SendCQ, cfg.RecvCQ = soft.cq, soft.cq
	qp, err := soft.pd.CreateQP(cfg)
	if verbs.LibraryRelease() >= 64 {
		require.NoError(t, err)
		require.NoError(t, qp.Close())
		return
	}
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "defective before rdma-core 64")
	require.Zero(t, soft.null.Calls("create_qp_ex"))
}

// TestSRDGoesBeyondThePortsLargestMessage: what EFA's port tells is the bound of a send, and writes and reads have another, which
// verbs does not tell.
func TestSRDGoesBeyondThePortsLargestMessage(t *testing.T) {
	n := newNull(t, func(null *cgotest.Null) { null.SetPort(1, cgotest.Port{State: 4, MTU: 5, MaxMessage: 8928}) })
	raw := n.null.NewSRD(n.pd.Raw(), n.cq.Raw(), 8, 8)
	defer cgotest.DestroyQP(raw)
	qp, err := n.pd.WrapQP(raw)
	require.NoError(t, err)
	defer func() { require.NoError(t, qp.Close()) }()
	require.NoError(t, qp.Activate(1, qkey))
	ah, err := n.pd.CreateAH(n.to(1))
	require.NoError(t, err)
	closeAtEnd(t, ah)
	for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead} {
		wr := datagram(ah.Ref())
		wr.Opcode, wr.NumSGE = op, 1
		_, err = qp.PostSend([]verbs.SendWR{wr}, []verbs.SGE{{Length: 1 << 20}})
		require.NoError(t, err, op)
	}
	require.Len(t, n.take(t), 3)
}
