//go:build linux && cgo && !noverbs

package verbs_test

import (
	"errors"
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

// withTimestamps is a null device whose completions have times.
func withTimestamps(null *cgotest.Null) {
	limits := ampleLimits
	limits.CompletionTimestamps = math.MaxUint64
	null.SetLimits(limits)
}

// timed is a completion queue that keeps times, and a queue pair on it.
func (n *nullNode) timed(t *testing.T, timestamps verbs.CQTimestamps) (*verbs.CQ, *verbs.QP) {
	t.Helper()
	cq, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 256, Events: true, Timestamps: timestamps})
	require.NoError(t, err)
	closeAtEnd(t, cq)
	require.Equal(t, timestamps, cq.Timestamps())
	qp, err := n.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSendWR: 64, MaxRecvWR: 64})
	require.NoError(t, err)
	closeAtEnd(t, qp)
	end, err := qp.Init(n.gid, remoteAccess)
	require.NoError(t, err)
	require.NoError(t, qp.Connect(end, verbs.ConnectConfig{}))
	return cq, qp
}

func TestPollTimes(t *testing.T) {
	n := newNull(t, withTimestamps)
	for name, tc := range map[string]struct {
		timestamps verbs.CQTimestamps
		want       verbs.WCTime
	}{
		"ticks":      {verbs.TimestampTicks, verbs.WCTime{Ticks: 5000}},
		"wall clock": {verbs.TimestampWall, verbs.WCTime{WallNS: 1_700_000_000_000_000_007}},
		"both":       {verbs.TimestampTicks | verbs.TimestampWall, verbs.WCTime{Ticks: 5000, WallNS: 1_700_000_000_000_000_007}},
	} {
		t.Run(name, func(t *testing.T) {
			cq, qp := n.timed(t, tc.timestamps)
			n.null.SetClock(5000, 1000)
			n.null.SetWallClock(1_700_000_000_000_000_007)
			_, err := qp.PostSend(sends(1), nil)
			require.NoError(t, err)
			n.null.SetClock(6000, 1000) // the completion's time, not the poll's
			n.null.SetWallClock(0)
			want := verbs.WC{
				Opcode: verbs.WCRecvWriteImm, ByteLen: 77, Imm: 0x01020304, QPN: qp.Num(), SrcQPN: 5, Flags: verbs.WCWithImm,
				SLID: 6, SL: 7, DLIDPathBits: 3,
			}
			require.NoError(t, n.null.Complete(cq.Raw(), cgotest.Completion{
				Opcode: uint32(want.Opcode), ByteLen: want.ByteLen, Imm: want.Imm, QPN: want.QPN, SrcQPN: want.SrcQPN,
				Flags: uint32(want.Flags), SLID: want.SLID, SL: want.SL, DLIDPathBits: want.DLIDPathBits,
			}))
			var wcs [8]verbs.WC
			var times [8]verbs.WCTime
			starts, ends := n.null.Calls("start_poll"), n.null.Calls("end_poll")
			got, err := cq.PollTimes(wcs[:], times[:])
			require.NoError(t, err)
			require.Equal(t, 2, got)
			require.Equal(t, tc.want, times[0])
			if tc.timestamps&verbs.TimestampWall != 0 {
				require.Equal(t, time.Unix(1_700_000_000, 7), times[0].Wall())
			}
			require.Equal(t, verbs.WC{QPN: qp.Num()}, wcs[0])
			require.Equal(t, want, wcs[1])
			require.Equal(t, starts+1, n.null.Calls("start_poll"), "one round for both")
			require.Equal(t, ends+1, n.null.Calls("end_poll"))
			got, err = cq.PollTimes(wcs[:], times[:])
			require.NoError(t, err)
			require.Zero(t, got)
			require.Equal(t, ends+1, n.null.Calls("end_poll"), "what was not started is not ended")
		})
	}
}

// A queue with timestamps is polled, waited for and drained as any other.
func TestOrdinaryPollsOfAQueueWithTimestamps(t *testing.T) {
	n := newNull(t, withTimestamps)
	cq, qp := n.timed(t, verbs.TimestampTicks)
	require.NoError(t, cq.Arm())
	_, err := qp.PostSend(sends(40), nil)
	require.NoError(t, err)
	require.NoError(t, cq.Wait(rdmatest.Context(t, 20*time.Second)))
	var wcs [64]verbs.WC
	for _, want := range []int{30, 10, 0} {
		got, err := cq.PollSpin(wcs[:30], verbs.MaxSpin)
		require.NoError(t, err)
		require.Equal(t, want, got)
		for i := range got {
			require.Equal(t, verbs.WC{ID: wcs[0].ID + uint64(i), QPN: qp.Num()}, wcs[i])
		}
	}
	got, err := cq.PollTimes(nil, nil)
	require.NoError(t, err)
	require.Zero(t, got)
}

