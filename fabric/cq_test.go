package fabric_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
)

func TestTruncatedMessageIsAnError(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) { truncated(t, provider, setting{}) })
}

func truncated(t *testing.T, provider string, s setting) {
	a, b := pair(t, provider, s)
	from, to := a.buffer(64), b.buffer(64)
	rounds := uint64(1) // it costs ofi_rxm of 1.17 the connection
	if provider == "shm" {
		rounds = 20
	}
	for round := range rounds {
		b.recv(100+round, []fabric.Seg{to.Seg(0, 16)})
		a.post(a.ep.Send, []fabric.Op{{ID: 1, NumSeg: 1}}, []fabric.Seg{from.Seg(0, 40)}, b)
		c := b.take(func(c *fabric.Completion) bool { return c.Failed() }, a)
		require.Equal(t, 100+round, c.ID)
		var failed *fabric.CompletionError
		require.ErrorAs(t, b.cq.Err(&c), &failed)
		require.ErrorIs(t, failed, fabric.ETrunc)
		require.Contains(t, []uint64{0, 24}, failed.Overflow, "not every provider tells")
		require.NotEmpty(t, failed.Text)
		a.complete(1, b)
	}
}

func TestFailureIsTextlessOnceManyHaveFollowed(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	a, b := pair(t, "shm", setting{})
	from, to := a.buffer(64), b.buffer(64)
	var first fabric.Completion
	for round := range uint64(17) {
		b.recv(100+round, []fabric.Seg{to.Seg(0, 16)})
		a.post(a.ep.Send, []fabric.Op{{ID: 1, NumSeg: 1}}, []fabric.Seg{from.Seg(0, 40)}, b)
		c := b.take(func(c *fabric.Completion) bool { return c.Failed() }, a)
		if round == 0 {
			first = c
		}
		a.complete(1, b)
	}
	require.ErrorIs(t, b.cq.Err(&first), fabric.ETrunc)
	var failed *fabric.CompletionError
	require.ErrorAs(t, b.cq.Err(&first), &failed)
	require.Equal(t, "no longer known", failed.Text)
}

func TestErrnosOfLibfabricHaveTheirText(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	require.Equal(t, "Truncation error", fabric.ETrunc.Error())
	require.EqualError(t, fabric.ENoKey, "Required key not available")
	require.EqualError(t, &fabric.Error{Op: "fi_cq_read", Err: fabric.EAvail}, "fi_cq_read: Error available")
}

// TestLimitOnLockedMemoryIsNamed where it can be the cause: with a NIC's provider, and where it binds the process.
func TestLimitOnLockedMemoryIsNamed(t *testing.T) {
	no := &fabric.Error{Op: "fi_mr_reg", Err: syscall.ENOMEM}
	for _, provider := range []string{"verbs", "verbs;ofi_rxm", "efa", "psm3"} {
		err := fabric.ExplainMemlock(no, provider, 1<<20+1, 64<<10, true)
		require.ErrorIs(t, err, fabric.ErrMemlock)
		require.ErrorIs(t, err, syscall.ENOMEM)
		require.ErrorContains(t, err, "of 64 KiB, needed are 1025 KiB")
		require.ErrorContains(t, err, "ulimit -l unlimited")
		require.Equal(t, error(no), fabric.ExplainMemlock(no, provider, 1, 0, false))
		require.ErrorContains(t, fabric.ExplainMemlock(no, provider, 0, 64<<10, true), "of 64 KiB: raise it")
	}
	for _, provider := range []string{"tcp", "tcp;ofi_rxm", "shm", "sockets", "udp;ofi_rxd"} {
		require.Equal(t, error(no), fabric.ExplainMemlock(no, provider, 1, 1, true), provider)
	}
	full := &fabric.Error{Op: "fi_mr_reg", Err: syscall.ENOSPC}
	require.Equal(t, error(full), fabric.ExplainMemlock(full, "verbs", 1, 1, true))
}

