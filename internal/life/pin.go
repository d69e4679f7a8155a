package life

import (
	"runtime"
	"sync"
)

// pins holds every Pin that was not released. It is a package variable, since what a device was told of is a property of
// the process: it lasts until the device has forgotten it, whatever becomes of the object that stood for it in Go. A
// runtime.Pinner that is collected before Unpin ends the process, so it cannot be part of an object that can leak.
var pins struct {
	mu   sync.Mutex
	held map[*Pin]struct{}
}

// Pin keeps Go memory alive and at its address while a device or a C library may reach it. A Pin that nobody releases
// holds its memory for as long as the process runs.
type Pin struct{ pinner runtime.Pinner }

// NewPin pins mem. Memory outside the Go heap needs no pin, and gets none.
func NewPin(mem []byte) *Pin {
	p := new(Pin)
	if len(mem) == 0 {
		return p
	}
	p.pinner.Pin(&mem[0])
	pins.mu.Lock()
	defer pins.mu.Unlock()
	if pins.held == nil {
		pins.held = make(map[*Pin]struct{})
	}
	pins.held[p] = struct{}{}
	return p
}

// Release lets the memory go, once nothing can reach it by its address any more. Releasing a nil Pin, or one again, does
// nothing.
func (p *Pin) Release() {
	if p == nil {
		return
	}
	pins.mu.Lock()
	defer pins.mu.Unlock()
	delete(pins.held, p)
	p.pinner.Unpin()
}
