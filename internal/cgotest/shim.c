//go:build linux && cgo && !noverbs

#include "../../csrc/null/null.c"
