// Package process names processes for those on the same host, and tells of their end.
package process

import (
	"encoding/binary"
	"time"
)

// Interval is how often a [Sentinel] is asked as a rule: each time is a system call.
const Interval = 100 * time.Millisecond

// ID names a process for those on the same host. Its zero value names none.
type ID struct {
	Boot      [16]byte // of the kernel: /proc/sys/kernel/random/boot_id
	Namespace uint64   // that PID is of: the inode of /proc/self/ns/pid
	PID       uint32
}

// Size is the length of a packed ID in bytes.
const Size = 16 + 8 + 4

// Pack returns the ID as Size bytes, numbers big-endian.
func (p ID) Pack() []byte {
	b := append(make([]byte, 0, Size), p.Boot[:]...)
	b = binary.BigEndian.AppendUint64(b, p.Namespace)
	return binary.BigEndian.AppendUint32(b, p.PID)
}

// Unpack reads the Size bytes that Pack wrote.
func Unpack(b []byte) ID {
	return ID{Boot: [16]byte(b), Namespace: binary.BigEndian.Uint64(b[16:]), PID: binary.BigEndian.Uint32(b[24:])}
}

// Visible tells whether the process from can be told of the end of p by the kernel. A process needs not be told of its own.
func (p ID) Visible(from ID) bool {
	return p != ID{} && p.Boot == from.Boot && p.Namespace == from.Namespace && p.PID != from.PID
}

// Sentinel tells whether a process has ended.
//
// The process was alive when it sent the message that named it. If it has ended since and its number was given to another,
// the sentinel watches a stranger: it then notices nothing, or the end of somebody whose connection is broken anyway.
type Sentinel interface {
	// Ended tells whether it has.
	Ended() bool
	// Close gives back the descriptor.
	Close()
}
