//go:build linux && cgo && !noverbs && !nofabric

package fabricrail_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/rail"
)

func init() { children["stuck survivor"] = stuckSurvivor }

// sticky is an opener whose rail gets stuck when it is first asked to write.
type sticky struct{ fabricrail.Config }

func (s sticky) Open(i rail.Incarnation) (rail.Rail, error) {
	r, err := s.Config.Open(i)
	if err == nil {
		r = sticking{r.(*fabricrail.Rail)}
	}
	return r, err
}

type sticking struct{ *fabricrail.Rail }

func (s sticking) Post(peer rail.PeerID, ops []rail.Op) (int, error) {
	cgotest.StickCQ(s.Queue().Raw())
	return s.Rail.Post(peer, ops)
}

// stuckSurvivor is a process with an engine that gets stuck. It prints what its users see.
func stuckSurvivor([]string) int {
	if err := surviveStuck(); err != nil {
		fmt.Println(err)
		return 1
	}
	os.Exit(0) // past the look at what is left open: what is stuck is
	return 0
}

func surviveStuck() error {
	cfg := local("shm")
	cfg.CrossingTimeout = 300 * time.Millisecond
	a, err := transferengine.Open(transferengine.Config{Rails: []rail.Opener{sticky{cfg}}})
	if err != nil {
		return err
	}
	b, err := transferengine.Open(transferengine.Config{Rails: []rail.Opener{local("shm")}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	source, err := a.Register(make([]byte, 64), 0)
	if err != nil {
		return err
	}
	dest, err := b.Register(make([]byte, 64), transferengine.RemoteWrite)
	if err != nil {
		return err
	}
	toB, err := a.Connect(ctx, b.Address())
	if err != nil {
		return err
	}
	d := dest.Descriptor()
	var t transferengine.Transfer
	if err := a.Write(&t, transferengine.Write{Peer: toB, Source: source, Dest: &d, Length: 64}); err != nil {
		return err
	}
	_ = t.Wait(ctx) // it may have completed before
	if err := a.Counter(1).Wait(ctx, 1, toB); !errors.Is(err, rail.ErrPeerGone) {
		return fmt.Errorf("the wait ended with %w", err)
	} else {
		fmt.Println(err)
	}
	start := time.Now()
	if err := errors.Join(source.Close(), a.Close()); err != nil {
		return err
	}
	fmt.Println("threads", a.Stats().StuckThreads, "closed in time", time.Since(start) < 5*time.Second)
	return nil
}

// TestStuckCall: a call that never returns costs the engine its peers, and nobody waits for it.
func TestStuckCall(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	child := rdmatest.StartChild(t, "stuck survivor")
	line, err := child.ReadLine(patience)
	require.NoError(t, err)
	require.Contains(t, line, "a process that was killed left a lock in shared memory")
	line, err = child.ReadLine(patience)
	require.NoError(t, err)
	require.Equal(t, "threads 1 closed in time true", line)
	require.NoError(t, child.Wait(patience))
}
