//go:build !linux

package filetransfer

import (
	"errors"
	"io/fs"
	"os"
)

const openFlags = 0

func stateOf(info fs.FileInfo) state {
	return state{size: info.Size(), modified: info.ModTime().UnixNano()}
}

func isSparse(fs.FileInfo) bool { return false }

func nextData(*os.File, int64, int64) (data, end int64, err error) {
	return 0, 0, errors.ErrUnsupported
}
