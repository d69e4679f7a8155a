//go:build linux && cgo && !noverbs

package verbs_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

func init() { children["memlock of queues"] = createOverLimit }

// TestNullMemlockOfQueues: their memory is locked as registered memory is, and ENOMEM says as little about it.
func TestNullMemlockOfQueues(t *testing.T) {
	child := exec.CommandContext(t.Context(), "/proc/self/exe")
	child.Env = append(os.Environ(), rdmatest.ChildVar+"=memlock of queues")
	if os.Geteuid() == 0 { // which has CAP_IPC_LOCK
		child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, 4)
	for i, what := range []string{"completion queue of depth 4", "completion queue to 8", "queue pair of 4 send", "SRQ of 4"} {
		require.Contains(t, lines[i], "true true "+map[bool]string{true: "create ", false: "resize "}[i != 1])
		require.Contains(t, lines[i], what)
		require.Contains(t, lines[i], "limit on locked memory of 64 KiB, needed are the queue's own memory and what is registered")
	}
}

// createOverLimit prints of each error whether it is ErrMemlock and ENOMEM, and its text.
func createOverLimit([]string) int {
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 << 10, Max: 64 << 10}); err != nil {
		panic(err)
	}
	null, err := cgotest.OpenNull()
	if err != nil {
		panic(err)
	}
	ctx, err := verbs.ImportContext(null.Context())
	if err != nil {
		panic(err)
	}
	pd, err := ctx.AllocPD()
	if err != nil {
		panic(err)
	}
	cq, err := ctx.CreateCQ(verbs.CQConfig{Depth: 4})
	if err != nil {
		panic(err)
	}
	for _, step := range []struct {
		call   string
		create func() error
	}{
		{"ibv_create_cq", func() error { _, err := ctx.CreateCQ(verbs.CQConfig{Depth: 4}); return err }},
		{"ibv_resize_cq", func() error { return cq.Resize(8) }},
		{"ibv_create_qp", func() error {
			_, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSendWR: 4})
			return err
		}},
		{"ibv_create_srq", func() error { _, err := pd.CreateSRQ(verbs.SRQConfig{MaxWR: 4}); return err }},
	} {
		null.Fail(step.call, 0, int(syscall.ENOMEM), syscall.ENOMEM)
		err := step.create()
		fmt.Println(errors.Is(err, verbs.ErrMemlock), errors.Is(err, syscall.ENOMEM), err)
	}
	if err := errors.Join(cq.Close(), pd.Close(), ctx.Close(), null.Close()); err != nil {
		panic(err)
	}
	return 0
}
