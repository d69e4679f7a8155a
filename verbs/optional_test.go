package verbs_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/verbs"
)

// What a device may lack either works or says by its error that it is not there; it is logged which.
func TestOptionalCalls(t *testing.T) {
	n := newNode(t)
	rc, ud := n.queuePairToItself(t), n.datagrams(t)
	group := gid(t, "224.0.0.9")
	for name, call := range map[string]func() error{
		"moderation": func() error { return n.cq.Moderate(16, 100*time.Microsecond) },
		"rate limit": func() error { return rc.SetRateLimit(1000, 0, 0) },
		"data in order": func() error {
			inOrder, err := rc.DataInOrder(verbs.OpWrite)
			t.Logf("data in order: %v", inOrder)
			return err
		},
		"multicast": func() error {
			if err := ud.AttachMulticast(group, 0); err != nil {
				return err
			}
			return ud.DetachMulticast(group, 0)
		},
		"memory window of type 1": func() error {
			mw, err := n.pd.AllocMW(verbs.MWType1)
			if err != nil {
				return err
			}
			return mw.Close()
		},
		"relaxed ordering": func() error {
			mr, err := n.pd.RegMR(make([]byte, 64), verbs.AccessLocalWrite|verbs.AccessRelaxedOrdering)
			if err != nil {
				return err
			}
			t.Logf("relaxed ordering granted: %v", mr.Access()&verbs.AccessRelaxedOrdering != 0)
			return mr.Close()
		},
		"resolution": func() error {
			mac, vlan, err := n.ctx.Resolve(verbs.AHConfig{Port: 1, GIDIndex: n.gid.Index, RemoteGID: n.gid.GID})
			t.Logf("our own address is at %x, VLAN %#x", mac, vlan)
			return err
		},
		"resizing an SRQ": func() error {
			srq, err := n.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 16})
			if err != nil {
				return err
			}
			return errors.Join(srq.Resize(32), srq.Close())
		},
	} {
		if err := call(); err != nil {
			var errno syscall.Errno
			require.True(t, errors.As(err, &errno), "%s: %v", name, err)
			t.Logf("%s: %v", name, err)
		} else {
			t.Logf("%s: works", name)
		}
	}
	entry, err := n.ctx.QueryGID(1, n.gid.Index)
	require.NoError(t, err)
	require.Equal(t, n.gid, entry)
	qp, err := n.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: 4, MaxInline: 1 << 14})
	require.NoError(t, err)
	closeAtEnd(t, qp)
	t.Logf("of %d inline bytes %d are granted", 1<<14, qp.Caps().MaxInline)
	require.Less(t, qp.Caps().MaxInline, 1<<14)
}

// Datagrams to the way back that a datagram itself tells, and to a multicast group.
func TestAHFromADatagram(t *testing.T) {
	n := newNode(t)
	a, b := n.datagrams(t), n.datagrams(t)
	mem, mr := n.region(t, 4096, verbs.AccessLocalWrite)
	ah, err := n.pd.CreateAH(verbs.AHConfig{Port: 1, GIDIndex: n.gid.Index, RemoteGID: n.gid.GID})
	require.NoError(t, err)
	closeAtEnd(t, ah)
	exchange := func(from, to *verbs.QP, ah *verbs.AH) *verbs.WC {
		_, err := to.PostRecv([]verbs.RecvWR{{ID: 1, NumSGE: 1}}, []verbs.SGE{sge(mr, 0, 1024)})
		require.NoError(t, err)
		_, err = from.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, NumSGE: 1, AH: ah.Ref(), RemoteQPN: to.Num(), RemoteQKey: qkey}},
			[]verbs.SGE{sge(mr, 2048, 16)})
		require.NoError(t, err)
		wc := poll(t, n.cq, 1)[0]
		require.NoError(t, wc.Err())
		return &wc
	}
	wc := exchange(a, b, ah)
	back, err := n.pd.CreateAHFromWC(1, wc, mem[:verbs.GRHSize])
	require.NoError(t, err)
	closeAtEnd(t, back)
	require.Equal(t, b.Num(), exchange(b, a, back).SrcQPN)
}
