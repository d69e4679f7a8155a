package fabricrail_test

import (
	"os"
	"testing"
	"time"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/railtest"
)

// soakVar asks for ten times as much, 100 kills and 1,000 connects, and for longer times.
const soakVar = "WEFT_SOAK"

// conformancePeer is the part that peers play which are killed, over datagrams if an argument says so.
var conformancePeer = railtest.Peer(func(args []string) rail.Opener {
	if len(args) > 0 {
		return fabricrail.Datagrams(local())
	}
	return local()
})

func TestConformance(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	suite := railtest.Suite{Kills: 10, Connects: 100, Stop: time.Second, Compute: time.Second, Network: func(testing.TB) railtest.Network {
		return railtest.Network{Opener: func() rail.Opener { return local() }, Child: "conformance peer"}
	}}
	if os.Getenv(soakVar) != "" {
		suite.Kills, suite.Connects, suite.Stop, suite.Compute = 100, 1000, 0, 0 // and the suite's own times
	}
	railtest.Run(t, suite)
}

// TestConformanceOfDatagrams is of the transport that EFA has, with tcp in its place.
func TestConformanceOfDatagrams(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	cfg := fabricrail.Datagrams(local())
	cfg.Heartbeat = time.Second
	cfg.PeerTimeout = 3 * cfg.Heartbeat // a silent peer of a rail that is closed is not told
	railtest.Run(t, railtest.Suite{Kills: 2, Connects: 20, Stop: time.Second / 4, Compute: time.Second / 4,
		Network: func(testing.TB) railtest.Network {
			return railtest.Network{Opener: func() rail.Opener { return cfg }, Child: "conformance peer",
				ChildArgs: []string{"datagrams"}}
		},
		Without: map[string]string{"a silent peer is given up": "ofi_rxm goes on with operations that the rail has given up",
			"memory that is closed in the midst": "ofi_rxm goes on with operations that have begun"}})
}

// BenchmarkEngineIdle is what an engine takes that is connected and has nothing to do.
func BenchmarkEngineIdle(b *testing.B) {
	rdmatest.Require(b, rdmatest.Fabric)
	railtest.BenchmarkIdle(b, func() rail.Opener { return local() })
}
