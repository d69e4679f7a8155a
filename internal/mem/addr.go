package mem

import "unsafe"

// Addr returns the address of the first byte of b, as a NIC that b is registered with is told. It keeps nothing alive and
// pins nothing: whoever registers b does. A slice of no capacity gives 0 or an address that must not be used.
func Addr(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
