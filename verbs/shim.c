//go:build linux && cgo && !noverbs

#include "../csrc/verbs/verbs.c"
