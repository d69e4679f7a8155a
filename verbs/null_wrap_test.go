//go:build linux && cgo && !noverbs

package verbs_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/verbs"
)

// elsewhere is a second binding to a null device, where objects are made that the first knows nothing of.
func (n *nullNode) elsewhere(t *testing.T) *nullNode {
	t.Helper()
	ctx, err := verbs.ImportContext(n.null.Context())
	require.NoError(t, err)
	closeAtEnd(t, ctx)
	pd, err := ctx.AllocPD()
	require.NoError(t, err)
	closeAtEnd(t, pd)
	return &nullNode{&node{ctx: ctx, pd: pd, gid: n.gid}, n.null}
}

// What was made elsewhere is polled and posted to here, and closing leaves it as it is.
func TestWrappedObjects(t *testing.T) {
	n := newNull(t, withTimestamps)
	n.null.SetClock(5000, 1000)
	other := n.elsewhere(t)
	for name, timestamps := range map[string]verbs.CQTimestamps{"ordinary": 0, "extended": verbs.TimestampTicks} {
		t.Run(name, func(t *testing.T) {
			made, err := other.ctx.CreateCQ(verbs.CQConfig{Depth: 64, Timestamps: timestamps})
			require.NoError(t, err)
			madeSRQ, err := other.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 8, MaxSGE: 2})
			require.NoError(t, err)
			madeQP, err := other.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: made, RecvCQ: made, MaxSendWR: 8, SRQ: madeSRQ})
			require.NoError(t, err)
			mem := make([]byte, 4096)
			madeMR, err := other.pd.RegMR(mem, remoteAccess)
			require.NoError(t, err)
			end, err := madeQP.Init(n.gid, remoteAccess)
			require.NoError(t, err)
			require.NoError(t, madeQP.Connect(end, verbs.ConnectConfig{}))

			wrap := n.ctx.WrapCQ
			if timestamps != 0 {
				wrap = n.ctx.WrapCQEx
			}
			cq, err := wrap(made.Raw())
			require.NoError(t, err)
			require.Equal(t, 64, cq.Depth())
			require.Equal(t, timestamps, cq.Timestamps())
			pd, err := n.ctx.WrapPD(other.pd.Raw())
			require.NoError(t, err)
			srq, err := pd.WrapSRQ(madeSRQ.Raw())
			require.NoError(t, err)
			require.Equal(t, madeSRQ.Config(), srq.Config())
			mr, err := pd.WrapMR(madeMR.Raw())
			require.NoError(t, err)
			require.Equal(t, []any{madeMR.Addr(), madeMR.Length(), madeMR.LKey(), madeMR.RKey(), verbs.AccessFlags(0)},
				[]any{mr.Addr(), mr.Length(), mr.LKey(), mr.RKey(), mr.Access()})
			qp, err := pd.WrapQP(madeQP.Raw())
			require.NoError(t, err)
			require.ErrorIs(t, cq.Close(), syscall.EBUSY, "a wrapped queue pair is on it")

			entry, err := mr.SGE(0, 64)
			require.NoError(t, err)
			_, err = srq.PostRecv([]verbs.RecvWR{{ID: 9, NumSGE: 1}}, []verbs.SGE{entry})
			require.NoError(t, err)
			require.NoError(t, n.null.Complete(made.Raw(), cgotest.Completion{QPN: qp.Num(), Receive: true, Opcode: uint32(verbs.WCRecv)}))
			_, err = qp.PostSend([]verbs.SendWR{{ID: 5, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, NumSGE: 1}}, []verbs.SGE{entry})
			require.NoError(t, err)
			var wcs [4]verbs.WC
			got, err := cq.Poll(wcs[:])
			require.NoError(t, err)
			require.Equal(t, 2, got)
			require.Equal(t, []uint64{9, 5}, []uint64{wcs[0].ID, wcs[1].ID})
			n.null.FailSend(0, uint32(verbs.WCRetryExceeded), 0)
			_, err = qp.PostSend(sends(1), nil)
			require.NoError(t, err)
			_, err = cq.Poll(wcs[:])
			require.NoError(t, err)
			require.ErrorIs(t, qp.Err(), verbs.WCRetryExceeded, "its completion queue is open here")

			mine, err := n.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSendWR: 4})
			require.NoError(t, err, "one of ours on a queue of theirs")
			require.NoError(t, mine.Close())

			live := n.null.Live()
			for _, object := range []interface{ Close() error }{qp, mr, srq, cq, pd} {
				require.NoError(t, object.Close())
			}
			require.Equal(t, live, n.null.Live())
			for _, object := range []interface{ Close() error }{madeMR, madeQP, madeSRQ, made} {
				require.NoError(t, object.Close(), "it is still there")
			}
		})
	}
}

