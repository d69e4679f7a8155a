package kvindex_test

import (
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/kvindex"
)

// The memory of TestKilledOwner: an arena, and what its owner has acknowledged, a word a key, with a count of all in front.
const (
	killedKeys  = 1 << 14
	killedBytes = 1 << 22
)

func mapped(t *testing.T, name string) []uint64 {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(killedBytes))
	b, err := syscall.Mmap(int(f.Fd()), 0, killedBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Munmap(b)) })
	return unsafe.Slice((*uint64)(unsafe.Pointer(&b[0])), killedBytes/8)
}

// TestKilledOwner kills processes that write to an arena in a mapped file, at any moment: each arena opens, and has every write
// that was acknowledged.
func TestKilledOwner(t *testing.T) {
	random := newRandom(t)
	if name := os.Getenv("KVINDEX_KILLED_OWNER"); name != "" {
		a, err := kvindex.NewArena(mapped(t, name), small)
		require.NoError(t, err)
		acknowledged := mapped(t, name+".acknowledged")
		for n := uint64(1); ; n++ {
			k := random.Uint64N(killedKeys)
			_, _, err := a.Put(k, n)
			require.NoError(t, err)
			atomic.StoreUint64(&acknowledged[1+k], n)
			atomic.StoreUint64(&acknowledged[0], n)
		}
	}
	kills, most := 2, uint64(3000)
	if *kvindex.Soak > 0 {
		kills, most = 1000, 20_000
	}
	for range kills {
		name := t.TempDir() + "/arena"
		acknowledged := mapped(t, name+".acknowledged")
		owner := exec.Command(os.Args[0], "-test.run=^TestKilledOwner$")
		owner.Env = append(os.Environ(), "KVINDEX_KILLED_OWNER="+name)
		require.NoError(t, owner.Start())
		some := 1 + random.Uint64N(most)
		for deadline := time.Now().Add(2 * time.Minute); atomic.LoadUint64(&acknowledged[0]) < some; runtime.Gosched() {
			require.True(t, time.Now().Before(deadline), "the owner has not come to write %d", some)
		}
		require.NoError(t, owner.Process.Kill())
		require.Error(t, owner.Wait())
		a, err := kvindex.OpenArena(mapped(t, name))
		require.NoError(t, err)
		require.NoError(t, a.Verify())
		r := a.Reader()
		for k := range uint64(killedKeys) {
			if n := acknowledged[1+k]; n > 0 {
				v, ok, err := r.Get(k)
				require.True(t, err == nil && ok && v >= n, "key %d: %d, %v, %v, acknowledged: %d", k, v, ok, err, n)
			}
		}
		_, _, err = a.Put(1, 1)
		require.NoError(t, err)
		require.NoError(t, a.Verify())
	}
}
