package simrail

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/weftrdma/weft/transferengine/rail"
)

// packet is something on its way to a link, or to an address.
type packet struct {
	kind    packetKind
	due     time.Time
	rank    uint64 // among those that are due at the same time
	from    *link  // nil for what no peer sent
	to      *link  // nil for a hello
	address string // where a hello goes
	flight  *flight
	err     error
	count   int
	cut     uint64
	data    []byte
}

type packetKind uint8

const (
	hello   packetKind = iota // asks for a connection
	welcome                   // grants it
	request                   // an operation
	answer                    // how an operation ended
	grant                     // of count immediates
	message                   // of an engine
	bye                       // the sender has destroyed its end
	byeSeen                   // and so has the receiver of the bye
	lost                      // the peer's end is gone
	silence                   // for too long, if still cut
	retry                     // of a hello, or the end of it
	overdue                   // the answer to a bye
)

// flight is an operation that a rail accepted.
type flight struct {
	link  *link
	op    rail.Op
	fault Fault
	done  bool
	sent  []byte // what the packets of a write have that outlive it
}

// crosses tells whether a cut holds the packet back.
func (p *packet) crosses() bool { return p.kind <= byeSeen && p.from != nil }

// path is the connection that the packet crosses.
func (p *packet) path() [2]string {
	if p.from == nil {
		return [2]string{}
	}
	return between(p.from.rail.address, p.from.address)
}

// target is the rail whose turn lets the packet arrive on a network where targets move everything themselves.
func (p *packet) target() *Rail {
	switch p.kind {
	case request, message:
		return p.to.rail
	}
	return nil
}

// arrive does what the packet is for.
func (p *packet) arrive() {
	switch p.kind {
	case hello:
		p.from.rail.network.welcome(p)
	case welcome:
		if p.to.state == calling && p.from.state == up {
			p.to.rise(p.from)
		}
	case request:
		p.land()
	case answer:
		p.flight.link.completed(p.flight, p.err)
	case grant:
		p.to.credit += p.count
		p.to.rail.wake()
	case message:
		if p.to.hears(p.from) {
			p.to.emit(rail.Event{Kind: rail.Message, Peer: p.to.id, Data: p.data})
		}
	case bye:
		p.to.left(p.from)
	case byeSeen:
		p.to.end(true)
	case lost:
		p.to.loses(fmt.Errorf("%s: %w", p.to.address, rail.ErrPeerGone))
	case silence:
		if p.to.rail.network.cuts[between(p.to.rail.address, p.to.address)] == p.cut {
			p.to.loses(fmt.Errorf("%s: %w: nothing came from it", p.to.address, rail.ErrPeerGone))
		}
	case retry:
		p.to.call()
	case overdue:
		p.to.end(false)
	}
}

// land does an operation at its target, and answers.
func (p *packet) land() {
	f, n := p.flight, p.to.rail.network
	if !p.to.hears(p.from) {
		if n.config.NoRecall {
			n.push(&packet{kind: answer, from: p.to, to: f.link, flight: f, err: rail.ErrPeerGone}, n.draw(n.config.Delay))
		}
		return // or nobody answers
	}
	err := f.fault.Err
	if err == nil || f.fault.Delivered {
		if failed := f.execute(p.to); failed != nil {
			err = failed
		}
	}
	n.push(&packet{kind: answer, from: p.to, to: f.link, flight: f, err: err}, n.draw(n.config.Delay))
}

// execute does an operation. The immediate comes after the bytes.
func (f *flight) execute(at *link) error {
	need := [...]rail.Access{rail.Write: rail.RemoteWrite, rail.Read: rail.RemoteRead, rail.FetchAdd: rail.RemoteAtomic,
		rail.CompareSwap: rail.RemoteAtomic}[f.op.Kind]
	remote, err := at.rail.remote(f.op.RemoteKey, f.op.RemoteAddr, f.op.Length, need)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", at.rail.address, rail.ErrAccess, err)
	}
	local := f.sent
	if f.op.Length > 0 && !f.done {
		if local, err = f.link.rail.local(f.op.LocalKey, f.op.LocalAddr, f.op.Length); err != nil {
			return fmt.Errorf("local memory: %w: %w", syscall.EFAULT, err)
		}
	}
	n := at.rail.network
	switch f.op.Kind {
	case rail.Write:
		n.copy(remote, local)
		if f.fault.Corrupt && len(remote) > 0 {
			remote[len(remote)/2] ^= 1
		}
	case rail.Read:
		if !f.done {
			n.copy(local, remote)
		}
	default:
		f.modify(local, remote)
	}
	if f.op.HasImm {
		at.emit(rail.Event{Kind: rail.Immediate, Peer: at.source(), Imm: f.op.Imm})
	}
	return nil
}

// modify does an atomic operation.
func (f *flight) modify(local, remote []byte) {
	before := binary.NativeEndian.Uint64(remote)
	if !f.done {
		binary.NativeEndian.PutUint64(local, before)
	}
	if f.op.Kind == rail.FetchAdd {
		binary.NativeEndian.PutUint64(remote, before+f.op.Operand)
	} else if before == f.op.Compare {
		binary.NativeEndian.PutUint64(remote, f.op.Operand)
	}
}

// copy copies memory, or its ends if the network is told to.
func (n *Network) copy(to, from []byte) {
	if ends := n.config.CopyEnds; ends > 0 && uint64(len(to)) > 2*ends {
		copy(to[:ends], from)
		to, from = to[uint64(len(to))-ends:], from[uint64(len(from))-ends:]
	}
	copy(to, from)
}

// completed reports how an operation ended.
func (l *link) completed(f *flight, err error) {
	if f.done || l.state == dead {
		return
	}
	f.done = true
	l.flying--
	l.unsure = l.unsure || err != nil
	l.emit(rail.Event{Kind: rail.Completed, Peer: l.id, Token: f.op.Token, Err: err})
	if err != nil && f.fault.Break {
		l.die(err)
	}
	l.settle()
}

// takeBack completes what is in flight, if the network's rails can.
func (l *link) takeBack() {
	if !l.rail.network.config.NoRecall {
		l.flush()
	}
}

// flush completes what is in flight. It may land yet.
func (l *link) flush() {
	for _, f := range l.flights {
		if !f.done {
			if f.op.Kind == rail.Write && f.op.Length > 0 {
				if from, err := l.rail.local(f.op.LocalKey, f.op.LocalAddr, f.op.Length); err == nil {
					f.sent = bytes.Clone(from)
				}
			}
			f.done, l.unsure = true, true
			l.emit(rail.Event{Kind: rail.Completed, Peer: l.id, Token: f.op.Token, Err: rail.ErrFlushed})
		}
	}
	l.flights, l.flying = nil, 0
}

// errClosed is the cause of a peer that was given up.
func (l *link) errClosed() error {
	return fmt.Errorf("%s was disconnected: %w", l.address, net.ErrClosed)
}

// errGaveUp is the cause of a peer that was not reached.
func (l *link) errGaveUp() error {
	return fmt.Errorf("%s: %w", l.address, rail.ErrUnreachable)
}