// TestWhatAProviderLacksIsErrUnsupported, in whatever way it says so.
func TestWhatAProviderLacksIsErrUnsupported(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	for _, errno := range []syscall.Errno{syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.EPROTONOSUPPORT, syscall.ENOPROTOOPT} {
		require.ErrorIs(t, &fabric.Error{Op: "fi_mr_regattr", Err: errno}, errors.ErrUnsupported)
	}
	x := open(t, "tcp", setting{})
	require.ErrorIs(t, second(x.ep.SizeOption(9999)), errors.ErrUnsupported)
}

func TestCancelledReceiveCompletesWithECANCELED(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) { cancelled(t, provider, setting{}) })
}

func cancelled(t *testing.T, provider string, s setting) {
	x := open(t, provider, s)
	b := x.buffer(64)
	x.recv(77, b.all())
	require.NoError(t, x.ep.Cancel(77))
	c := x.take(func(c *fabric.Completion) bool { return c.ID == 77 })
	require.ErrorIs(t, x.cq.Err(&c), syscall.ECANCELED)
}

// A provider whose progress is manual moves also where there is no room for completions.
func TestPollWithoutRoomProgresses(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		a, b := pair(t, provider, setting{})
		from, to := a.buffer(1<<20), b.buffer(1<<20)
		a.post(a.ep.Write, []fabric.Op{to.at(fabric.Op{ID: 1, NumSeg: 1, Flags: fabric.FlagDeliveryComplete}, 0)}, from.all(), b)
		ctx := rdmatest.Context(t, patience)
		for len(a.done) == 0 && ctx.Err() == nil {
			a.poll()
			n, err := b.cq.Poll(nil)
			require.NoError(t, err)
			require.Zero(t, n)
		}
		a.complete(1)
	})
}

// eachWait runs a test with each way in which a provider's queues can be waited for.
func eachWait(t *testing.T, test func(t *testing.T, provider string, wait fabric.WaitObject)) {
	eachRDM(t, func(t *testing.T, provider string) {
		t.Run("unspec", func(t *testing.T) { test(t, provider, fabric.WaitUnspec) })
		if provider != "shm" {
			t.Run("descriptor", func(t *testing.T) { test(t, provider, fabric.WaitFD) })
		}
	})
}

