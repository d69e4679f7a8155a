//go:build linux && cgo && !noverbs

package verbs_test

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/verbs"
)

// What Connect asks for: a dead peer is noticed, a peer that is slow to post receives is waited for, and neither end is
// asked for more reads at a time than it takes.
func TestNullConnectDefaultsAndClamps(t *testing.T) {
	n := newNull(t, nil)
	qp := n.queuePair(t, verbs.RC)
	local, err := qp.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	require.Equal(t, uint8(16), local.RdAtomic)
	remote := local
	remote.RdAtomic, remote.MTU = 3, 512
	require.NoError(t, qp.Connect(remote, verbs.ConnectConfig{}))
	got, err := qp.Query(verbs.AttrState)
	require.NoError(t, err)
	require.Equal(t, uint8(6), got.RetryCount, "7 is for ever on rxe")
	require.Equal(t, uint8(7), got.RNRRetry)
	require.Equal(t, 640*time.Microsecond, got.MinRNRTimer, "not code 0, which is 655 ms")
	require.Equal(t, 4096*time.Nanosecond<<14, got.Timeout)
	require.Equal(t, uint8(3), got.MaxRdAtomic, "what the peer takes")
	require.Equal(t, uint8(16), got.MaxDestRdAtomic)
	require.Equal(t, verbs.MTU(512), got.PathMTU)

	own := n.queuePair(t, verbs.RC)
	local, err = own.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	require.NoError(t, own.Connect(local, verbs.ConnectConfig{
		Timeout: time.Second, RetryCount: 3, RNRRetry: 2, MinRNRTimer: 10 * time.Millisecond,
	}))
	got, err = own.Query(verbs.AttrState)
	require.NoError(t, err)
	require.Equal(t, []any{uint8(3), uint8(2), 10240 * time.Microsecond, 4096 * time.Nanosecond << 18},
		[]any{got.RetryCount, got.RNRRetry, got.MinRNRTimer, got.Timeout})
}

// A call on a closed object is an error and reaches nothing; closing what others stand on is refused.
func TestNullClosedObjects(t *testing.T) {
	n := newNull(t, nil)
	channel, err := n.ctx.CreateCompChannel()
	require.NoError(t, err)
	cq, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 64, Channel: channel})
	require.NoError(t, err)
	srq, err := n.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 8})
	require.NoError(t, err)
	qp, err := n.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSendWR: 4, SRQ: srq})
	require.NoError(t, err)
	template, err := verbs.NewTemplate(verbs.TemplatePart{QP: qp, WRs: sends(1)})
	require.NoError(t, err)
	mr, err := n.pd.RegMR(make([]byte, 64), remoteAccess|verbs.AccessMWBind)
	require.NoError(t, err)
	mw, err := n.pd.AllocMW(verbs.MWType2)
	require.NoError(t, err)
	for _, parent := range []interface{ Close() error }{channel, qp, n.pd, n.ctx} {
		require.ErrorIs(t, parent.Close(), syscall.EBUSY)
	}
	for _, object := range []interface{ Close() error }{template, qp, cq, channel, srq, mw, mr} {
		require.NoError(t, object.Close())
		require.NoError(t, object.Close(), "closing twice does nothing")
	}
	for name, call := range map[string]func() error{
		"post":       func() error { _, err := qp.PostSend(sends(1), nil); return err },
		"receive":    func() error { _, err := qp.PostRecv([]verbs.RecvWR{{}}, nil); return err },
		"template":   func() error { _, err := template.Post([]verbs.Patch{{}}); return err },
		"prepare":    func() error { _, err := verbs.NewTemplate(verbs.TemplatePart{QP: qp, WRs: sends(1)}); return err },
		"bind":       func() error { _, err := qp.BindMW(mw, verbs.BindConfig{MR: mr}); return err },
		"cause":      qp.Err,
		"state":      func() error { _, err := qp.State(); return err },
		"modify":     func() error { return qp.Modify(verbs.QPAttr{}, verbs.AttrAccess) },
		"query":      func() error { _, err := qp.Query(verbs.AttrState); return err },
		"drain":      func() error { return qp.Drain(t.Context(), nil) },
		"poll":       func() error { _, err := cq.Poll(make([]verbs.WC, 1)); return err },
		"arm":        cq.Arm,
		"resize":     func() error { return cq.Resize(128) },
		"moderate":   func() error { return cq.Moderate(1, 1) },
		"wait":       func() error { _, err := channel.Wait(t.Context(), nil); return err },
		"SRQ":        func() error { _, err := srq.PostRecv([]verbs.RecvWR{{}}, nil); return err },
		"SRQ limit":  func() error { return srq.SetLimit(1) },
		"access":     func() error { return mr.ChangeAccess(remoteAccess) },
		"rate limit": func() error { return qp.SetRateLimit(1, 0, 0) },
		"on the SRQ": func() error {
			_, err := n.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: 4, SRQ: srq})
			return err
		},
		"on the channel": func() error { _, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 1, Channel: channel}); return err },
	} {
		require.ErrorIs(t, call(), net.ErrClosed, name)
	}
}

// Closing waits for posts in progress and refuses those that come later: none reaches a queue pair that is gone.
func TestNullCloseWhilePosting(t *testing.T) {
	n := newNull(t, nil)
	other := n.queuePairToItself(t)
	for range 50 {
		qp := n.queuePairToItself(t)
		template, err := verbs.NewTemplate(verbs.TemplatePart{QP: other, WRs: make([]verbs.SendWR, 1)})
		require.NoError(t, err)
		ended := make(chan error)
		loop := func(post func() error) {
			for {
				if err := post(); err != nil {
					ended <- err
					return
				}
			}
		}
		quiet := make([]verbs.SendWR, 1)
		go loop(func() error { _, err := qp.PostSend(quiet, nil); return ignore(err, syscall.EINVAL) })
		go loop(func() error { _, err := qp.PostRecv([]verbs.RecvWR{{}}, nil); return ignore(err, verbs.ErrQueueFull) })
		go loop(func() error { _, err := template.Post([]verbs.Patch{{}}); return ignore(err, syscall.EINVAL) })
		require.NoError(t, template.Close())
		require.NoError(t, qp.Close())
		for range 3 {
			require.ErrorIs(t, <-ended, net.ErrClosed)
		}
	}
}

// ignore makes the error of a full queue, which these loops run into, none.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
