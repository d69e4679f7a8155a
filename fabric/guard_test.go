//go:build linux && cgo && !nofabric && !noverbs

package fabric_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/internal/rdmatest"
)

func init() { children["broken off"] = playBrokenOff }

// lastSignal is SIGRTMAX, by which calls are broken off.
const lastSignal = syscall.Signal(64)

// playBrokenOff has calls on a domain get stuck and broken off, and prints what comes of them and of the process.
func playBrokenOff([]string) int {
	if err := breakOff(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("well")
	os.Exit(0) // past the look at what is left open
	return 0
}

func breakOff() error {
	foreign := make(chan os.Signal, 1)
	signal.Notify(foreign, lastSignal)
	for _, which := range []fabric.Guarded{fabric.GuardCall, fabric.GuardLook} {
		if err := breakOffOne(which); err != nil {
			return fmt.Errorf("call %d: %w", which, err)
		}
	}
	// The signal is whoever's it was.
	if err := syscall.Kill(os.Getpid(), lastSignal); err != nil {
		return err
	}
	select {
	case <-foreign:
		return nil
	case <-time.After(patience):
		return errors.New("the program's own signal did not come")
	}
}

func breakOffOne(which fabric.Guarded) error {
	var p process
	if err := p.open("shm"); err != nil {
		return err
	}
	guard, err := p.domain.Guard()
	if err != nil {
		return err
	}
	cgotest.StickCQ(p.cq.Raw())
	ended := make(chan error, 1)
	go func() {
		if which == fabric.GuardCall {
			ended <- second(p.cq.Poll(make([]fabric.Completion, 1)))
		} else {
			ended <- p.cq.Await(context.Background(), time.Millisecond, nil)
		}
	}()
	// It is in the lock some time after it has begun.
	for end := time.Now().Add(patience); guard.Current(which) == 0 || !guard.Break(which, guard.Current(which)); {
		if time.Now().After(end) {
			return errors.New("it goes on")
		}
	}
	select {
	case err = <-ended:
	case <-time.After(patience):
		return errors.New("it does not return")
	}
	if !errors.Is(err, fabric.ErrBroken) || !guard.Broken() || guard.Current(which) != 0 {
		return fmt.Errorf("it ended with %w", err)
	}
	if _, err := p.ep.Recv([]fabric.Op{{ID: 1, Peer: fabric.AddrUnspec}}, nil); !errors.Is(err, fabric.ErrBroken) {
		return fmt.Errorf("a later post ended with %w", err)
	}
	if _, err := p.av.Insert([]byte("fi_shm://nobody")); !errors.Is(err, fabric.ErrBroken) {
		return fmt.Errorf("a later insertion ended with %w", err)
	}
	return nil
}

// TestCallThatDoesNotReturnIsBrokenOff: whoever made it goes on, and so does the process.
func TestCallThatDoesNotReturnIsBrokenOff(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	child := rdmatest.StartChild(t, "broken off")
	line, err := child.ReadLine(patience)
	require.NoError(t, err, child.Stderr())
	require.Equal(t, "well", line)
	require.NoError(t, child.Wait(patience))
}

// TestAwait ends with a completion, which stays in the queue, and with the context.
func TestAwait(t *testing.T) {
	eachRDM(t, func(t *testing.T, provider string) {
		for _, object := range []fabric.WaitObject{fabric.WaitNone, fabric.WaitFD} {
			if object == fabric.WaitFD && provider == "shm" {
				continue // has none
			}
			t.Run(fmt.Sprintf("object=%d", object), func(t *testing.T) { awaits(t, provider, object) })
		}
	})
}

func awaits(t *testing.T, provider string, object fabric.WaitObject) {
	a, b := pair(t, provider, setting{cq: fabric.CQConfig{Wait: object}})
	from, to := a.buffer(8), b.buffer(8)
	ended := make(chan error, 1)
	await := func(ctx context.Context) { ended <- b.cq.Await(ctx, time.Millisecond, nil) }
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go await(ctx)
	cancel(cause)
	require.ErrorIs(t, receive(t, ended), cause)

	a.post(a.ep.Write, []fabric.Op{to.at(fabric.Op{ID: 7, NumSeg: 1, Flags: fabric.FlagRemoteCQData, Data: 5}, 0)}, from.all(), b)
	go await(t.Context())
	for done := false; !done; { // the writer's side may have to progress
		_, err := a.cq.Poll(nil)
		require.NoError(t, err)
		select {
		case err := <-ended:
			require.NoError(t, err)
			done = true
		default:
		}
	}
	require.Equal(t, uint64(5), b.arrival(a).Data)
	a.complete(7, b)

	go await(rdmatest.Context(t, patience))
	for done := false; !done; { // it ends once somebody else looks, though nothing has come
		_, err := b.cq.Poll(nil)
		require.NoError(t, err)
		select {
		case err := <-ended:
			require.NoError(t, err)
			done = true
		default:
		}
	}
	require.ErrorIs(t, b.cq.Await(t.Context(), 0, nil), syscall.EINVAL)
}