// closerOf makes an object.
type closerOf func() (interface{ Close() error }, error)

// An object has one place where events find it: what is open here already is not wrapped, and what is closed leaves nothing.
func TestAWrappedObjectIsRegisteredOnce(t *testing.T) {
	n := newNull(t, nil)
	other := n.elsewhere(t)
	cq, err := other.ctx.CreateCQ(verbs.CQConfig{Depth: 4})
	require.NoError(t, err)
	closeAtEnd(t, cq)
	srq, err := other.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 4})
	require.NoError(t, err)
	closeAtEnd(t, srq)
	pd, err := n.ctx.WrapPD(other.pd.Raw())
	require.NoError(t, err)
	closeAtEnd(t, pd)
	for name, wrap := range map[string]closerOf{
		"cq":  func() (interface{ Close() error }, error) { return n.ctx.WrapCQ(cq.Raw()) },
		"srq": func() (interface{ Close() error }, error) { return pd.WrapSRQ(srq.Raw()) },
	} {
		t.Run(name, func(t *testing.T) {
			before := n.ctx.Registered()
			object, err := wrap()
			require.NoError(t, err)
			require.Equal(t, before+1, n.ctx.Registered())
			_, err = wrap()
			require.ErrorIs(t, err, syscall.EINVAL)
			require.ErrorContains(t, err, "already")
			require.NoError(t, object.Close())
			require.Equal(t, before, n.ctx.Registered())
			object, err = wrap()
			require.NoError(t, err)
			require.NoError(t, object.Close())
		})
	}
	n.null.Fail("ibv_query_srq", 0, int(syscall.EIO), 0)
	before := n.ctx.Registered()
	_, err = pd.WrapSRQ(srq.Raw())
	require.ErrorIs(t, err, syscall.EIO)
	require.Equal(t, before, n.ctx.Registered())
}

func TestWrappingWhatIsNotOurs(t *testing.T) {
	n, stranger := newNull(t, nil), newNull(t, nil)
	srq, err := stranger.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 4})
	require.NoError(t, err)
	closeAtEnd(t, srq)
	mr, err := stranger.pd.RegMR(make([]byte, 64), remoteAccess)
	require.NoError(t, err)
	closeAtEnd(t, mr)
	qp := stranger.queuePair(t, verbs.RC)
	for name, wrap := range map[string]func() (of, none error){
		"cq": func() (of, none error) {
			_, of = n.ctx.WrapCQ(stranger.cq.Raw())
			_, none = n.ctx.WrapCQ(nil)
			return of, none
		},
		"srq": func() (of, none error) {
			_, of = n.pd.WrapSRQ(srq.Raw())
			_, none = n.pd.WrapSRQ(nil)
			return of, none
		},
		"mr": func() (of, none error) {
			_, of = n.pd.WrapMR(mr.Raw())
			_, none = n.pd.WrapMR(nil)
			return of, none
		},
		"qp": func() (of, none error) {
			_, of = n.pd.WrapQP(qp.Raw())
			_, none = n.pd.WrapQP(nil)
			return of, none
		},
	} {
		of, none := wrap()
		require.ErrorIs(t, of, syscall.EINVAL, name)
		require.ErrorContains(t, of, "not of this context", name)
		require.ErrorIs(t, none, syscall.EINVAL, name)
	}
}

// Of two at once, one wraps: the other would be found by no event.
func TestWrappingAtTheSameTime(t *testing.T) {
	n := newNull(t, nil)
	other := n.elsewhere(t)
	cq, err := other.ctx.CreateCQ(verbs.CQConfig{Depth: 4})
	require.NoError(t, err)
	closeAtEnd(t, cq)
	var stop atomic.Bool
	var others sync.WaitGroup
	defer func() { stop.Store(true); others.Wait() }()
	for range 2 { // who wraps has to wait in the middle
		others.Go(func() {
			for !stop.Load() {
				n.ctx.Registered()
			}
		})
	}
	for round := range 300 {
		var done sync.WaitGroup
		var waiting, wrapped atomic.Int32
		var open [4]*verbs.CQ
		waiting.Store(int32(len(open)))
		for i := range open {
			done.Go(func() {
				waiting.Add(-1)
				for waiting.Load() > 0 {
					runtime.Gosched()
				}
				if open[i], _ = n.ctx.WrapCQ(cq.Raw()); open[i] != nil {
					wrapped.Add(1)
				}
			})
		}
		done.Wait()
		require.EqualValues(t, 1, wrapped.Load(), "round %d", round)
		for _, w := range open {
			if w != nil {
				require.NoError(t, w.Close())
			}
		}
	}
}

