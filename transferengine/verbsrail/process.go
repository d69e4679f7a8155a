package verbsrail

import (
	"encoding/binary"
	"time"
)

// processInterval is how often the processes of peers on this host are looked at. It is a system call for each.
const processInterval = 100 * time.Millisecond

// process names a process for those on the same host. Its zero value names none.
type process struct {
	boot      [16]byte // of the kernel: /proc/sys/kernel/random/boot_id
	namespace uint64   // that pid is of: the inode of /proc/self/ns/pid
	pid       uint32
}

const processSize = 16 + 8 + 4

func (p process) pack() []byte {
	b := append(make([]byte, 0, processSize), p.boot[:]...)
	b = binary.BigEndian.AppendUint64(b, p.namespace)
	return binary.BigEndian.AppendUint32(b, p.pid)
}

func unpackProcess(b []byte) process {
	return process{boot: [16]byte(b), namespace: binary.BigEndian.Uint64(b[16:]), pid: binary.BigEndian.Uint32(b[24:])}
}

// visible tells whether a process can be told of another's end by the kernel. A process needs not be told of its own.
func (p process) visible(from process) bool {
	return p != process{} && p.boot == from.boot && p.namespace == from.namespace && p.pid != from.pid
}

// sentinel tells whether a process has ended.
//
// The process was alive when it sent the hello that named it. If it has ended since and its number was given to another,
// the sentinel watches a stranger: it then notices nothing, or the end of somebody whose connection is broken anyway.
type sentinel interface {
	ended() bool
	close()
}
