package fabricrail_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
)

// closers is a process with rails that are connected to one another, write, and are closed at the same time, each by the
// goroutine that has it.
func closers([]string) int {
	rounds := 4
	if os.Getenv(soakVar) != "" {
		rounds = 20
	}
	for round := range rounds {
		if err := closeAtOnce(4); err != nil {
			fmt.Println("round", round, err)
			return 1
		}
	}
	fmt.Println("closed")
	return 0
}

// closer is one of the rails.
type closer struct {
	rail   rail.Rail
	memory []byte
	keys   rail.Registration
	ups    []rail.PeerID
}

func openCloser(incarnation byte) (*closer, error) {
	r, err := local().Open(rail.Incarnation{incarnation})
	if err != nil {
		return nil, err
	}
	c := &closer{rail: r, memory: make([]byte, 4096)}
	c.keys, err = r.Register(c.memory, rail.RemoteWrite)
	return c, err
}

func (c *closer) turn() {
	var events [32]rail.Event
	n, _ := c.rail.Turn(time.Now(), events[:])
	for _, e := range events[:n] {
		if e.Kind == rail.PeerUp {
			c.ups = append(c.ups, e.Peer)
		}
	}
}

func closeAtOnce(n int) error {
	all := make([]*closer, n)
	for i := range all {
		var err error
		if all[i], err = openCloser(byte(i)); err != nil {
			return err
		}
		for _, other := range all[:i] {
			if _, err := all[i].rail.Connect(time.Now(), other.rail.Address(), time.Now().Add(rdmatest.Deadline(patience))); err != nil {
				return err
			}
		}
	}
	for end, up := time.Now().Add(rdmatest.Deadline(patience)), 0; up < n*(n-1); {
		up = 0
		for _, c := range all {
			c.turn()
			up += len(c.ups)
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d ends are up", up, n*(n-1))
		}
	}
	// Each goroutine writes to all others until it closes.
	var wait sync.WaitGroup
	errs := make([]error, n)
	start := make(chan struct{})
	for i, c := range all {
		wait.Go(func() {
			<-start
			for round := range 50 {
				for _, id := range c.ups {
					to := all[(i+1)%n]
					_, _ = c.rail.Post(id, []rail.Op{{Kind: rail.Write, Token: uint64(round), HasImm: true, LocalAddr: mem.Addr(c.memory),
						LocalKey: c.keys.LocalKey(), RemoteAddr: to.keys.RemoteAddr(), RemoteKey: to.keys.RemoteKey(), Length: 8}})
				}
				c.turn()
			}
			errs[i] = errors.Join(c.keys.Close(), c.rail.Close())
		})
	}
	close(start)
	wait.Wait()
	return errors.Join(errs...)
}

// TestRailsOfOneProcessCloseAtOnce: whoever closes first leaves nothing behind that another falls over.
func TestRailsOfOneProcessCloseAtOnce(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	child := rdmatest.StartChild(t, "closers")
	line, err := child.ReadLine(patience)
	require.NoError(t, err, child.Stderr())
	require.Equal(t, "closed", line)
	require.NoError(t, child.Wait(patience))
}

// caller is a process that calls a rail, and is gone before it answers: it closes its rail, or is killed.
func caller(args []string) int {
	address, _ := hex.DecodeString(args[0])
	r, err := local().Open(rail.Incarnation{3})
	if err == nil {
		_, err = r.Connect(time.Now(), address, time.Now().Add(rdmatest.Deadline(patience)))
	}
	if err == nil && args[1] == "forgets" {
		for end := time.Now().Add(rdmatest.Deadline(patience)); time.Now().Before(end); {
			var events [8]rail.Event
			r.Disconnect(time.Now(), 1)
			if n, _ := r.Turn(time.Now(), events[:]); n > 0 {
				break
			}
		}
	}
	if err == nil && args[1] != "is killed" {
		err = r.Close()
	}
	fmt.Println("called", err)
	if args[1] == "is killed" {
		select {}
	}
	return 0
}

// TestCallerThatIsGoneBeforeTheAnswer costs whoever was called nothing.
func TestCallerThatIsGoneBeforeTheAnswer(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	for _, how := range []string{"closes", "forgets", "is killed"} {
		child := rdmatest.StartChild(t, "called")
		address, err := child.ReadLine(patience)
		require.NoError(t, err)
		caller := rdmatest.StartChild(t, "caller", address, how)
		line, err := caller.ReadLine(patience)
		require.NoError(t, err)
		require.Equal(t, "called <nil>", line)
		caller.Kill()
		_ = caller.Wait(patience)
		require.NoError(t, child.WriteLine("", patience))
		line, err = child.ReadLine(patience)
		require.NoError(t, err, "%s: %s", how, child.Stderr())
		require.Equal(t, "well", line)
		require.NoError(t, child.Wait(patience))
	}
}

// called is a process with a rail that takes no turns until it is told to.
func called([]string) int {
	r, err := local().Open(rail.Incarnation{2})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("%x\n", r.Address())
	_, _ = fmt.Scanln()
	for range 1000 {
		var events [8]rail.Event
		r.Turn(time.Now(), events[:])
	}
	if err := r.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("well")
	return 0
}
