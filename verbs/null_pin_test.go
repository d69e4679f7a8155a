//go:build linux && cgo && !noverbs

package verbs_test

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/rdmatest"
	"github.com/weftrdma/weft/verbs"
)

// registerForgotten registers a Go slice that nothing refers to afterwards but the region, and counts its collection.
//
//go:noinline
func registerForgotten(t *testing.T, n *nullNode, collected *atomic.Int32, reg func([]byte) (*verbs.MR, error)) *verbs.MR {
	mem := make([]byte, 1<<16)
	runtime.AddCleanup(&mem[0], func(int) { collected.Add(1) }, 0)
	mr, err := reg(mem)
	require.NoError(t, err)
	return mr
}

// While a region is open its memory stays, although nothing in Go refers to it: a NIC writes there. When it is closed, the
// memory can go; and so it can when the registration failed.
func TestRegMRKeepsItsMemory(t *testing.T) {
	n := newNull(t, nil)
	for name, reg := range map[string]func([]byte) (*verbs.MR, error){
		"RegMR":     func(mem []byte) (*verbs.MR, error) { return n.pd.RegMR(mem, remoteAccess) },
		"RegMRIOVA": func(mem []byte) (*verbs.MR, error) { return n.pd.RegMRIOVA(mem, 0x10000, remoteAccess) },
	} {
		t.Run(name, func(t *testing.T) {
			var collected, others atomic.Int32
			mr := registerForgotten(t, n, &collected, reg)
			for range 3 {
				func() {
					other := make([]byte, 1<<16)
					runtime.AddCleanup(&other[0], func(int) { others.Add(1) }, 0)
				}()
				runtime.GC()
			}
			require.Eventually(t, func() bool { runtime.GC(); return others.Load() == 3 }, rdmatest.Deadline(20*time.Second),
				time.Millisecond, "the collector runs")
			require.Zero(t, collected.Load(), "memory of an open region was collected")
			require.NoError(t, mr.Close())
			require.Eventually(t, func() bool { runtime.GC(); return collected.Load() == 1 }, rdmatest.Deadline(20*time.Second),
				time.Millisecond, "memory of a closed region is kept")
			collected.Store(0)
			n.null.Fail("ibv_reg_mr_iova2", 0, 0, syscall.ENOSPC)
			registerForgotten(t, n, &collected, func(mem []byte) (*verbs.MR, error) {
				_, err := reg(mem)
				require.ErrorIs(t, err, syscall.ENOSPC)
				return nil, nil
			})
			require.Eventually(t, func() bool { runtime.GC(); return collected.Load() == 1 }, rdmatest.Deadline(20*time.Second),
				time.Millisecond, "memory that was not registered is kept")
		})
	}
}
