//go:build linux && cgo && !nofabric

#include "../csrc/fabric/fabric.c"
