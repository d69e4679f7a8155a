package fabricrail_test

import (
	"testing"

	"github.com/weftrdma/weft/internal/rdmatest"
)

func TestMain(m *testing.M) {
	rdmatest.Main(m, rdmatest.Children{
		"conformance peer": conformancePeer, "conformance survivor": conformanceSurvivor, "stuck survivor": stuckSurvivor,
		"closers": closers, "writer": writer, "caller": caller,
		"called": called, "bench": playBench, "bench peer": playBenchPeer,
	})
}
