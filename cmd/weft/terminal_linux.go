package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalWidth is the width of a terminal in columns, 0 if the file is none (ioctl_tty(2)).
func terminalWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	if size.Col == 0 {
		return 80 // a terminal that does not say, such as a serial line
	}
	return int(size.Col)
}
