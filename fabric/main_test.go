package fabric_test

import (
	"testing"

	"github.com/weftrdma/weft/internal/rdmatest"
)

// children are the parts that processes of this test binary play; a file that is not part of every build adds its own.
var children = rdmatest.Children{"target": playTarget, "survivor": playSurvivor, "holder": playHolder,
	"openers": playOpeners, "leak": playLeak, "params": playParams}

func TestMain(m *testing.M) { rdmatest.Main(m, children) }
