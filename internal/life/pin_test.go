package life_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/life"
	"github.com/weftrdma/weft/internal/rdmatest"
)

// region is an object as the bindings have them, of memory that a device knows.
type region struct {
	life life.Object
	pin  *life.Pin
}

func newRegion(mem []byte) (*region, error) {
	r := &region{pin: life.NewPin(mem)}
	return r, r.life.Init("memory region", nil, func() error { r.pin.Release(); return nil })
}

// leakPinnedMemory loses a region, and all that refers to it.
func leakPinnedMemory([]string) int {
	collected := make(chan struct{})
	func() {
		r, err := newRegion(make([]byte, 1<<16))
		if err != nil {
			panic(err)
		}
		runtime.AddCleanup(r, func(gone chan struct{}) { close(gone) }, collected)
	}()
	rdmatest.Collect()
	<-collected
	fmt.Println("alive")
	return 0
}

// TestALeakOfPinnedMemoryDoesNotEndTheProcess: the tests' own tracker does not keep what leaks, either.
func TestALeakOfPinnedMemoryDoesNotEndTheProcess(t *testing.T) {
	patience := rdmatest.Deadline(20 * time.Second)
	child := rdmatest.StartChild(t, "leak pinned memory")
	line, err := child.ReadLine(patience)
	require.NoError(t, err)
	require.Equal(t, "alive", line)
	require.ErrorContains(t, child.Wait(patience), "exit status 1")
	require.Contains(t, child.Stderr(), "1 left open:\nmemory region created by\n")
	require.Contains(t, child.Stderr(), "life_test.newRegion\n")
}

func TestAPinHoldsItsMemory(t *testing.T) {
	freed := make(chan struct{})
	pin := func() *life.Pin {
		mem := new([1 << 16]byte)
		runtime.AddCleanup(mem, func(freed chan struct{}) { close(freed) }, freed)
		return life.NewPin(mem[:])
	}()
	rdmatest.Collect()
	select {
	case <-freed:
		t.Fatal("pinned memory was collected")
	default:
	}
	pin.Release()
	pin.Release()
	rdmatest.Collect()
	<-freed
	life.NewPin(nil).Release()
	(*life.Pin)(nil).Release()
}
