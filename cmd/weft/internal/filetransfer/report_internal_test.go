package filetransfer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReportIsBounded: a sender chooses neither how many files a receiver lists, nor how much memory their names take.
func TestReportIsBounded(t *testing.T) {
	var short, long Report
	name := strings.Repeat("x", 4095)
	for range 2 * maxListed {
		short.add(FileReport{Name: "x"})
		short.add(FileReport{Name: "x", Error: "it is refused"})
		long.add(FileReport{Name: name, Folder: true})
	}
	require.Equal(t, maxListed+maxListedFailed, len(short.Files))
	require.Equal(t, maxListedNames/len(name), len(long.Files), "which is not to be printed")
	require.Equal(t, Total{Files: 4 * maxListed, Failed: 2 * maxListed}, short.Total)
	require.Equal(t, Total{Files: 2 * maxListed}, long.Total)
}
