//go:build !linux || !cgo || nofabric

package fabric_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/fabric"
)

func TestWithoutTheBindingEverythingIsUnsupported(t *testing.T) {
	_, err := fabric.GetInfo(fabric.Hints{})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "fabric is not part of this build")
	_, err = fabric.LibraryVersion()
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = fabric.Params()
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.EqualError(t, fabric.ETrunc, "libfabric error 265")
	require.Equal(t, "0x4", fabric.CapRMA.String())
}
