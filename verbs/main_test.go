package verbs_test

import (
	"testing"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

func TestMain(m *testing.M) {
	rdmatest.Main(m, rdmatest.Children{
		"peer":    playPeer,
		"memlock": registerOverLimit,
		"crash in C": func([]string) int {
			verbs.CrashInPoll()
			return 0
		},
	})
}
