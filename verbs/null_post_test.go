//go:build linux && cgo && !noverbs

package verbs_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

// Drivers report a failed call in several ways: the errno itself, −1 with errno, a negative errno; posts as well as others.
var refusals = map[string]struct {
	rc    int
	errno syscall.Errno
	want  syscall.Errno
}{
	"an errno":          {int(syscall.ENOMEM), 0, syscall.ENOMEM},
	"−1 and errno":      {-1, syscall.ENOMEM, syscall.ENOMEM},
	"a negative errno":  {-int(syscall.ENOMEM), 0, syscall.ENOMEM},
	"−1 without errno":  {-1, 0, syscall.EIO},
	"another errno":     {int(syscall.EINVAL), 0, syscall.EINVAL},
	"another, negative": {-int(syscall.EINVAL), 0, syscall.EINVAL},
	"errno left behind": {int(syscall.EINVAL), syscall.ENOMEM, syscall.EINVAL},
}

func TestNullPartialPostsAtEveryIndex(t *testing.T) {
	const chain = 20
	for name, refusal := range refusals {
		t.Run(name, func(t *testing.T) {
			n := newNull(t, nil)
			a, b := n.connected(t)
			for i := range chain {
				n.null.Fail("post_send", i, refusal.rc, refusal.errno)
				accepted, err := a.PostSend(sends(chain), nil)
				require.Equal(t, i, accepted)
				require.ErrorIs(t, err, refusal.want)
				require.Equal(t, refusal.want == syscall.ENOMEM, errors.Is(err, verbs.ErrQueueFull))
				require.ErrorContains(t, err, fmt.Sprintf("work request %d of %d", i, chain))
				require.Len(t, n.take(t), i, "the first ones are carried out")

				n.null.Fail("post_recv", i, refusal.rc, refusal.errno)
				accepted, err = b.PostRecv(make([]verbs.RecvWR, chain), nil)
				require.Equal(t, i, accepted)
				require.ErrorIs(t, err, refusal.want)
				require.NoError(t, b.Reset())
			}
		})
	}
}

func TestNullFullQueue(t *testing.T) {
	n := newNull(t, nil)
	a, _ := n.connected(t)
	n.null.Hold()
	accepted, err := a.PostSend(sends(100), nil)
	require.ErrorIs(t, err, verbs.ErrQueueFull)
	require.Equal(t, 64, accepted)
	accepted, err = a.PostSend(sends(1), nil)
	require.ErrorIs(t, err, verbs.ErrQueueFull)
	require.Zero(t, accepted)
	n.null.Release()
	require.Len(t, n.take(t), 64)
	_, err = a.PostSend(sends(64), nil)
	require.NoError(t, err)
	require.Len(t, n.take(t), 64)
}

func TestNullUnsignaledNeverFillTheQueue(t *testing.T) {
	n := newNull(t, nil)
	a, _ := n.connected(t)
	quiet := make([]verbs.SendWR, 63)
	for i := range quiet {
		quiet[i].Opcode = verbs.OpSend
	}
	_, err := a.PostSend(quiet, nil)
	require.NoError(t, err)
	accepted, err := a.PostSend(quiet[:1], nil)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "the queue of 64 would be full of requests without SendSignaled")
	require.Zero(t, accepted)
	_, err = a.PostSend(sends(1), nil)
	require.NoError(t, err)
	require.Len(t, n.take(t), 1)
	_, err = a.PostSend(quiet, nil)
	require.NoError(t, err)
}

// Every status makes the queue pair fail, with the first as the cause; what is behind it is flushed, though this driver
// does nothing more by itself; and no post is taken.
func TestNullEveryCompletionStatus(t *testing.T) {
	for status := verbs.WCLocalLength; status <= verbs.WCTagMatchingRendezvous; status++ {
		if status == verbs.WCFlushed {
			continue
		}
		t.Run(status.Error(), func(t *testing.T) {
			n := newNull(t, nil)
			a, b := n.connected(t)
			n.null.FailSend(2, uint32(status), 0x81)
			_, err := a.PostRecv([]verbs.RecvWR{{ID: 99}}, nil)
			require.NoError(t, err)
			_, err = a.PostSend(sends(5), nil)
			require.NoError(t, err)
			wcs := n.take(t)
			require.NoError(t, wcs[0].Err())
			require.NoError(t, wcs[1].Err())
			require.Equal(t, &verbs.CompletionError{ID: 2, QPN: a.Num(), Status: status, VendorErr: 0x81}, wcs[2].Err())
			for _, wc := range append(wcs[3:], n.take(t)...) {
				require.ErrorIs(t, wc.Err(), verbs.ErrFlushed)
			}
			require.ErrorIs(t, a.Err(), status)
			_, err = a.PostSend(sends(1), nil)
			require.ErrorIs(t, err, status)
			require.NotErrorIs(t, err, verbs.ErrFlushed)
			_, err = a.PostRecv([]verbs.RecvWR{{}}, nil)
			require.ErrorIs(t, err, status)
			_, err = b.PostSend(sends(1), nil)
			require.NoError(t, err, "another queue pair of the same completion queue goes on")
			require.NoError(t, b.Err())
		})
	}
}

