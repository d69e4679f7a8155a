//go:build !linux

package process

// This names no process on this platform.
func This() ID { return ID{} }

// Watch has no sentinel on this platform.
func Watch(ID) Sentinel { return nil }
