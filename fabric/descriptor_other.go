//go:build !linux

package fabric

import "os"

// descriptor is of linux alone, as libfabric is here.
type descriptor struct{ file *os.File }

func newDescriptor(int) (descriptor, error) { return descriptor{}, errNone }

func newDescriptors() (descriptor, error) { return descriptor{}, errNone }

func (d *descriptor) close() {}

func (d *descriptor) add(int) error { return errNone }

func (d *descriptor) remove(int) {}

func (d *descriptor) listen() error { return errNone }

func (d *descriptor) ignore() {}

func (d *descriptor) readable() bool { return false }

func readable(...int) bool { return false }
