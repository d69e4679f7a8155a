//go:build !linux

package affinity

import "errors"

func pin(int) error        { return errors.ErrUnsupported }
func pinProcess(int) error { return errors.ErrUnsupported }
