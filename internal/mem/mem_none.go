//go:build !linux && !darwin

package mem

import "errors"

func mmap(int) ([]byte, error) { return nil, errors.ErrUnsupported }

func munmap([]byte) error { return errors.ErrUnsupported }
