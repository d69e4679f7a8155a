//go:build linux && cgo && !noverbs && !nosymbolizer

package verbs_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
)

// A crash inside a shim must name the C function: that is what cgosymbolizer is linked into test mains and commands for.
func TestCrashTraceNamesCFunction(t *testing.T) {
	child := exec.CommandContext(t.Context(), unstripped(t))
	child.Env = append(os.Environ(), rdmatest.ChildVar+"=crash in C")
	trace, err := child.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(trace), "SIGSEGV")
	require.Contains(t, string(trace), "\nweft_cq_poll_once\n")
	require.Contains(t, string(trace), "csrc/verbs/queue.c:")
}

// unstripped returns this test binary, or one built from the same sources where it has no debug information: "go test"
// strips what it runs, "go test -c" does not.
func unstripped(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	binary, err := elf.Open(self)
	require.NoError(t, err)
	defer binary.Close()
	if binary.Section(".debug_info") != nil || binary.Section(".zdebug_info") != nil {
		return self
	}
	built := filepath.Join(t.TempDir(), "verbs.test")
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", built, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return built
}
