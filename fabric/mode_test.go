//go:build linux && cgo && !nofabric

package fabric_test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/cgotest"
	"github.com/weftrdma/weft/internal/rdmatest"
)

// TestMemoryModesAreHeeded: what a provider returned decides by which address and key peers reach a region, and who chooses the key.
// tcp takes any combination; but ofi_rxm, which is on it, does not pass on that addresses are virtual, so then nothing is moved. shm has
// virtual addresses by itself.
func TestMemoryModesAreHeeded(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	for _, mode := range []fabric.MRMode{
		0, fabric.MRVirtAddr, fabric.MRProvKey, fabric.MRVirtAddr | fabric.MRProvKey, fabric.MRLocal | fabric.MRAllocated,
		fabric.MRLocal | fabric.MRAllocated | fabric.MRVirtAddr | fabric.MRProvKey,
	} {
		t.Run(fmt.Sprint("mode", mode), func(t *testing.T) {
			a, b := pair(t, "tcp", setting{info: func(i *fabric.Info) { cgotest.SetInfoMRMode(i.Raw(), uint32(mode)) }})
			asked := cgotest.WatchKeys(b.domain.Raw())
			from, to := a.buffer(64), b.buffer(64)
			if mode&fabric.MRVirtAddr != 0 {
				require.Equal(t, to.Local(), to.Addr())
			} else {
				require.Zero(t, to.Addr(), "offsets count from 0")
			}
			own, err := b.domain.RegMR(make([]byte, 8), fabric.MRConfig{Key: 77})
			if mode&fabric.MRProvKey != 0 {
				require.Zero(t, asked(), "the provider chooses")
				require.ErrorIs(t, err, syscall.EINVAL)
				require.ErrorContains(t, err, "chooses keys itself")
			} else {
				require.NoError(t, err)
				require.Equal(t, uint64(77), own.RKey())
				require.NoError(t, own.Close())
				drawn := b.buffer(8)
				require.Equal(t, asked(), drawn.RKey())
				require.NotZero(t, drawn.RKey()>>16, "drawn at random from all its bytes")
			}
			if mode&fabric.MRVirtAddr != 0 {
				return
			}
			copy(from.bytes, "by address and key")
			op := to.at(fabric.Op{ID: 1, NumSeg: 1, Flags: fabric.FlagDeliveryComplete}, 32)
			a.post(a.ep.Write, []fabric.Op{op}, []fabric.Seg{from.Seg(0, 18)}, b)
			a.complete(1, b)
			require.Equal(t, "by address and key", string(to.bytes[32:50]))
			clear(from.bytes)
			a.post(a.ep.Read, []fabric.Op{to.at(fabric.Op{ID: 2, NumSeg: 1}, 35)}, []fabric.Seg{from.Seg(8, 7)}, b)
			a.complete(2, b)
			require.Equal(t, "address", string(from.bytes[8:15]))
		})
	}
}
