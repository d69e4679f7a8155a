//go:build !linux

package affinity

import "errors"

func pinProcess(int) error { return errors.ErrUnsupported }
