package verbs_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/verbs"
)

const qkey = 0x77656674

func (n *node) datagrams(t testing.TB) *verbs.QP {
	t.Helper()
	qp := n.queuePair(t, verbs.UD)
	require.NoError(t, qp.Activate(1, qkey))
	return qp
}

func TestDatagram(t *testing.T) {
	n := newNode(t)
	a, b := n.datagrams(t), n.datagrams(t)
	source, sourceMR := n.region(t, 4096, verbs.AccessLocalWrite)
	target, targetMR := n.region(t, 8192, verbs.AccessLocalWrite)
	fill(source, 1)
	ah, err := n.pd.CreateAH(verbs.AHConfig{Port: 1, GIDIndex: n.gid.Index, RemoteGID: n.gid.GID})
	require.NoError(t, err)
	closeAtEnd(t, ah)
	for _, length := range []int{0, 1, 100, 1024} {
		clear(target)
		_, err := b.PostRecv([]verbs.RecvWR{{ID: 1, NumSGE: 1}}, []verbs.SGE{sge(targetMR, 0, verbs.GRHSize+1024)})
		require.NoError(t, err)
		_, err = a.PostSend([]verbs.SendWR{{
			ID: 2, Opcode: verbs.OpSendImm, Imm: 0xfeed0001, Flags: verbs.SendSignaled, NumSGE: 1,
			AH: ah.Ref(), RemoteQPN: b.Num(), RemoteQKey: qkey,
		}}, []verbs.SGE{sge(sourceMR, 0, length)})
		require.NoError(t, err)
		for _, wc := range poll(t, n.cq, 2) {
			require.NoError(t, wc.Err())
			if wc.ID != 1 {
				continue
			}
			require.Equal(t, uint32(verbs.GRHSize+length), wc.ByteLen)
			require.Equal(t, source[:length], target[verbs.GRHSize:][:length])
			require.Equal(t, a.Num(), wc.SrcQPN)
			require.Equal(t, uint32(0xfeed0001), wc.Imm)
			from, ok := verbs.SourceGID(&wc, target)
			require.True(t, ok)
			require.Equal(t, n.gid.GID, from)
		}
	}
}

func TestResetAndUseAgain(t *testing.T) {
	n := newNode(t)
	qp := n.datagrams(t)
	number := qp.Num()
	require.NoError(t, qp.SetError())
	require.NoError(t, qp.Reset())
	require.NoError(t, qp.Activate(1, qkey))
	require.Equal(t, number, qp.Num())
	state, err := qp.State()
	require.NoError(t, err)
	require.Equal(t, verbs.QPRTS, state)
}

func TestDatagramRefusals(t *testing.T) {
	n := newNode(t)
	qp := n.datagrams(t)
	_, mr := n.region(t, 8192, verbs.AccessLocalWrite)
	port, err := n.ctx.QueryPort(1)
	require.NoError(t, err)
	ah, err := n.pd.CreateAH(verbs.AHConfig{Port: 1, GIDIndex: n.gid.Index, RemoteGID: n.gid.GID})
	require.NoError(t, err)
	closeAtEnd(t, ah)
	for name, tc := range map[string]struct {
		wr     verbs.SendWR
		length int
		limit  string
	}{
		"no address handle": {verbs.SendWR{Opcode: verbs.OpSend}, 8, "needs an address handle"},
		"a write":           {verbs.SendWR{Opcode: verbs.OpWrite, AH: ah.Ref()}, 8, "no such opcode"},
		"over the MTU":      {verbs.SendWR{Opcode: verbs.OpSend, AH: ah.Ref()}, int(port.ActiveMTU) + 1, "longer than a message"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.wr.NumSGE = 1
			_, err := qp.PostSend([]verbs.SendWR{tc.wr}, []verbs.SGE{sge(mr, 0, tc.length)})
			require.ErrorIs(t, err, syscall.EINVAL)
			require.ErrorContains(t, err, tc.limit)
		})
	}
	for name, cfg := range map[string]verbs.AHConfig{
		"nowhere":       {Port: 1},
		"GID index":     {Port: 1, GIDIndex: 256, RemoteGID: n.gid.GID},
		"service level": {Port: 1, RemoteGID: n.gid.GID, Path: verbs.Path{ServiceLevel: 16}},
		"flow label":    {Port: 1, RemoteGID: n.gid.GID, Path: verbs.Path{FlowLabel: 1 << 20}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := n.pd.CreateAH(cfg)
			require.ErrorIs(t, err, syscall.EINVAL)
		})
	}
}
