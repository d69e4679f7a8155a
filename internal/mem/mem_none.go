//go:build !linux && !darwin

package mem

import (
	"errors"
	"os"
)

const noFollow = 0

func mmap(int) ([]byte, error) { return nil, errors.ErrUnsupported }

func mmapFile(*os.File, int, bool) ([]byte, error) { return nil, errors.ErrUnsupported }

func munmap([]byte) error { return errors.ErrUnsupported }
