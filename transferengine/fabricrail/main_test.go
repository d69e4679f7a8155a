package fabricrail_test

import (
	"testing"

	"github.com/weftrdma/weft/internal/rdmatest"
)

func TestMain(m *testing.M) {
	rdmatest.Main(m, map[string]func([]string) int{"conformance peer": conformancePeer, "stuck survivor": stuckSurvivor})
}
