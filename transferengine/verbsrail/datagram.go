package verbsrail

import (
	"errors"
	"time"

	"github.com/weftrdma/weft/internal/mem"
	"github.com/weftrdma/weft/verbs"
)

// datagrams is the UD queue pair of the handshake with its buffers. It loses what it has no room for: the handshake sends
// everything again.
type datagrams struct {
	pd   *verbs.PD
	gid  verbs.GIDEntry
	path verbs.Path
	qp   *verbs.QP
	qkey uint32

	memory *mem.Buffer // receives of size bytes each, then sends of maxDatagram
	mr     *verbs.MR
	size   int

	generation uint32 // grows with every reset, so that completions from before it are known
	free       []uint16
	sending    [datagramSends]*handle // in the buffer of that index
	handles    map[address]*handle
	err        error // the queue pair is lost for good
	sent       int
	fault      func(n int) int
}

// handle is an address handle, kept for the next datagram to the same address.
type handle struct {
	ah     *verbs.AH
	made   time.Time
	flying int // sends that use it
}

const (
	maxHandles = 64               // rxe of old kernels has 100
	handleLife = 30 * time.Second // then the address is resolved again: it may have moved to another MAC
)

// open makes the queue pair on the rail's device. A receive has room for the largest datagram that the port takes, since a
// longer one than its buffer would break the queue pair.
func (d *datagrams) open(cq *verbs.CQ, mtu verbs.MTU) (err error) {
	d.size = verbs.GRHSize + int(mtu)
	d.handles = make(map[address]*handle)
	if d.memory, err = mem.Map(datagramRecvs*d.size + datagramSends*maxDatagram); err != nil {
		return err
	}
	if d.mr, err = d.pd.RegMR(d.memory.Bytes(), verbs.AccessLocalWrite); err != nil {
		return err
	}
	if d.qp, err = d.pd.CreateQP(verbs.QPConfig{
		Type: verbs.UD, SendCQ: cq, RecvCQ: cq, MaxSendWR: datagramSends, MaxRecvWR: datagramRecvs,
	}); err != nil {
		return err
	}
	return d.activate()
}

// activate brings the queue pair from the reset state to use.
func (d *datagrams) activate() error {
	d.generation++
	d.free = d.free[:0]
	for i := range uint16(datagramSends) {
		d.free = append(d.free, i)
		if h := d.sending[i]; h != nil {
			h.flying--
			d.sending[i] = nil
		}
	}
	if err := d.qp.Activate(d.gid.Port, d.qkey); err != nil {
		return err
	}
	for i := range uint16(datagramRecvs) {
		if err := d.receive(i); err != nil {
			return err
		}
	}
	return nil
}

// reset takes the queue pair back into use after it failed. rxe lets one fail for a datagram that finds no route.
func (d *datagrams) reset() {
	if err := d.qp.Reset(); err != nil {
		d.err = err
		return
	}
	d.err = d.activate()
}

// receive posts the receive of a buffer.
func (d *datagrams) receive(i uint16) error {
	_, err := d.qp.PostRecv(
		[]verbs.RecvWR{{ID: tag(0, d.generation).with(workDatagramRecv, i), NumSGE: 1}},
		[]verbs.SGE{{Addr: d.mr.Addr() + uint64(i)*uint64(d.size), Length: uint32(d.size), LKey: d.mr.LKey()}})
	return err
}

// send sends a datagram.
func (d *datagrams) send(now time.Time, to address, datagram []byte) error {
	copies := 1
	if d.fault != nil {
		copies = d.fault(d.sent)
	}
	d.sent++
	for range copies {
		if err := d.sendOne(now, to, datagram); err != nil {
			return err
		}
	}
	return nil
}