// Who moves a queue pair to the error state gets everything flushed, and that is no failure.
func TestNullFlushIsNotACause(t *testing.T) {
	n := newNull(t, nil)
	a, _ := n.connected(t)
	n.null.Hold()
	_, err := a.PostSend(sends(3), nil)
	require.NoError(t, err)
	require.NoError(t, a.SetError())
	for _, wc := range n.take(t) {
		require.ErrorIs(t, wc.Err(), verbs.ErrFlushed)
	}
	require.NoError(t, a.Err())
}

func TestNullCompletionsCarryEverything(t *testing.T) {
	n := newNull(t, nil)
	a, _ := n.connected(t)
	require.ErrorIs(t, n.null.Complete(n.cq.Raw(), cgotest.Completion{QPN: a.Num(), Receive: true}), syscall.ENOENT)
	_, err := a.PostRecv([]verbs.RecvWR{{ID: 7}}, nil)
	require.NoError(t, err)
	require.NoError(t, n.null.Complete(n.cq.Raw(), cgotest.Completion{
		Opcode: uint32(verbs.WCRecv), ByteLen: 100, Imm: 0x01020304, QPN: a.Num(), SrcQPN: 5, PKeyIndex: 6, SLID: 8, SL: 9,
		DLIDPathBits: 10, Flags: uint32(verbs.WCGRH | verbs.WCWithImm), Receive: true,
	}))
	require.Equal(t, []verbs.WC{{
		ID: 7, Opcode: verbs.WCRecv, ByteLen: 100, Imm: 0x01020304, QPN: a.Num(), SrcQPN: 5, PKeyIndex: 6, SLID: 8, SL: 9,
		DLIDPathBits: 10, Flags: verbs.WCGRH | verbs.WCWithImm,
	}}, n.take(t))
}

func TestNullPollFails(t *testing.T) {
	n := newNull(t, nil)
	for _, rc := range []int{-1, -2, -int(syscall.EINVAL)} { // mlx5's −2 is no errno
		n.null.Fail("poll_cq", 0, rc, 0)
		_, err := n.cq.Poll(make([]verbs.WC, 1))
		require.ErrorIs(t, err, syscall.EIO)
	}
}

// TestNullPollSpinWhile looks for as long as nobody calls.
func TestNullPollSpinWhile(t *testing.T) {
	n := newNull(t, nil)
	var word atomic.Uint64
	word.Store(5)
	polls := func(was uint64) int {
		before := n.null.Calls("poll_cq")
		k, err := n.cq.PollSpinWhile(make([]verbs.WC, 1), verbs.MaxSpin, &word, was)
		require.NoError(t, err)
		require.Zero(t, k)
		return n.null.Calls("poll_cq") - before
	}
	called := polls(4)
	require.LessOrEqual(t, called, 9, "a look, and eight before it looks at the word")
	most := called
	for end := time.Now().Add(rdmatest.Deadline(10 * time.Second)); most <= called && time.Now().Before(end); {
		most = polls(5) // unless its time is over at once, since the processor was taken away
	}
	require.Greater(t, most, called)
	k, err := n.cq.PollSpinWhile(nil, verbs.MaxSpin, &word, 5)
	require.NoError(t, err)
	require.Zero(t, k)
	a, _ := n.connected(t)
	_, err = a.PostSend(sends(1), nil)
	require.NoError(t, err)
	k, err = n.cq.PollSpinWhile(make([]verbs.WC, 1), 0, &word, 4)
	require.NoError(t, err)
	require.Equal(t, 1, k, "it looks at least once")
	require.NoError(t, a.Close())
}

func TestNullInlineIsProbedDownward(t *testing.T) {
	n := newNull(t, func(null *cgotest.Null) {
		limits := ampleLimits
		limits.MaxInline = 100
		null.SetLimits(limits)
	})
	qp, err := n.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: 4, MaxInline: 512})
	require.NoError(t, err)
	closeAtEnd(t, qp)
	require.Equal(t, 64, qp.Caps().MaxInline)
	require.Equal(t, 4, n.null.Calls("ibv_create_qp"))
}

// TestNullQueuesThatAreNotThere: a queue pair without one of its queues says so. A driver would call the queue full, and who
// polls and posts again then does so for ever.
func TestNullQueuesThatAreNotThere(t *testing.T) {
	n := newNull(t, nil)
	srq, err := n.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 4})
	require.NoError(t, err)
	closeAtEnd(t, srq)
	create := func(cfg verbs.QPConfig) *verbs.QP {
		cfg.Type, cfg.SendCQ, cfg.RecvCQ = verbs.RC, n.cq, n.cq
		qp, err := n.pd.CreateQP(cfg)
		require.NoError(t, err)
		closeAtEnd(t, qp)
		return qp
	}
	accepted, err := create(verbs.QPConfig{MaxSendWR: 4, SRQ: srq}).PostRecv(make([]verbs.RecvWR, 2), nil)
	require.Zero(t, accepted)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "work request 0 of 2: the queue pair has no receive queue of its own")
	accepted, err = create(verbs.QPConfig{MaxSendWR: 4}).PostRecv(make([]verbs.RecvWR, 2), nil)
	require.Zero(t, accepted)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "the queue pair has no receive queue of its own")
	accepted, err = create(verbs.QPConfig{MaxRecvWR: 4}).PostSend(sends(2), nil)
	require.Zero(t, accepted)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "work request 0 of 2: the queue pair has no send queue")
}
