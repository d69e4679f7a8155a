package cerr_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weftrdma/weft/internal/cerr"
)

func TestErrorReachesTheErrno(t *testing.T) {
	err := fmt.Errorf("open engine: %w", cerr.New("ibv_reg_mr", syscall.ENOMEM))
	require.EqualError(t, err, "open engine: ibv_reg_mr: cannot allocate memory")
	require.ErrorIs(t, err, syscall.ENOMEM)
	require.NotErrorIs(t, err, syscall.EBUSY)
	var failed *cerr.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "ibv_reg_mr", failed.Op)
}

func TestErrorOfAMissingPartIsErrUnsupported(t *testing.T) {
	require.ErrorIs(t, cerr.New("ibv_create_srq", syscall.EOPNOTSUPP), errors.ErrUnsupported)
	require.ErrorIs(t, cerr.New("ibv_create_srq", syscall.ENOSYS), errors.ErrUnsupported)
	require.ErrorIs(t, cerr.New("ibv_reg_dmabuf_mr", syscall.EPROTONOSUPPORT), errors.ErrUnsupported)
	require.ErrorIs(t, cerr.New("fi_setopt", syscall.ENOPROTOOPT), errors.ErrUnsupported)
	require.ErrorIs(t, cerr.New("fi_setopt", syscall.ENOPROTOOPT), syscall.ENOPROTOOPT)
	require.NotErrorIs(t, cerr.New("ibv_create_srq", syscall.EINVAL), errors.ErrUnsupported)
}

func TestNoErrnoIsNoError(t *testing.T) {
	require.NoError(t, cerr.New("ibv_reg_mr", 0))
}
