//go:build efa

package fabric_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
)

func TestEFAIsTheDefaultAndItsDirectFormFirst(t *testing.T) {
	require.Equal(t, "efa", fabric.OrDefaultProvider(""))
	require.Equal(t, "shm", fabric.OrDefaultProvider("shm"))
	a, b, c := &fabric.Info{Fabric: "efa"}, &fabric.Info{Fabric: "efa-direct"}, &fabric.Info{Fabric: "efa", Domain: "other"}
	require.Equal(t, []*fabric.Info{b, a, c}, fabric.Preferred([]*fabric.Info{a, b, c}))
}

func TestEFAOptionsAreThoseOfTheLibrary(t *testing.T) {
	old, recent := fabric.EFAOptions(fabric.Version{Major: 1, Minor: 17}), fabric.EFAOptions(fabric.Version{Major: 2, Minor: 1})
	require.Equal(t, []fabric.Option{fabric.SizeOption(fabric.OptEFARNRRetry, 7)}, old)
	require.Equal(t, append(old, fabric.BoolOption(fabric.OptSharedMemoryPermitted, false),
		fabric.BoolOption(fabric.OptCUDAAPIPermitted, false)), recent)
	require.Equal(t, -0xefa0000, fabric.OptEFARNRRetry)
}
