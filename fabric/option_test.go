package fabric_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/rdmatest"
)

func TestOptionsAreSetAndRead(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	x := open(t, "tcp", setting{ep: func(_ *side, cfg *fabric.EndpointConfig) { cfg.MinMultiRecv = 96 }})
	n, err := x.ep.SizeOption(0)
	require.NoError(t, err)
	require.Equal(t, uint64(96), n)
	require.NoError(t, x.ep.SetOption(fabric.SizeOption(0, 128)))
	value, err := x.ep.Option(0, 8)
	require.NoError(t, err)
	require.Equal(t, fabric.SizeOption(0, 128).Value, value)
	require.Error(t, x.ep.SetOption(fabric.BoolOption(fabric.OptCUDAAPIPermitted, true)))
	require.Equal(t, []byte{1}, fabric.BoolOption(1, true).Value)
	require.Equal(t, []byte{0}, fabric.BoolOption(1, false).Value)
	_, err = x.ep.SizeOption(9999)
	require.Error(t, err)
}

// The parts of libfabric that no provider of this machine has are called all the same, and say so.
func TestRarePartsOfProvidersAreReached(t *testing.T) {
	rdmatest.Require(t, rdmatest.Fabric)
	x := open(t, "shm", setting{})
	_, err := fabric.OpenOps(x.domain, "none such")
	require.Error(t, err)
	require.Error(t, fabric.SetOps(x.domain, "none such", nil))
	require.Error(t, fabric.GetVal(x.ep, 77, nil))
	require.Error(t, fabric.SetVal(x.ep, 77, nil))
	require.Error(t, fabric.Control(x.ep, 99, nil))
	_, err = x.ep.Alias(fabric.FlagSend | fabric.FlagDeliveryComplete)
	require.Error(t, err)
	require.Error(t, x.ep.SetName([]byte("fi_shm://other")))
	eq := opened[*fabric.EQ](t)(x.fabric.OpenEQ(fabric.EQConfig{}))
	require.ErrorIs(t, x.domain.BindEQ(eq), errors.ErrUnsupported)
	require.Same(t, x.info, x.domain.Info())
	require.Same(t, x.fabric, x.domain.Fabric())
	require.Same(t, x.info, x.ep.Info())
	require.Equal(t, "shm", x.fabric.Name())
	for _, object := range []fabric.Object{x.fabric, x.domain, x.av, x.cq, x.ep} {
		require.NotNil(t, object.Raw())
	}
}
