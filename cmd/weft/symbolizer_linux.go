//go:build linux && cgo && !nosymbolizer

package main

// A crash inside a shim is then reported with the names of its C functions.
import _ "github.com/ianlancetaylor/cgosymbolizer"
