// Package softroce_test runs a rail over libfabric on an RDMA device, which the tests of fabricrail itself do without: over
// ofi_rxd, which makes reliable datagrams of the unreliable ones of any verbs device.
package softroce_test

import (
	"testing"
	"time"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/transferengine/fabricrail"
	"github.com/weftrdma/weft/transferengine/rail"
	"github.com/weftrdma/weft/transferengine/railtest"
)

const provider = "verbs;ofi_rxd"

func TestMain(m *testing.M) {
	opener := func([]string) rail.Opener { return fabricrail.Config{Provider: provider} }
	rdmatest.Main(m, rdmatest.Children{"peer": railtest.Peer(opener), "survivor": railtest.Survivor(opener)})
}

// TestConformance tries what ofi_rxd of libfabric 1.17 can do; docs/notes/fabric.md has the reasons.
func TestConformance(t *testing.T) {
	rdmatest.Require(t, rdmatest.Verbs)
	rdmatest.Require(t, rdmatest.Fabric)
	const dropped = "the target drops what its memory refuses, and the operation never completes"
	railtest.Run(t, railtest.Suite{
		Kills: 2, Connects: 20, Stop: time.Second,
		Without: map[string]string{
			"wrong keys": dropped, "out of bounds": dropped, "memory that was taken back": dropped,
			"a target that computes": "40 immediates take more than 50 ms: each is a datagram that is acknowledged",
		},
		Network: func(testing.TB) railtest.Network {
			return railtest.Network{
				Opener: func() rail.Opener { return fabricrail.Config{Provider: provider} }, Child: "peer", Survivor: "survivor",
			}
		},
	})
}

func TestCaps(t *testing.T) {
	rdmatest.Require(t, rdmatest.Verbs)
	r, err := fabricrail.Config{Provider: provider}.Open(rail.Incarnation{1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := r.Caps()
	got.MaxLength = 0
	if want := (rail.Caps{MaxBatch: 32, MaxImmediates: 256, MaxSend: 608, Completion: rail.Delivered, ImmSource: true,
		Read: true, DeathBy: rail.ByHeartbeat | rail.ByProcess, DeathWithin: 13 * time.Second, CancelProof: true}); got != want {
		t.Fatalf("%+v, not %+v", got, want)
	}
}
