package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strings"
	"syscall"
)

// Listening says what came of listening on an address: the error of net.Listen, nil if it went well.
func Listening(address string, err error) Finding {
	f := Finding{Check: "listen", Level: Broken}
	host, port, _ := net.SplitHostPort(address)
	var unknown *net.DNSError
	switch {
	case err == nil:
		return Finding{Check: f.Check, Level: OK, Text: fmt.Sprintf("%s can be listened on", address)}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		f.Text = fmt.Sprintf("this machine has no address %s", host)
		f.Fix = "give one that it has: " + strings.Join(addresses(), ", ")
	case errors.Is(err, syscall.EADDRINUSE):
		f.Text = fmt.Sprintf("another program listens on port %s", port)
		f.Fix = fmt.Sprintf("give another port, or end that program (ss -ltnp 'sport = :%s' names it)", port)
	case errors.Is(err, fs.ErrPermission):
		f.Text = fmt.Sprintf("port %s may not be listened on", port)
		f.Fix = "give a port from 1024 on: those below are root's"
	case errors.As(err, &unknown):
		f.Text = fmt.Sprintf("%q is not known here as a name of an address", host)
		f.Fix = "give an address: " + strings.Join(addresses(), ", ")
	default:
		f.Text, f.Fix = err.Error(), "give an address of this machine and a port: "+strings.Join(addresses(), ", ")
	}
	return f
}

// addresses are those of this machine that others can be given, and the loopback.
func addresses() []string {
	list := []string{"127.0.0.1"}
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && !prefix.Addr().IsLoopback() && !prefix.Addr().IsLinkLocalUnicast() {
			list = append(list, prefix.Addr().String())
		}
	}
	return list
}