func (d *datagrams) sendOne(now time.Time, to address, datagram []byte) error {
	if d.err != nil {
		return d.err
	}
	h, err := d.handle(now, to)
	if err != nil || h == nil || len(d.free) == 0 {
		return err
	}
	i := d.free[len(d.free)-1]
	offset := datagramRecvs*d.size + int(i)*maxDatagram
	n := copy(d.memory.Bytes()[offset:], datagram)
	if _, err := d.qp.PostSend(
		[]verbs.SendWR{{
			ID: tag(0, d.generation).with(workDatagramSend, i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, NumSGE: 1,
			AH: h.ah.Ref(), RemoteQPN: to.qpn, RemoteQKey: to.qkey,
		}},
		[]verbs.SGE{{Addr: d.mr.Addr() + uint64(offset), Length: uint32(n), LKey: d.mr.LKey()}}); err != nil {
		return err
	}
	d.free = d.free[:len(d.free)-1]
	d.sending[i] = h
	h.flying++
	return nil
}

// handle returns the handle of an address, or nil when too many are in use.
func (d *datagrams) handle(now time.Time, to address) (*handle, error) {
	if h := d.handles[to]; h != nil {
		if h.flying > 0 || now.Sub(h.made) < handleLife {
			return h, nil
		}
		if err := d.dropHandle(to); err != nil {
			return nil, err
		}
	}
	if len(d.handles) == maxHandles {
		oldest, found := address{}, false
		for a, h := range d.handles {
			if h.flying == 0 && (!found || h.made.Before(d.handles[oldest].made)) {
				oldest, found = a, true
			}
		}
		if !found {
			return nil, nil
		}
		if err := d.dropHandle(oldest); err != nil {
			return nil, err
		}
	}
	ah, err := d.pd.CreateAH(verbs.AHConfig{
		Port: d.gid.Port, GIDIndex: d.gid.Index, RemoteGID: to.gid, RemoteLID: to.lid, Path: d.path,
	})
	if err != nil {
		return nil, err
	}
	h := &handle{ah: ah, made: now}
	d.handles[to] = h
	return h, nil
}

func (d *datagrams) dropHandle(to address) error {
	if err := d.handles[to].ah.Close(); err != nil {
		return err
	}
	delete(d.handles, to)
	return nil
}

// sendDone takes the completion of a send.
func (d *datagrams) sendDone(id workID, wc *verbs.WC) {
	if id.tag() != tag(0, d.generation) {
		return
	}
	i := id.index()
	if h := d.sending[i]; h != nil {
		h.flying--
		d.sending[i] = nil
		d.free = append(d.free, i)
	}
	if wc.Status != verbs.WCSuccess {
		d.reset()
	}
}

// arrived takes the completion of a receive and returns its datagram, which is valid until done is called with its index.
func (d *datagrams) arrived(id workID, wc *verbs.WC) (from source, datagram []byte, ok bool) {
	if id.tag() != tag(0, d.generation) {
		return source{}, nil, false
	}
	if wc.Status != verbs.WCSuccess {
		d.reset()
		return source{}, nil, false
	}
	buffer := d.memory.Bytes()[int(id.index())*d.size:][:d.size]
	gid, hasGID := verbs.SourceGID(wc, buffer)
	from = source{gid: gid, hasGID: hasGID, lid: wc.SLID, qpn: wc.SrcQPN}
	return from, buffer[verbs.GRHSize:max(verbs.GRHSize, min(int(wc.ByteLen), d.size))], true
}

// done posts the receive of a datagram again.
func (d *datagrams) done(id workID) {
	if id.tag() != tag(0, d.generation) {
		return // reset meanwhile, which posted all of them
	}
	if err := d.receive(id.index()); err != nil {
		d.reset()
	}
}

func (d *datagrams) close() error {
	var errs []error
	if d.qp != nil {
		errs = append(errs, d.qp.Close())
	}
	for to := range d.handles {
		errs = append(errs, d.dropHandle(to))
	}
	if d.mr != nil {
		errs = append(errs, d.mr.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return err // what the NIC may still use stays mapped
	}
	if d.memory != nil {
		return d.memory.Close()
	}
	return nil
}

// source is what a NIC says of a datagram's sender.
type source struct {
	gid    [16]byte
	hasGID bool // a datagram that crossed no router on InfiniBand has none
	lid    uint16
	qpn    uint32
}

// agrees tells whether a datagram that says it comes from a does.
func (s source) agrees(a address) bool {
	if s.hasGID {
		return s.gid == a.gid && s.qpn == a.qpn
	}
	return s.lid == a.lid && s.qpn == a.qpn
}
