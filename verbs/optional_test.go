package verbs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/verbs"
)

// What a device may lack works where the device says that it has it, and is ErrUnsupported where it says that it has not.
func TestOptionalCalls(t *testing.T) {
	n := newNode(t)
	rc, ud := n.queuePairToItself(t), n.datagrams(t)
	group := gid(t, "224.0.0.9")
	attr := n.ctx.Attr()
	extended, err := n.ctx.QueryExtended()
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		has  bool
		call func() error
	}{
		"moderation": {extended.MaxModerationCount > 0, func() error { return n.cq.Moderate(16, 100*time.Microsecond) }},
		"rate limit": {extended.RateLimitMax > 0 && extended.RateLimitTypes.Has(verbs.RC), func() error {
			return rc.SetRateLimit(extended.RateLimitMax, 0, 0)
		}},
		"multicast": {attr.MaxMcastGroups > 0, func() error {
			if err := ud.AttachMulticast(group, 0); err != nil {
				return err
			}
			require.NoError(t, ud.DetachMulticast(group, 0))
			require.Error(t, ud.DetachMulticast(group, 0), "it is in the group no more")
			return nil
		}},
		"memory window of type 1": {attr.Flags&verbs.DeviceMemWindow != 0, func() error {
			mw, err := n.pd.AllocMW(verbs.MWType1)
			if err != nil {
				return err
			}
			return mw.Close()
		}},
		"resizing an SRQ": {attr.Flags&verbs.DeviceSRQResize != 0, func() error {
			srq, err := n.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 16})
			require.NoError(t, err)
			defer func() { require.NoError(t, srq.Close()) }()
			if err := srq.Resize(32); err != nil {
				return err
			}
			require.Equal(t, 32, srq.Config().MaxWR)
			accepted, err := srq.PostRecv(make([]verbs.RecvWR, 32), nil)
			require.NoError(t, err)
			require.Equal(t, 32, accepted)
			return nil
		}},
		"thread domains": {false, func() error { // soft-RoCE has none; no attribute tells
			td, err := n.ctx.AllocThreadDomain()
			if err != nil {
				return err
			}
			require.NoError(t, td.Close())
			return errors.ErrUnsupported
		}},
		"timestamps": {extended.TimestampMask != 0, func() error {
			cq, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 4, Timestamps: verbs.TimestampTicks})
			if err != nil {
				return err
			}
			return cq.Close()
		}},
		"the whole address space": {extended.ODP&verbs.ODPImplicit != 0, func() error {
			mr, err := n.pd.RegImplicit(verbs.AccessLocalWrite)
			if err != nil {
				return err
			}
			return mr.Close()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.call(); tc.has {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, errors.ErrUnsupported)
			}
		})
	}
	t.Logf("vendor %#x, part %#x", attr.VendorID, attr.VendorPartID)
	// Our own address is found on the wire where there is a wire.
	mac, vlan, err := n.ctx.Resolve(verbs.AHConfig{Port: 1, GIDIndex: n.gid.Index, RemoteGID: n.gid.GID})
	require.NoError(t, err)
	t.Logf("our own address is at %x, VLAN %#x", mac, vlan)
	inOrder, err := rc.DataInOrder(verbs.OpWrite)
	require.NoError(t, err)
	t.Logf("data in order: %v", inOrder)
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
