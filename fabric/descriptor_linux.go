package fabric

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// descriptor is that of a queue, or of several, and how Go's poller is told of it.
//
// The poller has an epoll instance that has the queues' descriptors only while somebody sleeps. A descriptor that is an epoll
// instance itself, as they are as a rule, tells every one that has it of all that happens, whether anybody listens or not: that was
// seen to take half a microsecond of each message over tcp, in whoever sends it.
type descriptor struct {
	fds       []int
	owned     bool // fds is a duplicate: the original is libfabric's, which closes it
	listening bool
	epoll     int // what file is of
	file      *os.File
}

func newDescriptor(fd int) (d descriptor, err error) {
	if fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return d, fmt.Errorf("duplicate the queue's descriptor: %w", err)
	}
	if d, err = newDescriptors(); err != nil {
		return d, closeAfter(err, func() error { return unix.Close(fd) })
	}
	d.fds, d.owned = []int{fd}, true
	return d, nil
}

// newDescriptors is that of queues that are added and removed, each before it is closed.
func newDescriptors() (d descriptor, err error) {
	if d.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err == nil {
		err = unix.SetNonblock(d.epoll, true) // or Go's poller would not take it
	}
	if err != nil {
		return d, fmt.Errorf("make an epoll instance: %w", err)
	}
	d.file = os.NewFile(uintptr(d.epoll), "queue")
	return d, nil
}

// close gives everything back; nothing is lost.
func (d *descriptor) close() {
	_ = d.file.Close()
	if d.owned {
		_ = unix.Close(d.fds[0])
	}
}

// add has one more descriptor.
func (d *descriptor) add(fd int) error {
	d.fds = append(d.fds, fd)
	if d.listening {
		return d.listenTo(fd)
	}
	return nil
}

// remove takes back what add did.
func (d *descriptor) remove(fd int) {
	if i := slices.Index(d.fds, fd); i >= 0 {
		d.fds = slices.Delete(d.fds, i, i+1)
	}
	if d.listening {
		_ = unix.EpollCtl(d.epoll, unix.EPOLL_CTL_DEL, fd, nil) // it is there
	}
}

// listen has the poller told when a descriptor is ready, also if it is already.
func (d *descriptor) listen() error {
	d.listening = true
	for _, fd := range d.fds {
		if err := d.listenTo(fd); err != nil {
			d.ignore()
			return err
		}
	}
	return nil
}

func (d *descriptor) listenTo(fd int) error {
	err := unix.EpollCtl(d.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	if err != nil {
		return fmt.Errorf("wait for the queue's descriptor: %w", err)
	}
	return nil
}

// ignore ends that.
func (d *descriptor) ignore() {
	d.listening = false
	for _, fd := range d.fds {
		_ = unix.EpollCtl(d.epoll, unix.EPOLL_CTL_DEL, fd, nil) // it is there, or was not added
	}
}

// readable tells whether a descriptor is ready to be read.
func (d *descriptor) readable() bool {
	return readable(d.fds...)
}

func readable(fds ...int) bool {
	var few [8]unix.PollFd
	polled := few[:0]
	for _, fd := range fds {
		polled = append(polled, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	n, err := unix.Poll(polled, 0)
	return err == nil && n > 0
}
