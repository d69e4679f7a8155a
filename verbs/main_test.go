package verbs_test

import (
	"testing"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

// children are the parts of child processes; files that not every platform has add theirs.
var children = rdmatest.Children{
	"peer":    playPeer,
	"memlock": registerOverLimit,
	"crash in C": func([]string) int {
		verbs.CrashInPoll()
		return 0
	},
}

func TestMain(m *testing.M) { rdmatest.Main(m, children) }
