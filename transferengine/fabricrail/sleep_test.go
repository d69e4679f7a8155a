package fabricrail

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
)

// TestLaterArmShortensTheNap: a rail that fell asleep before it had peers wakes once somebody arms it with peers.
func TestLaterArmShortensTheNap(t *testing.T) {
	var s sleeper
	s.open(&datagram{})
	s.asked <- time.Hour
	ended := make(chan error, 1)
	go func() { ended <- s.wait(t.Context()) }()
	s.asked <- 2 * time.Hour // is taken once the first is, and asks for more
	s.arm(true)
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(rdmatest.Deadline(20 * time.Second)):
		require.FailNow(t, "it goes on sleeping")
	}
}
