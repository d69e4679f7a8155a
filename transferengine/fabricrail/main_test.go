package fabricrail_test

import (
	"testing"

	"github.com/weftrdma/weft/internal/rdmatest"
)

// children are the parts that processes of these tests play.
var children = rdmatest.Children{
	"conformance peer": conformancePeer,
	"closers":          closers, "writer": writer, "caller": caller,
	"called": called, "bench": playBench, "bench peer": playBenchPeer,
}

func TestMain(m *testing.M) { rdmatest.Main(m, children) }