// An object holds the domain that it is wrapped on, so that has to be its own.
func TestWrappingWhatIsOfAnotherDomain(t *testing.T) {
	n := newNull(t, nil)
	other := n.elsewhere(t)
	cq, err := other.ctx.CreateCQ(verbs.CQConfig{Depth: 8})
	require.NoError(t, err)
	closeAtEnd(t, cq)
	srq, err := other.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 4})
	require.NoError(t, err)
	closeAtEnd(t, srq)
	mr, err := other.pd.RegMR(make([]byte, 64), remoteAccess)
	require.NoError(t, err)
	closeAtEnd(t, mr)
	qp, err := other.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSendWR: 4})
	require.NoError(t, err)
	closeAtEnd(t, qp)
	theirs, err := n.ctx.ImportPD(other.pd.Handle()) // the same domain of the kernel
	require.NoError(t, err)
	closeAtEnd(t, theirs)
	for name, wrap := range map[string]func(*verbs.PD) (closer, error){
		"srq": func(pd *verbs.PD) (closer, error) { return pd.WrapSRQ(srq.Raw()) },
		"mr":  func(pd *verbs.PD) (closer, error) { return pd.WrapMR(mr.Raw()) },
		"qp":  func(pd *verbs.PD) (closer, error) { return pd.WrapQP(qp.Raw()) },
	} {
		before := n.ctx.Registered()
		_, err := wrap(n.pd)
		require.ErrorIs(t, err, syscall.EINVAL, name)
		require.ErrorContains(t, err, "of another protection domain", name)
		require.Equal(t, before, n.ctx.Registered())
		object, err := wrap(theirs)
		require.NoError(t, err, name)
		require.NoError(t, object.Close())
	}
}

// What may be done with a wrapped region is not known here: the device says it.
func TestWindowsOfAWrappedRegion(t *testing.T) {
	n := newNull(t, nil)
	made, err := n.pd.RegMR(make([]byte, 4096), remoteAccess|verbs.AccessMWBind)
	require.NoError(t, err)
	closeAtEnd(t, made)
	mr, err := n.pd.WrapMR(made.Raw())
	require.NoError(t, err)
	closeAtEnd(t, mr)
	mw, err := n.pd.AllocMW(verbs.MWType2)
	require.NoError(t, err)
	closeAtEnd(t, mw)
	qp, _ := n.connected(t)
	_, err = qp.BindMW(mw, verbs.BindConfig{MR: mr, Addr: mr.Addr(), Length: 64, Flags: verbs.SendSignaled})
	require.NoError(t, err)
	_, err = qp.BindMW(mw, verbs.BindConfig{MR: mr, Addr: mr.Addr() + 4096, Length: 64, Flags: verbs.SendSignaled})
	require.ErrorIs(t, err, syscall.EINVAL)
}

// What flushes of a queue pair that was in the error state when it was wrapped has been asked for elsewhere.
func TestWrappingInTheErrorState(t *testing.T) {
	n := newNull(t, nil)
	other := n.elsewhere(t)
	made, err := other.ctx.CreateCQ(verbs.CQConfig{Depth: 16})
	require.NoError(t, err)
	closeAtEnd(t, made)
	madeQP, err := other.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: made, RecvCQ: made, MaxSendWR: 4})
	require.NoError(t, err)
	closeAtEnd(t, madeQP)
	require.NoError(t, madeQP.SetError())
	cq, err := n.ctx.WrapCQ(made.Raw())
	require.NoError(t, err)
	closeAtEnd(t, cq)
	pd, err := n.ctx.WrapPD(other.pd.Raw())
	require.NoError(t, err)
	closeAtEnd(t, pd)
	qp, err := pd.WrapQP(madeQP.Raw())
	require.NoError(t, err)
	closeAtEnd(t, qp)
	require.NoError(t, n.null.Complete(made.Raw(), cgotest.Completion{Status: uint32(verbs.WCFlushed), QPN: qp.Num()}))
	got, err := cq.Poll(make([]verbs.WC, 4))
	require.NoError(t, err)
	require.Equal(t, 1, got)
	require.NoError(t, qp.Err())
}
