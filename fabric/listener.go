package fabric

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/weftrdma/weft/internal/life"
)

// Listener waits for connections of MSG endpoints (struct fid_pep, a passive endpoint).
type Listener struct {
	life life.Object
	told *Info
	ptr  unsafe.Pointer // struct fid_pep *
	eq   *EQ
}

// Listen opens a listener at the address of the info, and has requests for connections come to an event queue.
//
// Implements:
//
//	int fi_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep, void *context)
//	int fi_pep_bind(struct fid_pep *pep, struct fid *bfid, uint64_t flags)
//	int fi_listen(struct fid_pep *pep)
func (f *Fabric) Listen(info *Info, eq *EQ) (*Listener, error) {
	if err := f.life.Enter(); err != nil {
		return nil, err
	}
	defer f.life.Exit()
	told, err := f.checkListen(info, eq)
	if err != nil {
		return nil, invalid("listen: %w", err)
	}
	exit, err := enter(&eq.life)
	if err != nil {
		return nil, err
	}
	defer exit()
	l := &Listener{told: told, eq: eq}
	if l.ptr, err = cOpenListener(f.ptr, info); err != nil {
		return nil, fmt.Errorf("listen with %s: %w", told.Provider, err)
	}
	eq.know(l.ptr, l)
	if err = cBindListener(l.ptr, eq.ptr); err == nil {
		err = cListen(l.ptr)
	}
	if err == nil {
		err = l.life.Init("listener", &f.life, l.close, &eq.life)
	}
	if err != nil {
		return nil, fmt.Errorf("listen with %s: %w", told.Provider, closeAfter(err, l.close))
	}
	return l, nil
}

func (f *Fabric) checkListen(info *Info, eq *EQ) (*Info, error) {
	told, err := f.check(info)
	switch {
	case err != nil:
		return nil, err
	case eq == nil || told.Type != Msg:
		return nil, errors.New("it takes the info of an MSG endpoint, and an event queue")
	}
	return told, f.owns("EQ", eq.fabric)
}

func (l *Listener) close() error {
	if err := cCloseListener(l.ptr); err != nil {
		return life.Refused(err)
	}
	l.eq.forget(l.ptr, l)
	return nil
}

// Close closes the listener. Connections that were accepted stay.
func (l *Listener) Close() error { return l.life.Close() }

// Raw returns the struct fid_pep pointer, for calls that this package does not have.
func (l *Listener) Raw() unsafe.Pointer { return l.ptr }

func (l *Listener) lifetime() *life.Object { return &l.life }

// Name is the address that the listener is at.
func (l *Listener) Name() ([]byte, error) {
	if err := l.life.Enter(); err != nil {
		return nil, err
	}
	defer l.life.Exit()
	return cName(l.ptr)
}

// Reject refuses the connection of an EventConnReq, and sends param along.
//
// Implements:
//
//	int fi_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
func (l *Listener) Reject(request *Info, param []byte) error {
	if err := l.life.Enter(); err != nil {
		return err
	}
	defer l.life.Exit()
	if request == nil || request.request == nil || request.request.to != l {
		return invalid("reject: the info is not of a connection request to this listener")
	}
	if err := request.answer(); err != nil {
		return invalid("reject: %w", err)
	}
	return cReject(l.ptr, request, param)
}

// Connect asks a listener for a connection, and sends param along; an EventConnected, or an *[EventError], tells of the
// outcome. An empty address is that of the endpoint's info.
//
// Implements:
//
//	int fi_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen)
func (ep *Endpoint) Connect(address, param []byte) error {
	if len(address) == 0 {
		address = ep.told.DestAddr
	}
	return ep.connection(func() error {
		if err := ep.told.checkAddress("connect", address); err != nil {
			return err
		}
		return cConnect(ep.ptr, address, param)
	})
}

// Accept accepts the connection that the endpoint's info is of, one of an EventConnReq, and sends param along; an EventConnected
// follows.
//
// Implements:
//
//	int fi_accept(struct fid_ep *ep, const void *param, size_t paramlen)
func (ep *Endpoint) Accept(param []byte) error {
	return ep.connection(func() error {
		if ep.info.request == nil {
			return invalid("accept: the %s was not opened with the info of a connection request", ep.name)
		}
		return cAccept(ep.ptr, param)
	})
}

// Shutdown ends the connection; the peer gets an EventShutdown.
//
// Implements:
//
//	int fi_shutdown(struct fid_ep *ep, uint64_t flags)
func (ep *Endpoint) Shutdown() error {
	return ep.connection(func() error { return cShutdown(ep.ptr) })
}

func (ep *Endpoint) connection(call func() error) error {
	if err := ep.life.Enter(); err != nil {
		return err
	}
	defer ep.life.Exit()
	if ep.told.Type != Msg {
		return invalid("the %s has no connection: only MSG endpoints have one", ep.name)
	}
	return call()
}

// Peer is the address of the other end of the connection.
//
// Implements:
//
//	int fi_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
func (ep *Endpoint) Peer() (address []byte, err error) {
	err = ep.connection(func() error {
		address, err = cPeer(ep.ptr)
		return err
	})
	return address, err
}

// SetName gives the endpoint another address, where its provider has that after it was enabled.
//
// Implements:
//
//	int fi_setname(fid_t fid, void *addr, size_t addrlen)
func (ep *Endpoint) SetName(address []byte) error {
	if err := ep.life.Enter(); err != nil {
		return err
	}
	defer ep.life.Exit()
	if len(address) == 0 || len(address) > addrSize {
		return invalid("set name: it has %d bytes; 1 to %d are possible", len(address), addrSize)
	}
	return cSetName(ep.raw, address)
}
