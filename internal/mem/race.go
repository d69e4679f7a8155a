//go:build race

package mem

import (
	"runtime"
	"unsafe"
)

// Reads tells the race detector, which does not see into C, that C reads s during the call that follows.
func Reads[T any](s []T) {
	if len(s) > 0 {
		runtime.RaceReadRange(unsafe.Pointer(unsafe.SliceData(s)), len(s)*int(unsafe.Sizeof(s[0])))
	}
}

// Writes tells it that C writes s.
func Writes[T any](s []T) {
	if len(s) > 0 {
		runtime.RaceWriteRange(unsafe.Pointer(unsafe.SliceData(s)), len(s)*int(unsafe.Sizeof(s[0])))
	}
}
