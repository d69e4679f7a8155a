package fabric_test

import (
	"testing"

	"github.com/weftrdma/weft/internal/rdmatest"
)

func TestMain(m *testing.M) {
	rdmatest.Main(m, rdmatest.Children{
		"target": playTarget, "survivor": playSurvivor, "holder": playHolder,
		"writer": playWriter,
	})
}
