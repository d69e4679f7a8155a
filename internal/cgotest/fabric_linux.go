//go:build linux && cgo && !nofabric

package cgotest

// #include <rdma/fabric.h>
//
// static void weft_test_set_mode(void *info, uint64_t mode) { ((struct fi_info *)info)->mode = mode; }
import "C"

import "unsafe"

// SetInfoMode has a struct fi_info ask for a mode that its provider does not need.
func SetInfoMode(info unsafe.Pointer, mode uint64) { C.weft_test_set_mode(info, C.uint64_t(mode)) }