// A completion with an error has no time, and fails its queue pair, which is moved to the error state when the poll has ended:
// during it the driver may hold the queue.
func TestFailureInAQueueWithTimestamps(t *testing.T) {
	n := newNull(t, withTimestamps)
	n.null.SetClock(5000, 1000)
	cq, qp := n.timed(t, verbs.TimestampTicks)
	n.null.FailSend(1, uint32(verbs.WCRemoteAccess), 0x88)
	_, err := qp.PostSend(sends(3), nil)
	require.NoError(t, err)
	var wcs [8]verbs.WC
	var times [8]verbs.WCTime
	got, err := cq.PollTimes(wcs[:], times[:])
	require.NoError(t, err)
	require.Equal(t, 2, got)
	require.Equal(t, verbs.WC{ID: 1, Status: verbs.WCRemoteAccess, VendorErr: 0x88, QPN: qp.Num()}, wcs[1])
	require.Equal(t, verbs.WCTime{}, times[1])
	require.ErrorIs(t, qp.Err(), verbs.WCRemoteAccess)
	got, err = cq.Poll(wcs[:])
	require.NoError(t, err)
	require.Equal(t, 1, got)
	require.Equal(t, verbs.WCFlushed, wcs[0].Status)
	require.NoError(t, n.null.Complete(cq.Raw(), cgotest.Completion{ // a driver leaves anything in the other fields
		ID: 9, Status: uint32(verbs.WCRemoteAccess), Opcode: 7, VendorErr: 3, ByteLen: 5, Imm: 6, QPN: qp.Num(), SrcQPN: 8,
		Flags: uint32(verbs.WCWithImm), SLID: 9, SL: 1, DLIDPathBits: 2,
	}))
	got, err = cq.Poll(wcs[:])
	require.NoError(t, err)
	require.Equal(t, 1, got)
	require.Equal(t, verbs.WC{ID: 9, Status: verbs.WCRemoteAccess, VendorErr: 3, QPN: qp.Num()}, wcs[0])
}

func TestTimestampsThatAreRefused(t *testing.T) {
	n := newNull(t, nil) // a device without
	_, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 4, Timestamps: verbs.TimestampTicks})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = n.ctx.CreateCQ(verbs.CQConfig{Depth: 4, Timestamps: 8})
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = n.cq.PollTimes(make([]verbs.WC, 1), make([]verbs.WCTime, 1))
	require.ErrorIs(t, err, syscall.EINVAL)
	timed := newNull(t, withTimestamps)
	cq, _ := timed.timed(t, verbs.TimestampTicks)
	_, err = cq.PollTimes(make([]verbs.WC, 2), make([]verbs.WCTime, 1))
	require.ErrorIs(t, err, syscall.EINVAL)
	timed.null.Fail("start_poll", 0, int(syscall.EIO), 0)
	_, err = cq.PollTimes(make([]verbs.WC, 2), make([]verbs.WCTime, 2))
	require.ErrorIs(t, err, syscall.EIO)
	timed.null.Fail("create_cq_ex", 0, 0, syscall.ENOSPC)
	_, err = timed.ctx.CreateCQ(verbs.CQConfig{Depth: 4, Timestamps: verbs.TimestampTicks})
	require.ErrorIs(t, err, syscall.ENOSPC)
	timed.null.Report(uint32(verbs.EventCQErr), 0, cq.Raw())
	timed.nextEvent(t)
	_, err = cq.PollTimes(make([]verbs.WC, 2), make([]verbs.WCTime, 2))
	require.ErrorIs(t, err, verbs.ErrCQFailed)
}

// Soft-RoCE's provider is known to unlock a queue twice after such a poll, until it was mended.
func TestSoftRoCEBeforeItsMendingIsRefused(t *testing.T) {
	for _, vendor := range []uint32{0xffffff, 0} {
		n := newNull(t, func(null *cgotest.Null) {
			withTimestamps(null)
			null.SetVendor(vendor)
		})
		cq, err := n.ctx.CreateCQ(verbs.CQConfig{Depth: 4, Timestamps: verbs.TimestampTicks})
		if verbs.LibraryRelease() >= 61 {
			require.NoError(t, err)
			require.NoError(t, cq.Close())
			continue
		}
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, "defective before rdma-core 61")
		require.Zero(t, n.null.Calls("create_cq_ex"))
	}
}

func TestLibraryRelease(t *testing.T) {
	for file, want := range map[string]int{
		"libibverbs.so.1.14.44.0": 44, "libibverbs.so.1.15.64.1": 64, "libibverbs.so.1": 0, "libibverbs.so": 0, "": 0,
		"libibverbs.so.1.14.x.0": 0,
	} {
		require.Equal(t, want, verbs.ReleaseOf(file), file)
	}
	require.Positive(t, verbs.LibraryRelease(), "of the library in use")
}

// The key that a send took back is in host order, other than an immediate, and stands in its place.
func TestKeysThatWereTakenBack(t *testing.T) {
	n := newNull(t, withTimestamps)
	extended, qp := n.timed(t, verbs.TimestampTicks)
	for _, cq := range []*verbs.CQ{n.cq, extended} {
		for _, flag := range []verbs.WCFlags{verbs.WCWithInv, verbs.WCWithImm} {
			require.NoError(t, n.null.Complete(cq.Raw(), cgotest.Completion{
				Opcode: uint32(verbs.WCRecv), Imm: 0x01020304, QPN: qp.Num(), Flags: uint32(flag),
			}))
			var wcs [2]verbs.WC
			got, err := cq.Poll(wcs[:])
			require.NoError(t, err)
			require.Equal(t, 1, got)
			require.Equal(t, verbs.WC{Opcode: verbs.WCRecv, Imm: 0x01020304, QPN: qp.Num(), Flags: flag}, wcs[0])
		}
	}
}
