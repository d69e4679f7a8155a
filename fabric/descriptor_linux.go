package fabric

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// descriptor is a queue's, and how Go's poller is told of it.
//
// The poller has an epoll instance that has the queue's descriptor only while somebody sleeps. A descriptor that is an epoll
// instance itself, as they are as a rule, tells every one that has it of all that happens, whether anybody listens or not: that was
// seen to take half a microsecond of each message over tcp, in whoever sends it.
type descriptor struct {
	fd    int // a duplicate: the original is libfabric's, which closes it
	epoll int // what file is of
	file  *os.File
}

func newDescriptor(fd int) (d descriptor, err error) {
	if d.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return d, fmt.Errorf("duplicate the queue's descriptor: %w", err)
	}
	if d.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err == nil {
		err = unix.SetNonblock(d.epoll, true) // or Go's poller would not take it
	}
	if err != nil {
		return d, closeAfter(fmt.Errorf("make an epoll instance: %w", err), func() error { return unix.Close(d.fd) })
	}
	d.file = os.NewFile(uintptr(d.epoll), "queue")
	return d, nil
}

// close gives both back; nothing is lost.
func (d *descriptor) close() {
	_ = d.file.Close()
	_ = unix.Close(d.fd)
}

// listen has the poller told when the descriptor is ready, also if it is already.
func (d *descriptor) listen() error {
	err := unix.EpollCtl(d.epoll, unix.EPOLL_CTL_ADD, d.fd, &unix.EpollEvent{Events: unix.EPOLLIN})
	if err != nil {
		return fmt.Errorf("wait for the queue's descriptor: %w", err)
	}
	return nil
}

// ignore ends that.
func (d *descriptor) ignore() { _ = unix.EpollCtl(d.epoll, unix.EPOLL_CTL_DEL, d.fd, nil) } // it is there

// readable tells whether the descriptor is ready to be read.
func (d *descriptor) readable() bool {
	polled := []unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(polled, 0)
	return err == nil && n > 0
}
