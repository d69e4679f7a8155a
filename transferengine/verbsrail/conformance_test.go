package verbsrail_test

import (
	"testing"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/railtest"
	"github.com/weftrdma/weft/transferengine/verbsrail"
)

// conformancePeer is the part that peers play which are killed.
var conformancePeer = railtest.Peer(func(args []string) rail.Opener { return verbsrail.Config{Device: args[0]} })

func TestConformance(t *testing.T) {
	rdmatest.Require(t, rdmatest.Verbs)
	suite := railtest.Suite{Kills: 10, Connects: 100, Network: func(t testing.TB) railtest.Network {
		device := rdmatest.Device(t)
		return railtest.Network{
			Opener: func() rail.Opener { return verbsrail.Config{Device: device} },
			Child:  "conformance peer", ChildArgs: []string{device},
		}
	}}
	if rdmatest.Soak() {
		suite.Kills, suite.Connects = 100, 1000
	}
	railtest.Run(t, suite)
}
