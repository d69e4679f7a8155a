package life_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/life"
)

// leave opens an object under a name that the stack shows.
func leave(t *testing.T) *life.Object { return open(t, "forgotten queue pair", nil) }

func TestLiveShowsWhoCreatedWhatIsOpen(t *testing.T) {
	forgotten := func() (entries []string) {
		for _, entry := range life.Live() {
			if strings.HasPrefix(entry, "forgotten queue pair created by\n") {
				entries = append(entries, entry)
			}
		}
		return entries
	}
	require.Empty(t, forgotten())
	first, second := leave(t), leave(t)
	require.Len(t, forgotten(), 2)
	require.NoError(t, second.Close())

	entries := forgotten()
	require.Len(t, entries, 1)
	require.Contains(t, entries[0], "life_test.leave\n")
	require.Contains(t, entries[0], "life_test.TestLiveShowsWhoCreatedWhatIsOpen\n")
	require.Contains(t, entries[0], "leaks_test.go:")
	require.NotContains(t, entries[0], "life.(*Object).Init")

	require.NoError(t, first.Close())
	require.Empty(t, forgotten())
}
