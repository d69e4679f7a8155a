package fabricrail_test

import (
	"testing"

	"github.com/weftrdma/weft/internal/rdmatest"
)

func TestMain(m *testing.M) {
	rdmatest.Main(m, rdmatest.Children{
		"conformance peer": conformancePeer, "conformance survivor": conformanceSurvivor, "stuck survivor": stuckSurvivor,
		"bench": playBench, "bench peer": playBenchPeer,
		"closers": closers, "writer": writer,
	})
}
