package inbox_test

import (
	"io/fs"
	"syscall"
)

// blocks is how many blocks of 512 bytes a file has.
func blocks(info fs.FileInfo) int64 { return info.Sys().(*syscall.Stat_t).Blocks }
