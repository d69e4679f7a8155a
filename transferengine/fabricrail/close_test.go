package fabricrail_test

import (
	"errors"
	"fmt"
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
func closers(args []string) int {
	for round := range 20 {
		if err := closeAtOnce(args[0], 4); err != nil {
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

func openCloser(provider string, incarnation byte) (*closer, error) {
	r, err := local(provider).Open(rail.Incarnation{incarnation})
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

func closeAtOnce(provider string, n int) error {
	all := make([]*closer, n)
	for i := range all {
		var err error
		if all[i], err = openCloser(provider, byte(i)); err != nil {
			return err
		}
		for _, other := range all[:i] {
			if _, err := all[i].rail.Connect(time.Now(), other.rail.Address(), time.Now().Add(patience)); err != nil {
				return err
			}
		}
	}
	for end, up := time.Now().Add(patience), 0; up < n*(n-1); {
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
						LocalKey: c.keys.LocalKey(), RemoteAddr: mem.Addr(to.memory), RemoteKey: to.keys.RemoteKey(), Length: 8}})
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
	eachProvider(t, func(t *testing.T, provider string) {
		child := rdmatest.StartChild(t, "closers", provider)
		line, err := child.ReadLine(patience)
		require.NoError(t, err, child.Stderr())
		require.Equal(t, "closed", line)
		require.NoError(t, child.Wait(patience))
	})
}