func TestWaitWakesForWhatCompletes(t *testing.T) {
	eachWait(t, func(t *testing.T, provider string, wait fabric.WaitObject) {
		a, b := pair(t, provider, setting{cq: fabric.CQConfig{Wait: wait}})
		from, to := a.buffer(4096), b.buffer(4096)
		ctx := rdmatest.Context(t, patience)
		got := make(chan error)
		const rounds = 200
		go func() {
			var completions [4]fabric.Completion
			for seen := 0; seen < rounds; {
				n, err := b.cq.Wait(ctx, completions[:])
				for i := range completions[:n] {
					err = errors.Join(err, b.cq.Err(&completions[i]))
				}
				if err != nil {
					got <- err
					return
				}
				seen += n
			}
			got <- nil
		}()
		for round := range uint64(rounds) {
			a.post(a.ep.Write, []fabric.Op{to.at(fabric.Op{ID: 1, NumSeg: 1, Flags: fabric.FlagRemoteCQData, Data: round}, 0)}, from.all())
			var completions [4]fabric.Completion
			n, err := a.cq.Wait(ctx, completions[:])
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		for waiting := true; waiting; { // tcp's initiator may have to move on once more
			select {
			case err := <-got:
				require.NoError(t, err)
				waiting = false
			default:
				a.poll()
			}
		}
	})
}

func TestWaitEndsWithItsContextAndWithTheQueue(t *testing.T) {
	eachWait(t, func(t *testing.T, provider string, object fabric.WaitObject) {
		x := open(t, provider, setting{})
		cq, err := x.domain.OpenCQ(fabric.CQConfig{Wait: object})
		require.NoError(t, err)
		completions := make([]fabric.Completion, 1)
		cause := fmt.Errorf("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		wait := func(ctx context.Context) { ended <- second(cq.Wait(ctx, completions)) }
		go wait(ctx)
		cancel(cause)
		require.ErrorIs(t, receive(t, ended), cause)
		ctx, cancelTimeout := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancelTimeout()
		require.ErrorIs(t, second(cq.Wait(ctx, completions)), context.DeadlineExceeded)
		go wait(t.Context())
		require.NoError(t, cq.Signal())
		require.NoError(t, cq.Close())
		require.ErrorIs(t, receive(t, ended), net.ErrClosed)
	})
}

func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

// Who sent or wrote is told as the address vector has it, which the provider looks up.
func TestSourceIsWhoItIsInTheAddressVector(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	for _, provider := range []string{"shm", sockets} {
		for _, tagged := range []bool{false, true} { // completions of both layouts
			t.Run(fmt.Sprintf("%s/tagged=%v", provider, tagged), func(t *testing.T) { sources(t, provider, tagged) })
		}
	}
}

func sources(t *testing.T, provider string, tagged bool) {
	s := setting{cq: fabric.CQConfig{Tagged: tagged, Wait: fabric.WaitUnspec}, hints: func(h *fabric.Hints) {
		h.Provider, h.Caps = provider, h.Caps|fabric.CapSource
	}}
	target := open(t, provider, s)
	to := target.buffer(64)
	target.meet(target.name) // so that numbers here are not those at the peers
	var peers [4]*side
	for i := range peers {
		peers[i] = open(t, provider, s)
	}
	var is [len(peers)]fabric.Addr
	for _, i := range []int{2, 0, 3, 1} {
		is[i] = target.meet(peers[i].name)
		require.Equal(t, fabric.Addr(0), peers[i].meet(target.name))
	}
	for round := range uint64(3) {
		for i, peer := range peers {
			from := peer.buffer(8)
			target.recv(1, to.all())
			peer.post(peer.ep.Send, []fabric.Op{{ID: 2, NumSeg: 1}}, from.all(), target)
			require.Equal(t, is[i], target.message(peer).Source, "a message of %d in round %d", i, round)
			peer.complete(2, target)
			op := to.at(fabric.Op{ID: 3, NumSeg: 1, Flags: fabric.FlagRemoteCQData, Data: round}, 0)
			peer.post(peer.ep.Write, []fabric.Op{op}, from.all(), target)
			require.Equal(t, is[i], target.arrival(peer).Source, "a write of %d in round %d", i, round)
			peer.complete(3, target)
		}
	}
	// One that waits is told too.
	from := peers[2].buffer(8)
	op := to.at(fabric.Op{ID: 3, NumSeg: 1, Flags: fabric.FlagRemoteCQData, Data: 5}, 0)
	peers[2].post(peers[2].ep.Write, []fabric.Op{op}, from.all())
	completions := make([]fabric.Completion, 2)
	n, err := target.cq.Wait(rdmatest.Context(t, patience), completions)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, is[2], completions[0].Source)
	peers[2].complete(3, target)
	// Whoever is not in the address vector is nobody.
	stranger := open(t, provider, s)
	stranger.meet(target.name)
	target.recv(1, to.all())
	stranger.post(stranger.ep.Send, []fabric.Op{{ID: 2, NumSeg: 1}}, stranger.buffer(8).all(), target)
	nobody := []fabric.Addr{fabric.AddrUnspec}
	if provider == "shm" {
		nobody = append(nobody, 0) // what 1.17 says
	}
	require.Contains(t, nobody, target.message(stranger).Source)
	require.NoError(t, target.av.Remove(is[3]))
	target.recv(1, to.all())
	peers[3].post(peers[3].ep.Send, []fabric.Op{{ID: 2, NumSeg: 1}}, peers[3].buffer(8).all(), target)
	require.Contains(t, nobody, target.message(peers[3]).Source)
}

func TestWaitObjectThatAProviderLacksIsAnError(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	x := open(t, "shm", setting{})
	_, err := x.domain.OpenCQ(fabric.CQConfig{Wait: fabric.WaitFD})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "shm")
}

// TestACompletionErrorSaysNoMoreThanItKnows: no brackets without flags, no provider error 0.
func TestACompletionErrorSaysNoMoreThanItKnows(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric) // libfabric names the flags
	e := fabric.CompletionError{ID: 7, Reason: syscall.ECANCELED}
	require.EqualError(t, &e, "operation 7: operation canceled")
	e.Flags, e.ProvErrno, e.Text = fabric.FlagInject, 107, "not connected"
	require.EqualError(t, &e, "operation 7 (FI_INJECT): operation canceled (provider error 107: not connected)")
}
