// Package mem allocates memory outside the Go heap. A NIC, another process or a C library may hold its address for as
// long as the buffer is open: the collector neither moves nor frees it, and no Go pointer is stored in C.
package mem

import (
	"fmt"
	"math"
	"os"
	"syscall"

	"github.com/weftrdma/weft/internal/life"
)

// Buffer is page-aligned, zeroed memory outside the Go heap.
type Buffer struct {
	life   life.Object
	bytes  []byte // the length asked for, at the start of mapped
	mapped []byte // whole pages
}

// Map returns a buffer of size bytes in an anonymous private mapping, which takes whole pages. A size below 1, or one
// that whole pages cannot hold, gives an error that wraps syscall.EINVAL; a platform without mappings gives one that
// wraps errors.ErrUnsupported.
func Map(size int) (*Buffer, error) {
	page := os.Getpagesize()
	limit := math.MaxInt - (page - 1)
	if size < 1 || size > limit {
		return nil, fmt.Errorf("map %d bytes: the size must be from 1 to %d bytes: %w", size, limit, syscall.EINVAL)
	}
	mapped, err := mmap((size + page - 1) &^ (page - 1))
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	b := &Buffer{bytes: mapped[:size:size], mapped: mapped}
	if err := b.life.Init("memory buffer", nil, b.unmap); err != nil {
		return nil, err
	}
	return b, nil
}

// Bytes returns the memory: exactly the length that was asked for, with no spare capacity, at a page boundary; nil
// after Close. The slice must not be used after Close: the addresses are then unmapped, or another mapping's.
func (b *Buffer) Bytes() []byte {
	if b.life.Enter() != nil {
		return nil
	}
	defer b.life.Exit()
	return b.bytes
}

// Close unmaps the memory. Whoever gave its address to a NIC deregisters it first. Closing again returns nil.
func (b *Buffer) Close() error { return b.life.Close() }

func (b *Buffer) unmap() error { return life.Refused(munmap(b.mapped)) }
