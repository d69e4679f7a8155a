//go:build linux || darwin

package mem

import (
	"golang.org/x/sys/unix"

	"github.com/weftrdma/weft/internal/cerr"
)

func mmap(size int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, &cerr.Error{Op: "mmap", Err: err}
	}
	return b, nil
}

func munmap(b []byte) error {
	if err := unix.Munmap(b); err != nil {
		return &cerr.Error{Op: "munmap", Err: err}
	}
	return nil
}
