package simrail_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/railtest"
	"github.com/weftrdma/weft/transferengine/simrail"
)

func TestConformance(t *testing.T) {
	kills, connects := 10, 100
	if rdmatest.Soak() {
		kills, connects = 100, 1000
	}
	for name, config := range map[string]simrail.Config{
		"at once":       {},
		"unordered":     {Delay: time.Millisecond, PartialPosts: true},
		"ordered":       {Delay: time.Millisecond, Ordered: true, Depth: 32, MaxBatch: 16},
		"target driven": {Delay: 100 * time.Microsecond, TargetDriven: true, Immediates: 16, NoRecall: true},
		"no sources":    {Delay: time.Millisecond, NoImmSource: true, MaxLength: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			railtest.Run(t, railtest.Suite{Virtual: true, Kills: kills, Connects: connects, Compute: time.Second,
				Network: func(t testing.TB) railtest.Network {
					config.Seed = rdmatest.Seed(t)
					network := simrail.NewNetwork(config)
					t.Cleanup(func() {
						if err := network.Err(); err != nil {
							t.Error(err)
						}
					})
					last := 0
					return railtest.Network{
						Seed:   config.Seed,
						Opener: func() rail.Opener { last++; return network.Rail(fmt.Sprintf("192.0.2.%d", last)) },
						Kill:   func(address []byte) { network.Kill(string(address)) },
						Again:  func(address []byte) rail.Opener { return network.Rail(string(address)) },
					}
				}})
		})
	}
}
