package fabricrail_test

import (
	"os"
	"strings"
	"testing"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/railtest"
)

// soakVar asks for ten times as much: 100 kills and 1,000 connects.
const soakVar = "WEFT_SOAK"

// local is a provider on this machine.
func local(provider string) fabricrail.Config {
	cfg := fabricrail.Config{Provider: provider}
	if !strings.HasPrefix(provider, "verbs") && provider != "shm" {
		cfg.Node = "127.0.0.1"
	}
	return cfg
}

// conformancePeer is the part that peers play which are killed.
var conformancePeer = railtest.Peer(func(args []string) rail.Opener { return local(args[0]) })

// conformanceSurvivor is the part of whoever survives those: with shm one may be left with a thread that spins in C.
var conformanceSurvivor = railtest.Survivor(func(args []string) rail.Opener { return local(args[0]) })

func TestConformance(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	for _, provider := range providers {
		t.Run(provider, func(t *testing.T) {
			suite := railtest.Suite{Kills: 10, Connects: 100, Network: func(testing.TB) railtest.Network {
				return railtest.Network{
					Opener: func() rail.Opener { return local(provider) },
					Child:  "conformance peer", ChildArgs: []string{provider}, Survivor: "conformance survivor",
				}
			}}
			if os.Getenv(soakVar) != "" {
				suite.Kills, suite.Connects = 100, 1000
			}
			railtest.Run(t, suite)
		})
	}
}

// BenchmarkEngineIdle is what an engine takes that is connected and has nothing to do.
func BenchmarkEngineIdle(b *testing.B) {
	rdmatest.Require(b, rdmatest.Fabric)
	for _, provider := range providers {
		b.Run(provider, func(b *testing.B) {
			railtest.BenchmarkIdle(b, func() rail.Opener { return local(provider) })
		})
	}
}
